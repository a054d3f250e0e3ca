/* SPDX-License-Identifier: MIT */
/*
 * Works like `dotnet-trace collect-linux` in a machine whose kernel has user_events: dotnet-trace's
 * recorder, librecordtrace.so, traces a server by a script. The program prints the trace in
 * hexadecimal.
 *
 * usage: collect_linux RECORDER
 */
#include "guest.h"

#include <dlfcn.h>
#include <sys/wait.h>

#include <ringpipe/ringpipe.h>

#define OUTPUT "/tmp/recorded.nettrace"
#define SCRIPT "/tmp/recorded.script"
#define ROUNDS 20u
#define ROUND_EVENTS 10u	/* fits in perf's smallest ring */
#define EMPTY_ROUNDS 3u		/* by then the recorder has read the last events */

RP_PROVIDER(guest, "Guest-Events");
RP_EVENT(guest, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text));
RP_EVENT(guest, job_start, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));

typedef int (*recorder_output)(uint32_t type, const char *text, size_t bytes);
typedef int (*recorder_run)(const uint8_t *command, size_t bytes, recorder_output output);

/* Pipes: the recorder's loop requests a round of events, and learns when they are written. */
static int asks[2], answers[2];
static unsigned int rounds;

static void serve(void)
{
	uint64_t serial = 0;
	char byte;

	wait_until(guest_mark_enabled());
	check(guest_job_start(0) == 0);
	check(write(answers[1], "", 1) == 1);
	while (read(asks[0], &byte, 1) == 1) {
		for (unsigned int i = 0; i < ROUND_EVENTS; i++)
			check(guest_mark(serial++, "hello") == 0);
		check(write(answers[1], "", 1) == 1);
	}
}

/*
 * Works like dotnet-trace's callback, which the recorder's loop calls in each iteration. In each
 * iteration after the server's answer, requests one round of events. Return: whether the recording
 * is over.
 */
static int on_turn(uint32_t type, const char *text, size_t bytes)
{
	struct pollfd answer = { .fd = answers[0], .events = POLLIN };
	char byte;

	if (bytes)
		printf("# recorder (%u): %.*s\n", type, (int)bytes, text);
	if (rounds > ROUNDS)
		return rounds++ >= ROUNDS + EMPTY_ROUNDS;
	if (poll(&answer, 1, 0) != 1)
		return 0;
	if (read(answers[0], &byte, 1) != 1)
		return 1;	/* the server has failed and reported the cause */
	if (rounds++ < ROUNDS)
		check(write(asks[1], "", 1) == 1);
	return 0;
}

static void put_script(void)
{
	FILE *script = fopen(SCRIPT, "we");

	check(script);
	fputs("let Guest_Events_flags = new_dotnet_provider_flags();\n"
	      "Guest_Events_flags.with_callstacks();\n"
	      "record_dotnet_provider(\"Guest-Events\", 0x1, 5, Guest_Events_flags);\n", script);
	check(fclose(script) == 0);
}

static void print_trace(void)
{
	FILE *trace = fopen(OUTPUT, "re");
	int byte;

	check(trace);
	printf("# trace ");
	while ((byte = getc(trace)) != EOF)
		printf("%02x", (unsigned int)byte);
	printf("\n");
	fclose(trace);
}

int main(int argc, char **argv)
{
	void *recorder = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	recorder_run run;
	char command[256];
	pid_t server;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!recorder)
		printf("# %s\n", dlerror());
	check(recorder);
	*(void **)&run = dlsym(recorder, "RecordTrace");
	check(run && pipe(asks) == 0 && pipe(answers) == 0);
	server = fork();
	if (server == 0) {
		close(asks[1]);
		close(answers[0]);
		serve();
		_exit(0);
	}
	check(server > 0);
	close(asks[0]);
	close(answers[1]);
	put_script();
	snprintf(command, sizeof(command), "--pid %d --out " OUTPUT " --script-file " SCRIPT,
		 (int)server);
	check(run((const uint8_t *)command, strlen(command), on_turn) == 0);
	close(asks[1]);
	check(waitpid(server, NULL, 0) == server);
	check(rounds > ROUNDS);
	print_trace();
	return 0;
}
