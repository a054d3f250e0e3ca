/* SPDX-License-Identifier: MIT */
/* The DiagnosticServer's life: start, fork, stop, and requests whose reply exceeds a message. */
#include <criterion/criterion.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/provider.h>

#include "base/clock.h"
#include "diag/diag.h"
#include "diag_talk.h"

#define FDS_MAX 1024
#define DELAY_MS 100

TestSuite(diag_server, .init = set_up, .fini = tear_down);

/* Whether the descriptor is of a kind that the server opens. Checking tools open other files. */
static bool is_servers(const char *fd)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%.16s", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 &&
	       (strncmp(target, "socket:", 7) == 0 ||
		strncmp(target, "anon_inode:[event", 17) == 0);
}

/* Which descriptors are open. */
static void list_fds(bool ret_open[FDS_MAX])
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;

	memset(ret_open, 0, FDS_MAX * sizeof(bool));
	while ((entry = readdir(folder))) {
		int fd = atoi(entry->d_name);

		if (is_servers(entry->d_name) && fd < FDS_MAX)
			ret_open[fd] = true;
	}
	closedir(folder);
}

Test(diag_server, serves_again_after_stop_and_start)
{
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(rp_diag_start(0), 0);
		cr_assert_eq(ask_pid(), (uint64_t)getpid());
		rp_diag_stop();
	}
}

Test(diag_server, stop_needs_no_start_and_start_no_stop)
{
	rp_diag_stop();
	rp_diag_stop();
	cr_assert_eq(rp_diag_start(0), 0);
	cr_assert_eq(rp_diag_start(0), 0);
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
}

/* An hour's delay: the test ends only if stop does not wait for it. */
Test(diag_server, stop_ends_the_delay_and_no_socket_ever_was)
{
	struct dirent *entry;
	DIR *folder;

	cr_assert_eq(rp_diag_start(3600000), 0);
	folder = opendir(directory);
	while ((entry = readdir(folder)))
		cr_assert_eq(entry->d_name[0], '.', "%s", entry->d_name);
	closedir(folder);
	rp_diag_stop();
}

static bool has_socket(void)
{
	DIR *folder = opendir(directory);
	struct dirent *entry;
	bool found = false;

	while ((entry = readdir(folder)))
		found |= entry->d_name[0] != '.';
	closedir(folder);
	return found;
}

/* setgid(2) signals each thread, and so interrupts the wait of the server's. */
Test(diag_server, delay_outlasts_changes_of_the_user)
{
	uint64_t end = rp_clock_monotonic_ns() + DELAY_MS * 1000000ull;

	cr_assert_eq(rp_diag_start(DELAY_MS), 0);
	while (!has_socket())
		cr_assert_eq(setgid(getgid()), 0);
	cr_assert_geq(rp_clock_monotonic_ns(), end);
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
}

Test(diag_server, directory_that_is_not_there_is_no_error)
{
	setenv("TMPDIR", "/nowhere/at/all", 1);
	cr_assert_eq(rp_diag_start(0), 0);
	rp_diag_stop();
}

Test(diag_server, forked_child_closes_what_it_inherited_and_the_parent_serves_on)
{
	static bool before[FDS_MAX], after[FDS_MAX];
	int client;

	list_fds(before);
	cr_assert_eq(rp_diag_start(0), 0);
	client = connect_to(getpid());
	for (int i = 0; i < 100; i++) {
		pid_t child;
		int fd;

		/*
		 * So the silent client was accepted before; the server may be closing this one now.
		 */
		cr_assert_eq(ask_pid(), (uint64_t)getpid());
		child = fork_child(&fd);
		if (child == 0) {
			rp_diag_stop();
			list_fds(after);
			after[client] = after[fd] = false;
			report_to_parent(fd, memcmp(before, after, sizeof(before)) == 0);
		}
		cr_assert(child_did_well(child, fd), "child %d", i);
	}
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	close(client);
}

Test(diag_server, forked_child_has_a_socket_of_its_own)
{
	pid_t child;
	int fd;

	cr_assert_eq(rp_diag_start(0), 0);
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	child = fork_child(&fd);
	if (child == 0) {
		bool serves;

		serves = ask_pid() == (uint64_t)getpid();
		rp_diag_stop();
		report_to_parent(fd, serves);
	}
	cr_assert(child_did_well(child, fd));
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
}

#define MANY_PROVIDERS 3000

static void create_providers(struct rp_provider *providers[MANY_PROVIDERS])
{
	char name[128];

	for (int i = 0; i < MANY_PROVIDERS; i++) {
		snprintf(name, sizeof(name), "A-Provider-With-A-Rather-Long-Name-%060d", i);
		cr_assert_eq(rp_provider_create(name, NULL, NULL, &providers[i]), 0);
	}
}

static void destroy_providers(struct rp_provider *providers[MANY_PROVIDERS])
{
	for (int i = 0; i < MANY_PROVIDERS; i++)
		cr_assert_eq(rp_provider_destroy(providers[i]), 0);
}

/* Reads all rows; fails at a truncated row. */
static uint32_t count_rows(struct rp_cursor payload)
{
	char text[1024];
	const uint8_t *bytes;
	uint32_t count, traced, losing;

	cr_assert_eq(rp_cursor_u32(&payload, &count), 0);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_gt(rp_message_get_string(&payload, text), 1);
		cr_assert_gt(rp_message_get_string(&payload, text), 0);
		cr_assert_eq(rp_cursor_take(&payload, 8 + 8 + 4 + 4, &bytes), 0);
		cr_assert_gt(rp_message_get_string(&payload, text), 0);
	}
	cr_assert_eq(rp_cursor_u32(&payload, &traced), 0);
	for (uint32_t i = 0; i < traced; i++) {
		cr_assert_gt(rp_message_get_string(&payload, text), 1);
		cr_assert_gt(rp_message_get_string(&payload, text), 1);
		cr_assert_eq(rp_cursor_take(&payload, 4, &bytes), 0);
	}
	cr_assert_eq(rp_cursor_u32(&payload, &losing), 0);
	cr_assert_eq(losing, 0u);
	cr_assert_eq(rp_cursor_end(&payload), 0);
	return count;
}

Test(diag_server, listing_longer_than_a_message_comes_whole)
{
	static struct rp_provider *providers[MANY_PROVIDERS];
	const size_t space = (size_t)4 << 20;
	uint8_t *reply = malloc(space);
	struct rp_message message;
	size_t size;
	int fd;

	create_providers(providers);
	cr_assert_eq(rp_diag_start(0), 0);
	fd = connect_to(getpid());
	cr_assert(send_request(fd, RP_MESSAGE_RINGPIPE, 0x00));
	size = receive_all(fd, reply, space);
	cr_assert_gt(size, RP_MESSAGE_BYTES_MAX);
	cr_assert_lt(size, space);
	rp_message_open(reply, size, &message);
	cr_assert_geq(count_rows(message.payload), MANY_PROVIDERS);
	close(fd);
	free(reply);
	destroy_providers(providers);
}

/*
 * The reply does not fit into the socket: the server serves others, and finally drops this client.
 */
Test(diag_server, client_that_does_not_take_its_reply_delays_no_other)
{
	static struct rp_provider *providers[MANY_PROVIDERS];
	struct pollfd end = { .events = POLLRDHUP };

	create_providers(providers);
	cr_assert_eq(rp_diag_start(0), 0);
	end.fd = connect_to(getpid());
	cr_assert(send_request(end.fd, RP_MESSAGE_RINGPIPE, 0x00));
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	cr_assert_eq(poll(&end, 1, 0), 0, "served only after the other one was given up");
	cr_assert_eq(poll(&end, 1, PATIENCE_SECONDS * 1000), 1);
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	close(end.fd);
	destroy_providers(providers);
}

#define SILENT 28

static void ask_for_listings(struct pollfd clients[SILENT])
{
	for (int i = 0; i < SILENT; i++) {
		if (clients[i].fd >= 0)
			close(clients[i].fd);
		clients[i] = (struct pollfd){ .fd = connect_to(getpid()), .events = POLLRDHUP };
		cr_assert(send_request(clients[i].fd, RP_MESSAGE_RINGPIPE, 0x00));
	}
	/* Queued after all of them, so their replies have been made. */
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	poll(clients, SILENT, 0);
}

/* The replies exceed the bound and no client reads: the oldest are dropped, the newest stay. */
Test(diag_server, unread_replies_stay_below_their_bound)
{
	static struct rp_provider *providers[MANY_PROVIDERS];
	const size_t space = (size_t)4 << 20, bound = (size_t)16 << 20;
	const time_t limit = time(NULL) + PATIENCE_SECONDS;
	struct pollfd clients[SILENT];
	uint8_t *reply = malloc(space);
	size_t size, given_up = 0;

	create_providers(providers);
	cr_assert_eq(rp_diag_start(0), 0);
	for (int i = 0; i < SILENT; i++)
		clients[i].fd = -1;
	/* On a slow machine even the newest may have reached its limit of five seconds. */
	do
		ask_for_listings(clients);
	while (clients[SILENT - 1].revents && time(NULL) <= limit);
	for (int i = 0; i < SILENT; i++) {
		given_up += !!clients[i].revents;
		if (i > 0)
			cr_assert_leq(!!clients[i].revents, !!clients[i - 1].revents,
				      "%d went before %d", i, i - 1);
	}
	cr_assert_eq(clients[SILENT - 1].revents, 0);
	size = receive_all(clients[SILENT - 1].fd, reply, space);
	cr_assert_gt(SILENT * size, bound, "too small to test anything");
	cr_assert_leq((SILENT - given_up) * size, bound, "%zu replies of %zu bytes",
		      SILENT - given_up, size);
	cr_assert_gt(given_up, 0);
	for (int i = 0; i < SILENT; i++)
		close(clients[i].fd);
	free(reply);
	destroy_providers(providers);
}
