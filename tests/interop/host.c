/* SPDX-License-Identifier: MIT */
/*
 * A program to trace: prints its pid, then writes an event every few milliseconds until its
 * standard input ends. `tick` has a serial number, `reported` the arguments of the provider's
 * callback, which never returns from "hang".
 *
 * `exec PROGRAM`: first executes that program; `fork`: runs in two processes; `count N`: writes N
 * events and ends.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define TICK_MS 5

#if defined(__SANITIZE_ADDRESS__)
int __lsan_is_turned_off(void);

/* A forked child has its parent's locked mutexes, but not the threads that hold them. */
static int is_forked;

int __lsan_is_turned_off(void)
{
	return is_forked;
}

static void child_is_forked(void)
{
	is_forked = 1;
}
#endif

RP_PROVIDER(host, "Ipc-Host");
RP_EVENT(host, tick, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text));
RP_EVENT(host, reported, 2, RP_LEVEL_INFORMATIONAL, 0x2, RP_STRING(arguments));

static void report(struct rp_provider *provider, const struct rp_provider_state *state, void *data)
{
	(void)provider, (void)data;
	if (!state->source_enabled || !state->filter_data)
		return;
	host_reported(state->filter_data);
	if (strcmp(state->filter_data, "hang") == 0)
		pause();
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t serial = 0;
	char bytes[64];

#if defined(__SANITIZE_ADDRESS__)
	pthread_atfork(NULL, NULL, child_is_forked);
#endif
	if (argc > 2 && strcmp(argv[1], "exec") == 0)
		return execl(argv[2], argv[2], (char *)NULL);
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() < 0)
		return 1;
	if (rp_provider_set_callback(host_provider(), report, NULL) != 0)
		return 1;
	if (argc > 2 && strcmp(argv[1], "count") == 0) {
		uint64_t count = strtoull(argv[2], NULL, 10);

		while (serial < count)
			host_tick(serial++, "tick");
		return 0;
	}
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;) {
		if (poll(&input, 1, TICK_MS) > 0 && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
			return 0;
		host_tick(serial++, "tick");
	}
}
