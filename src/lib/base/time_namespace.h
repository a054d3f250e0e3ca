/* SPDX-License-Identifier: MIT */
/* The clocks of processes in time namespaces. Source: time_namespaces(7). */
#ifndef RP_BASE_TIME_NAMESPACE_H
#define RP_BASE_TIME_NAMESPACE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/*
 * Read by how much a process's clock is ahead of the machine's. The file has a line
 * "CLOCK SECONDS NANOSECONDS" for each clock, which is "monotonic" or "boottime".
 * Return: nanoseconds; 0 if the file may not be read.
 */
static inline int64_t rp_time_namespace_read(pid_t pid, const char *clock)
{
	long long seconds, ns;
	int64_t offset = 0;
	char path[64], name[16];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fscanf(file, "%15s %lld %lld", name, &seconds, &ns) == 3)
		if (strcmp(name, clock) == 0)
			offset = seconds * 1000000000 + ns;
	fclose(file);
	return offset;
}

/* The same of CLOCK_MONOTONIC. */
static inline int64_t rp_time_namespace_offset(pid_t pid)
{
	return rp_time_namespace_read(pid, "monotonic");
}

#endif
