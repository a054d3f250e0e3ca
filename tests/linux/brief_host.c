/* SPDX-License-Identifier: MIT */
/*
 *	brief_host [MS]
 *		Waits for a session, up to a number of milliseconds (a minute), writes 10 events and
 *		ends with status 0. Without a session in that time, ends with status 1.
 *	brief_host idle
 *		At the start of a session, writes 10 events, and its process id as an int to the
 *		output. Waits until it is killed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define WAIT_MS 60000

RP_PROVIDER(brief, "Test-Brief");
RP_EVENT(brief, written, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(serial));

static void write_events(void)
{
	for (uint32_t serial = 0; serial < 10; serial++)
		brief_written(serial);
}

static void on_session(struct rp_provider *provider, const struct rp_provider_state *state,
		       void *user)
{
	const int pid = getpid();

	(void)provider;
	(void)user;
	if (!state->source_enabled)
		return;
	write_events();
	if (write(STDOUT_FILENO, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
}

int main(int argc, char **argv)
{
	const struct timespec millisecond = { 0, 1000000 };
	int wait_ms = argc > 1 ? atoi(argv[1]) : WAIT_MS;

	if (argc > 1 && strcmp(argv[1], "idle") == 0) {
		rp_provider_set_callback(brief_provider(), on_session, NULL);
		for (;;)
			pause();
	}
	for (int ms = 0; !brief_written_enabled(); ms++) {
		if (ms == wait_ms)
			return 1;
		nanosleep(&millisecond, NULL);
	}
	write_events();
	return 0;
}
