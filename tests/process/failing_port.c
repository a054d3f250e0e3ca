/* SPDX-License-Identifier: MIT */
/*
 * usage: failing_port
 *
 * A client collects events over the diagnostic port while each libc call of the library's threads
 * fails, one at a time. The client may be refused or see its stream end early, but it never waits
 * for ever. Nothing leaks, and the next client receives everything.
 */
#include "check.h"
#include "counting.h"
#include "injecting.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

RP_PROVIDER(failing, "Test-Failing");
RP_EVENT(failing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

#define PROVIDER "Test-Failing"
#define EVENTS 20u
#define NTH_MAX 1000u
#define HEADER_BYTES 20u	/* magic 14, size 2, command set 1, command 1, reserved 2 */
#define EVENTPIPE 2
#define STOP 1
#define COLLECT 2

static char directory[] = "/tmp/rp-failing-XXXXXX";
static struct sockaddr_un port = { .sun_family = AF_UNIX };

static bool find_port(void)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	bool found = false;

	check(entries);
	while (!found && (entry = readdir(entries))) {
		found = strstr(entry->d_name, "-socket") != NULL;
		if (found)
			check(snprintf(port.sun_path, sizeof(port.sun_path), "%s/%s", directory,
				       entry->d_name) < (int)sizeof(port.sun_path));
	}
	closedir(entries);
	return found;
}

/* Return: a socket, or -1 while the port does not exist. */
static int connect_port(void)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0);
	check(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
	if (find_port() && connect(fd, (const struct sockaddr *)&port, sizeof(port)) == 0)
		return fd;
	check(close(fd) == 0);
	return -1;
}

/* Return: whether `size` bytes arrived before the end. A receive that times out fails the test. */
static bool receive(int fd, void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = recv(fd, (char *)bytes + done, size - done, 0);

		check(got >= 0 || (errno != EAGAIN && errno != EINTR));
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* Send a request and get the number from a successful reply. */
static bool ask(int fd, uint8_t command, const void *payload, uint16_t payload_bytes,
		uint64_t *ret_number)
{
	uint16_t bytes = (uint16_t)(HEADER_BYTES + payload_bytes);
	uint8_t message[256] = "DOTNET_IPC_V1", reply[HEADER_BYTES + 8];

	check(bytes <= sizeof(message));
	memcpy(message + 14, &bytes, sizeof(bytes));
	message[16] = EVENTPIPE;
	message[17] = command;
	memcpy(message + HEADER_BYTES, payload, payload_bytes);
	if (send(fd, message, bytes, MSG_NOSIGNAL) != bytes || !receive(fd, reply, HEADER_BYTES) ||
	    reply[17] != 0 || !receive(fd, reply + HEADER_BYTES, 8))
		return false;
	memcpy(ret_number, reply + HEADER_BYTES, sizeof(*ret_number));
	return true;
}

static void *put(void *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return (char *)at + size;
}

/* The request: 1 MB, nettrace, one provider with all keywords and levels, without arguments. */
static uint16_t build_request(uint8_t *payload)
{
	static const uint32_t head[] = { 1, 1, 1 };
	static const uint64_t keywords = UINT64_MAX;
	uint32_t level = 5, units = sizeof(PROVIDER);
	uint8_t *at = put(payload, head, sizeof(head));

	at = put(at, &keywords, sizeof(keywords));
	at = put(at, &level, sizeof(level));
	at = put(at, &units, sizeof(units));
	for (size_t i = 0; i < sizeof(PROVIDER); i++) {
		*at++ = (uint8_t)PROVIDER[i];
		*at++ = 0;
	}
	units = 0;
	at = put(at, &units, sizeof(units));
	return (uint16_t)(at - payload);
}

/* Return: whether the stream is complete and has all events. */
static bool read_stream(int fd)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t events = 0;

	if (rp_reader_open_fd(fd, &reader) != 0)
		return false;
	while (rp_reader_next(reader, &event) == 1)
		events += strcmp(event.type->provider, PROVIDER) == 0;
	rp_reader_get_stats(reader, &stats);
	rp_reader_close(reader);
	return stats.ended && stats.lost == 0 && events == EVENTS;
}

static bool stop(uint64_t session)
{
	int fd = connect_port();
	uint64_t stopped;
	bool done;

	if (fd < 0)
		return false;
	done = ask(fd, STOP, &session, sizeof(session), &stopped) && stopped == session;
	check(close(fd) == 0);
	return done;
}

static bool collect(void)
{
	uint8_t payload[128];
	uint64_t session;
	bool whole = false;
	int fd = connect_port();

	if (fd < 0)
		return false;
	if (ask(fd, COLLECT, payload, build_request(payload), &session)) {
		for (uint64_t i = 0; i < EVENTS; i++)
			(void)failing_mark(i);
		/* If the stop fails, the end of the connection ends the session. */
		whole = stop(session) && read_stream(fd);
	}
	check(close(fd) == 0);
	return whole;
}

static unsigned int fail_each(enum inject_kind kind, struct held *before)
{
	unsigned int nth = 1;
	bool failed;

	do {
		printf("%s, call %u\n", inject_name(kind), nth);
		fflush(stdout);
		inject_arm(kind, nth++, true);
		(void)collect();
		failed = inject_disarm();
		wait_until(collect());
		wait_until(!failing_mark_enabled() && holds_no_more(before));
	} while (failed && nth < NTH_MAX);
	check(nth < NTH_MAX);
	return nth - 2;
}

/* The library reads TMPDIR when it is loaded, so the program starts itself again with it set. */
static void run_again(char **argv)
{
	char again[] = "again";
	char *arguments[] = { argv[0], again, directory, NULL };

	check(mkdtemp(directory));
	check(setenv("TMPDIR", directory, 1) == 0);
	check(unsetenv("RINGPIPE_DIAGNOSTICS") == 0);
	execv("/proc/self/exe", arguments);
	check(!"started");
}

int main(int argc, char **argv)
{
	unsigned int failures = 0;
	struct held before;

	alarm(5 * PATIENCE_S);
	if (argc != 3)
		run_again(argv);
	check(strlen(argv[2]) == strlen(directory));
	memcpy(directory, argv[2], strlen(directory));
	wait_until(collect());
	before = count_held();
	for (unsigned int kind = 0; kind < INJECT_KIND_COUNT; kind++) {
		/* fstat(2) of a socket does not fail in practice. */
		if (kind != INJECT_fstat && (kind != INJECT_memory || !INJECT_THREADS_NEED_MEMORY))
			failures += fail_each(kind, &before);
	}
	check(unlink(port.sun_path) == 0);
	check(rmdir(directory) == 0);
	printf("# figure: %u failures of %u kinds of call\n", failures, INJECT_KIND_COUNT);
	return 0;
}
