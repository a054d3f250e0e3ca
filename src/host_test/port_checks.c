/* SPDX-License-Identifier: MIT */
/* Checks of the rest of the table: threads, start-up, process, commands, memory. */
#include "host_test/suite.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define UNKNOWN_COMMAND 0x80131385u
#define UNKNOWN_ID 0xffu
#define BLOCKS 64u

unsigned int rp_suite_start_ups;

static const struct rp_host *wrapped;
static int threads_begun, threads_ended;

static void start_up(void *data)
{
	(void)data;
	__atomic_fetch_add(&rp_suite_start_ups, 1, __ATOMIC_RELAXED);
	if (wrapped->start_up)
		wrapped->start_up(wrapped->data);
}

static void thread_begin(const char *name, void *data)
{
	(void)data;
	__atomic_fetch_add(&threads_begun, 1, __ATOMIC_RELAXED);
	wrapped->thread_begin(name, wrapped->data);
}

static void thread_end(void *data)
{
	(void)data;
	__atomic_fetch_add(&threads_ended, 1, __ATOMIC_RELEASE);
	wrapped->thread_end(wrapped->data);
}

void rp_suite_wrap(struct rp_suite *suite, struct rp_host *ret_table)
{
	/* Threads of the library call `thread_end` after the suite has returned. */
	static struct rp_host copy;
	const struct rp_host *host = suite->test->host;

	__atomic_store_n(&rp_suite_start_ups, 0, __ATOMIC_RELAXED);
	memset(&copy, 0, sizeof(copy));
	memcpy(&copy, host, host->size < sizeof(copy) ? host->size : sizeof(copy));
	copy.size = sizeof(copy);
	suite->host = wrapped = &copy;
	*ret_table = copy;
	ret_table->start_up = start_up;
	if (wrapped->thread_begin)
		ret_table->thread_begin = thread_begin;
	if (wrapped->thread_end)
		ret_table->thread_end = thread_end;
}

enum rp_check_result rp_check_thread_names_are_ended(struct rp_suite *suite)
{
	char name[64];

	if (!suite->host->thread_name)
		return rp_suite_skip(suite, "no thread_name");
	for (size_t space = 1; space < sizeof(name); space++) {
		memset(name, 'x', sizeof(name));
		if (suite->host->thread_name((uint32_t)gettid(), name, space,
					     suite->host->data) != 0)
			continue;
		if (!memchr(name, '\0', space))
			return rp_suite_fail(suite, "with space for %zu bytes it has no NUL",
					     space);
		if (name[space] != 'x')
			return rp_suite_fail(suite, "with space for %zu bytes it has more", space);
	}
	return RP_CHECK_OK;
}

/* A session that ends makes the library start and join a thread. */
enum rp_check_result rp_check_threads_end_as_often_as_they_begin(struct rp_suite *suite)
{
	struct rp_session_provider wanted = RP_SESSION_PROVIDER_INIT;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_listener *listener;
	int begun, ended;

	if (!suite->host->thread_begin && !suite->host->thread_end)
		return rp_suite_skip(suite, "no thread_begin and no thread_end");
	if (!suite->host->thread_begin || !suite->host->thread_end)
		return rp_suite_fail(suite, "one of thread_begin and thread_end is missing");
	wanted.name = "Ringpipe-Host-Test";
	options.name = "ringpipe-host-test";
	options.providers = &wanted;
	options.provider_count = 1;
	if (rp_listener_start(&options, NULL, NULL, &listener) != 0)
		return rp_suite_fail(suite, "no session could start");
	(void)rp_listener_stop(listener, NULL);
	/* Threads may begin and end between the two loads, so those that ended are read first. */
	ended = __atomic_load_n(&threads_ended, __ATOMIC_ACQUIRE);
	begun = __atomic_load_n(&threads_begun, __ATOMIC_RELAXED);
	return ended <= begun ? RP_CHECK_OK :
	       rp_suite_fail(suite, "%d threads began and %d ended", begun, ended);
}

enum rp_check_result rp_check_start_up_is_called_once(struct rp_suite *suite)
{
	if (!suite->host->start_up)
		return rp_suite_skip(suite, "no start_up");
	rp_diagnostics_wait();
	if (__atomic_load_n(&rp_suite_start_ups, __ATOMIC_RELAXED) != 1)
		return rp_suite_fail(suite, "it was called %u times", rp_suite_start_ups);
	/* The library calls it again after each new registration. */
	return rp_host_register(suite->host) == -EBUSY ? RP_CHECK_OK :
	       rp_suite_fail(suite, "it has unregistered the table");
}

enum rp_check_result rp_check_process_state_is_known(struct rp_suite *suite)
{
	int state;

	if (!suite->host->process_state)
		return rp_suite_skip(suite, "no process_state");
	state = suite->host->process_state(suite->host->data);
	return state == RP_HOST_RUNNING ? RP_CHECK_OK :
	       rp_suite_fail(suite, "the state is %d in a running host", state);
}

/* The path of the diagnostics socket: doc/security.md. */
static bool get_socket(struct sockaddr_un *ret_address)
{
	const char *directory = getenv("TMPDIR");
	char stat[1024], *at;
	FILE *file = fopen("/proc/self/stat", "re");
	size_t size = file ? fread(stat, 1, sizeof(stat) - 1, file) : 0;

	if (file)
		fclose(file);
	stat[size] = '\0';
	at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	ret_address->sun_family = AF_UNIX;
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path),
		 "%s/dotnet-diagnostic-%d-%llu-socket", directory && *directory ? directory :
		 "/tmp", (int)getpid(), strtoull(at, NULL, 10));
	return true;
}

/* Send a command without payload. Return: the HRESULT of the reply; 0: OK; 1: no reply. */
static uint32_t send_command(int fd, uint8_t set, uint8_t id)
{
	struct {
		char magic[14];
		uint16_t size;
		uint8_t set, id;
		uint16_t reserved;
		uint32_t hresult;
	} __attribute__((packed)) message = { "DOTNET_IPC_V1", 20, set, id, 0, 0 };
	struct pollfd reply = { .fd = fd, .events = POLLIN };
	uint64_t until = rp_suite_now_ns() + RP_SUITE_PATIENCE_NS;

	if (write(fd, &message, 20) != 20)
		return 1;
	/* A program with RP_DIAGNOSTICS_POLL serves its clients itself. */
	do
		(void)rp_diagnostics_dispatch();
	while (poll(&reply, 1, 10) == 0 && rp_suite_now_ns() < until);
	if (recv(fd, &message, sizeof(message), MSG_DONTWAIT) < 20)
		return 1;
	return message.id == 0 ? 0 : message.hresult;
}

enum rp_check_result rp_check_unknown_commands_are_refused(struct rp_suite *suite)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint32_t hresult = 1;
	int fd;

	if (!suite->host->command_set)
		return rp_suite_skip(suite, "no command_set");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || !get_socket(&address) ||
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		if (fd >= 0)
			close(fd);
		return rp_suite_skip(suite, "the process has no diagnostics socket");
	}
	hresult = send_command(fd, (uint8_t)suite->host->command_set, UNKNOWN_ID);
	close(fd);
	return hresult == UNKNOWN_COMMAND ? RP_CHECK_OK :
	       rp_suite_fail(suite, "the result of command 255 is 0x%x", hresult);
}

enum rp_check_result rp_check_allocations_are_aligned(struct rp_suite *suite)
{
	const struct rp_host *host = suite->host;
	enum rp_check_result result = RP_CHECK_OK;
	unsigned char *blocks[BLOCKS];

	if (!host->allocate)
		return rp_suite_skip(suite, "no allocate");
	for (unsigned int i = 0; i < BLOCKS; i++) {
		blocks[i] = host->allocate(i + 1, host->data);
		if (!blocks[i])
			continue;
		if ((uintptr_t)blocks[i] % _Alignof(max_align_t) != 0)
			result = rp_suite_fail(suite, "%u bytes are at %p", i + 1,
					       (void *)blocks[i]);
		memset(blocks[i], (int)i, i + 1);
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		for (unsigned int at = 0; blocks[i] && at <= i; at++) {
			if (blocks[i][at] != i)
				result = rp_suite_fail(suite, "two blocks overlap");
		}
		if (blocks[i])
			host->release(blocks[i], host->data);
	}
	return result;
}
