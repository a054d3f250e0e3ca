/* SPDX-License-Identifier: MIT */
/*
 * Events from before main() and from after main() are in the environment's session. The program
 * starts itself with such a session, as `written`, and reads the trace.
 */
#include "check.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

RP_PROVIDER(edges, "Test-Edges");
RP_EVENT(edges, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(place));

/* The places where events are written, in order. */
static const char *const places[] = {
	"constructor", "main", "thread", "key", "atexit in main", "atexit in constructor",
	"destructor",
};

static bool is_writing;

static void write_place(const char *place)
{
	if (is_writing)
		check(edges_mark(place) == 0);
}

static void at_exit_in_constructor(void)
{
	write_place("atexit in constructor");
}

static void at_exit_in_main(void)
{
	write_place("atexit in main");
}

__attribute__((constructor)) static void construct(void)
{
	is_writing = getenv("RINGPIPE_OUTPUT") != NULL;
	write_place("constructor");
	check(atexit(at_exit_in_constructor) == 0);
}

__attribute__((destructor)) static void destruct(void)
{
	write_place("destructor");
}

static void *run(void *key)
{
	write_place("thread");
	check(pthread_setspecific(*(pthread_key_t *)key, "key") == 0);
	return NULL;
}

static void write_value(void *value)
{
	write_place(value);
}

static int write_all(void)
{
	pthread_t thread;
	pthread_key_t key;

	check(atexit(at_exit_in_main) == 0);
	check(pthread_key_create(&key, write_value) == 0);
	write_place("main");
	check(pthread_create(&thread, NULL, run, &key) == 0);
	check(pthread_join(thread, NULL) == 0);
	return 0;
}

static void run_written(const char *trace)
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		check(setenv("RINGPIPE_CONFIG", "Test-Edges", 1) == 0);
		check(setenv("RINGPIPE_OUTPUT", trace, 1) == 0);
		execl("/proc/self/exe", "edges", "written", NULL);
		_exit(127);
	}
	check(waitpid(child, &status, 0) == child);
	check(status == 0);
}

static void read_places(const char *trace)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	struct rp_fields fields;
	struct rp_value place = RP_VALUE_INIT;
	char text[64];
	size_t count = 0;

	check(rp_reader_open(trace, &reader) == 0);
	while (rp_reader_next(reader, &event) == 1) {
		if (strcmp(event.type->provider, "Test-Edges") != 0)
			continue;
		rp_reader_get_fields(&event, &fields);
		check(rp_fields_next(&fields, &place) == 1);
		check(rp_value_get_text(&place, text, sizeof(text)) < sizeof(text));
		check(count < sizeof(places) / sizeof(*places));
		if (strcmp(text, places[count]) != 0)
			fprintf(stderr, "%s in place of %s\n", text, places[count]);
		check(strcmp(text, places[count++]) == 0);
	}
	rp_reader_get_stats(reader, &stats);
	check(stats.ended == 1 && stats.lost == 0);
	rp_reader_close(reader);
	check(count == sizeof(places) / sizeof(*places));
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/rp-edges-XXXXXX", trace[64];

	(void)argv;
	if (argc == 2)
		return write_all();
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	run_written(trace);
	read_places(trace);
	check(unlink(trace) == 0);
	check(rmdir(directory) == 0);
	return 0;
}
