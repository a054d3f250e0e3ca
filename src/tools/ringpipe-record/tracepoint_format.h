/* SPDX-License-Identifier: MIT */
/*
 * The layout of a tracepoint's fields, which tracefs describes.
 *
 * Source: Documentation/trace/events.rst of Linux.
 */
#ifndef RP_RECORD_TRACEPOINT_FORMAT_H
#define RP_RECORD_TRACEPOINT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define RP_TRACEPOINT_FIELDS_MAX 5u

/* Some fields of a tracepoint, in the order of their names. */
struct rp_tracepoint_format {
	uint64_t id;
	struct {
		uint32_t offset, bytes;
	} fields[RP_TRACEPOINT_FIELDS_MAX];
};

/*
 * Read the format of a tracepoint such as "raw_syscalls/sys_enter". `names` ends with NULL.
 *
 * Return: 0; -ENOENT: the kernel lacks the tracepoint or one of the fields, or tracefs is not
 * mounted; -errno of open(2) and read(2).
 */
int rp_tracepoint_format_read(const char *tracepoint, const char *const *names,
			      struct rp_tracepoint_format *ret_format);

/* Return: an unsigned number of up to 8 bytes; 0: the sample is too short. */
uint64_t rp_tracepoint_number(const struct rp_tracepoint_format *format, size_t field,
			      const uint8_t *bytes, size_t size);

#endif
