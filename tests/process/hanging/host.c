/* SPDX-License-Identifier: MIT */
/*
 * hanging_host TRACE: a session with stacks must end although the read of its symbol file blocks.
 * Later the file becomes readable, and the thread that waited for it ends.
 */
#include "../check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>

RP_PROVIDER(hanging, "Test-Hanging");
RP_EVENT(hanging, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

/* Return: whether the thread that reads symbols exists. */
static bool is_reading(void)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	check(directory);
	while ((entry = readdir(directory)) && !found) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		found = fgets(name, sizeof(name), file) && strcmp(name, "ringpipe-names\n") == 0;
		fclose(file);
	}
	closedir(directory);
	return found;
}

int main(int argc, char **argv)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Hanging", .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = argv[1], .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.flags = RP_SESSION_STACKS, .format = nettrace_version(),
	};
	struct rp_session *session;
	int fd;

	check(argc == 2);
	check(rp_session_start(&options, &session) == 0);
	for (uint64_t serial = 0; serial < 10; serial++)
		check(hanging_mark(serial) == 0);
	check(rp_session_stop(session, NULL) == 0);
	check(is_reading());
	fd = open(getenv("HANGING_UNTIL"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	check(fd >= 0);
	close(fd);
	wait_until(!is_reading());
	return 0;
}
