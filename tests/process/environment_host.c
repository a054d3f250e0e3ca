/* SPDX-License-Identifier: MIT */
/*
 * A host that does not start sessions: it writes 100 events and reports how it was loaded. With
 * `socket`, it writes them when the diagnostics socket exists; with `flood`, after more events than
 * any ring holds. With `count FILE` or `stacks FILE`, it counts the events of such a host.
 */
#include "check.h"

#include <dirent.h>
#include <inttypes.h>

#define FLOOD 500000u

RP_PROVIDER(host, "Test-Host");
RP_EVENT(host, plain, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U32(number));
RP_EVENT(host, fine, 2, RP_LEVEL_VERBOSE, 2, RP_U32(number));

static unsigned int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	unsigned int count = 0;
	struct dirent *entry;

	check(directory);
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* Count the events of the host that carry a stack. */
static unsigned int count_stacks(const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	unsigned int count = 0;

	check(rp_reader_open(path, &reader) == 0);
	while (rp_reader_next(reader, &event) == 1)
		count += event.frame_count > 0 && strcmp(event.type->provider, "Test-Host") == 0;
	rp_reader_close(reader);
	return count;
}

/* Count the library's threads by their names, because a sanitizer may have threads too. */
static unsigned int count_threads(void)
{
	DIR *directory = opendir("/proc/self/task");
	unsigned int count = 0;
	struct dirent *entry;

	check(directory);
	while ((entry = readdir(directory))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		/* The thread may have ended meanwhile. */
		count += fgets(name, sizeof(name), file) && strncmp(name, "ringpipe", 8) == 0;
		fclose(file);
	}
	closedir(directory);
	return count;
}

static int show_row(const struct rp_enabled *enabled, void *data)
{
	(void)data;
	if (strcmp(enabled->provider, "Test-Host") == 0)
		printf("row %s %" PRIx64 " %u %s\n",
		       enabled->session_id ? enabled->session_name : "-", enabled->keywords,
		       enabled->level, enabled->filter_data ? enabled->filter_data : "-");
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t events, lost;

	if (argc == 3 && strcmp(argv[1], "count") == 0) {
		count_trace(argv[2], "Test-Host", &events, &lost);
		printf("%" PRIu64 " %" PRIu64 "\n", events, lost);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "stacks") == 0) {
		printf("%u\n", count_stacks(argv[2]));
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "socket") == 0)
		wait_until(count_entries(getenv("TMPDIR")) == 1);
	for (uint32_t i = 0; i < FLOOD && argc == 2 && strcmp(argv[1], "flood") == 0; i++)
		(void)host_plain(i);
	for (uint32_t i = 0; i < 50; i++) {
		check(host_plain(i) == 0);
		check(host_fine(i) == 0);
	}
	check(rp_enabled_list(show_row, NULL) == 0);
	printf("pid %d\n", (int)getpid());
	printf("threads %u\n", count_threads());
	printf("sockets %u\n", count_entries(getenv("TMPDIR")));
	return 0;
}
