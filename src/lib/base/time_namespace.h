/* SPDX-License-Identifier: MIT */
/* The clocks of processes in time namespaces. Source: time_namespaces(7). */
#ifndef RP_BASE_TIME_NAMESPACE_H
#define RP_BASE_TIME_NAMESPACE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Read by how much a process's CLOCK_MONOTONIC is ahead of the machine's. The file has the line
 * "monotonic SECONDS NANOSECONDS". Return: nanoseconds; 0 if it may not be read.
 */
static inline int64_t rp_time_namespace_offset(pid_t pid)
{
	long long seconds, ns;
	int64_t offset = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "monotonic %lld %lld", &seconds, &ns) == 2)
		offset = seconds * 1000000000 + ns;
	fclose(file);
	return offset;
}

#endif
