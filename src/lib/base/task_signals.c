/* SPDX-License-Identifier: MIT */
#include "base/task_signals.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART_BYTES 2048u
/* At most this much precedes the end of the line, its newline included. */
#define LINE_BYTES 64u

/*
 * The file has no fixed size: a process may be in 65,536 groups, whose line precedes the signals.
 * Each part is searched together with the end of the previous part.
 */
static bool find(int fd, uint64_t *ret_mask)
{
	static const char field[] = "\nSigBlk:";
	char text[LINE_BYTES + PART_BYTES + 1];
	size_t used = 0, kept;
	const char *at;
	ssize_t got;

	while ((got = read(fd, text + used, PART_BYTES)) > 0) {
		used += (size_t)got;
		text[used] = '\0';
		at = strstr(text, field);
		if (at && strchr(at + 1, '\n')) {
			*ret_mask = strtoull(at + sizeof(field) - 1, NULL, 16);
			return true;
		}
		kept = used < LINE_BYTES ? used : LINE_BYTES;
		memmove(text, text + used - kept, kept);
		used = kept;
	}
	return false;
}

bool rp_task_blocked_signals(uint32_t id, uint64_t *ret_mask)
{
	char path[64];
	bool is_found;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%" PRIu32 "/status", id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_found = find(fd, ret_mask);
	close(fd);
	return is_found;
}
