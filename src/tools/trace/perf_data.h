/* SPDX-License-Identifier: MIT */
/*
 * Converts perf.data to the events that `ringpipe record` writes, so that each command that reads
 * traces reads it. Samples are those of the first event that counts time or cycles. A thread's
 * switches away from a processor and back become a wait, with the stack of the tracepoint
 * sched:sched_switch. Mappings and build ids are those of the file; `ringpipe symbolize` finds the
 * names of functions. Functions of the kernel have their names if that kernel runs now.
 */
#ifndef RP_TOOL_PERF_DATA_H
#define RP_TOOL_PERF_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return: whether a file that begins with these 4 bytes is perf.data, of either byte order. */
bool rp_perf_data_is_magic(const uint8_t start[4]);

/*
 * Convert the file in memory to an unnamed file, at whose beginning `ret_fd` then is. The function
 * prints the cause of a failure, and a warning if the file is cut.
 * @path: for messages.
 * Return: 0; -EBADMSG; -ENOMEM; -errno of a write.
 */
int rp_perf_data_convert(const void *bytes, size_t size, const char *path, int *ret_fd);

#endif
