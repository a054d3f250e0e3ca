/* SPDX-License-Identifier: MIT */
/*
 * Does what the lines of standard input request, and answers each with a line:
 *
 *	publish [KEY=VALUE…]	rp_process_context_publish(); the answer is its result
 *	parent TRACEPARENT	sets the ids of a new span; the answer is its own traceparent
 *	thread TRACEPARENT	the same in a new thread; the answer begins with its id
 *	begin			begins an activity, which only this process knows
 *	none			sets no ids
 *	foreign			maps memory as another publisher would
 *	fork			the answer is the id of a child, which then waits
 *	fork-publisher		the same; the child publishes first
 *	handlers		after the answer, sets ids in a loop, with signal handlers
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define ATTRIBUTES_MAX 200u
#define LINE_MAX_BYTES 100000u

static void publish(char *text)
{
	static struct rp_process_attribute rows[ATTRIBUTES_MAX];
	struct rp_process_context context = RP_PROCESS_CONTEXT_INIT;
	char *pair;

	while ((pair = strsep(&text, " ")) && context.attribute_count < ATTRIBUTES_MAX) {
		char *value = strchr(pair, '=');

		if (value)
			*value++ = '\0';
		if (!*pair && !value)
			continue;
		rows[context.attribute_count].key = pair;
		rows[context.attribute_count++].value = value;
	}
	context.attributes = rows;
	printf("%d\n", rp_process_context_publish(context.attribute_count ? &context : NULL));
}

static void set_parent(const char *text, char own[RP_TRACEPARENT_SIZE])
{
	struct rp_activity activity;
	uint8_t flags;

	if (rp_traceparent_parse(text, strlen(text), &activity, &flags) != 0)
		abort();
	rp_activity_set(&activity);
	rp_traceparent_print(&activity, flags, own);
}

__attribute__((noreturn)) static void *run_thread(void *data)
{
	char own[RP_TRACEPARENT_SIZE];

	set_parent(data, own);
	printf("%d %s\n", gettid(), own);
	fflush(stdout);
	for (;;)
		pause();
}

static void start_thread(const char *text)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_thread, strdup(text)) != 0)
		abort();
}

static void map_foreign(void)
{
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096) != 0 ||
	    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		abort();
	puts("mapped");
}

/* The child answers, when it is sure to end with its parent. */
static void fork_child(bool is_publisher)
{
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (is_publisher && rp_process_context_publish(NULL) != 0)
		_exit(1);
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		pause();
}

/* All bytes of a trace id and its span id are equal, so a torn pair is detected. */
static void set_equal(uint8_t byte)
{
	struct rp_activity activity;

	memset(&activity, byte, sizeof(activity));
	rp_activity_set(&activity);
}

static void on_alarm(int number)
{
	struct rp_activity before;

	(void)number;
	rp_activity_get(&before);
	set_equal(0xaa);
	set_equal(0xbb);
	rp_activity_set(&before);
}

__attribute__((noreturn)) static void be_interrupted(void)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uint8_t byte = 1;; byte = byte % 100 + 1)
		set_equal(byte);
}

int main(void)
{
	static char line[LINE_MAX_BYTES];
	char own[RP_TRACEPARENT_SIZE];
	struct rp_activity outer;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		char *text = line;
		const char *command = strsep(&text, " \n");

		if (text)
			text[strcspn(text, "\n")] = '\0';
		if (strcmp(command, "publish") == 0) {
			publish(text);
		} else if (strcmp(command, "parent") == 0) {
			set_parent(text, own);
			puts(own);
		} else if (strcmp(command, "thread") == 0) {
			start_thread(text);
		} else if (strcmp(command, "begin") == 0) {
			rp_activity_begin(&outer);
			puts("begun");
		} else if (strcmp(command, "none") == 0) {
			rp_activity_set(&(struct rp_activity){ 0 });
			puts("none");
		} else if (strcmp(command, "foreign") == 0) {
			map_foreign();
		} else if (strcmp(command, "fork") == 0) {
			fork_child(false);
		} else if (strcmp(command, "fork-publisher") == 0) {
			fork_child(true);
		} else if (strcmp(command, "handlers") == 0) {
			puts("begun");
			be_interrupted();
		}
	}
	return 0;
}
