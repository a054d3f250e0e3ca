/* SPDX-License-Identifier: MIT */
/* The resources that a process holds, as the kernel reports them. */
#ifndef PROCESS_COUNTING_H
#define PROCESS_COUNTING_H

#include <dirent.h>
#include <stdbool.h>

#include "check.h"

struct held {
	unsigned int descriptors, threads, rings;
};

static inline unsigned int count_entries(const char *path)
{
	DIR *entries = opendir(path);
	unsigned int count = 0;

	check(entries);
	while (readdir(entries))
		count++;
	closedir(entries);
	return count;
}

/* Count shared mappings without a file name, which are rings. */
static inline unsigned int count_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int count = 0;
	char line[4096];

	check(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "/dev/zero (deleted)") || strstr(line, "/memfd:ringpipe");
	fclose(maps);
	return count;
}

static inline struct held count_held(void)
{
	return (struct held){
		.descriptors = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.rings = count_rings(),
	};
}

/*
 * Return: whether the process holds no more than before. The first count may include resources that
 * were about to be released, even a joined thread. So the lower count is stored in `before`.
 */
static inline bool holds_no_more(struct held *before)
{
	struct held now = count_held();

	if (now.descriptors > before->descriptors || now.threads > before->threads ||
	    now.rings > before->rings)
		return false;
	*before = now;
	return true;
}

#endif
