/* SPDX-License-Identifier: MIT */
/*
 * An event as a tracepoint of its own, PROVIDER_EVENT, with its fields as the kernel's user_events
 * types them. What is no letter or digit in a name becomes an underscore.
 *
 *	field				type there
 *	integers, time, pointer		s8 … u64; a bool is u8
 *	float, double			struct float 4, struct double 8: the kernel has none
 *	GUID				unsigned char[16]
 *	string				__data_loc char[], UTF-8
 *	UTF-16 string, array, blob	__data_loc of its elements
 *	struct				its members, each with the struct's name in front
 *
 * An event whose fields take more words than the kernel reads has one, `__data_loc u8[] payload`:
 * the payload as types.h has it. Fixed parts come first, in the order of the fields; what is
 * dynamic lies behind them, in that order, too.
 *
 * Not __rel_loc: Linux 6.12 shows made-up lengths for that, and bpftrace 0.17 does not know it.
 *
 * Source: Documentation/trace/user_events.rst and kernel/trace/trace_events_user.c of Linux 6.12.
 */
#ifndef RP_EXPORT_USER_FIELDS_H
#define RP_EXPORT_USER_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "core/sink.h"

#define RP_USER_COMMAND_BYTES_MAX 512u	/* the kernel's limit, with the NUL */

struct rp_user_field;

struct rp_user_fields {
	char *command;		/* what the kernel is told to register */
	struct rp_user_field *fields;
	size_t count;
	size_t head_bytes;	/* of the fixed parts */
};

/* Return: 0; -ENOMEM; -EINVAL: not even the names fit. */
int rp_user_fields_make(struct rp_user_fields *fields, const struct rp_event_def *def);
void rp_user_fields_fini(struct rp_user_fields *fields);

/*
 * Lays a payload out anew. What is missing reads as zeros and as nothing. Context: any.
 * Return: the bytes written to `out`; -EMSGSIZE: they are more than `room`.
 */
int64_t rp_user_fields_put(const struct rp_user_fields *fields, const uint8_t *payload,
			   size_t payload_bytes, uint8_t *out, size_t room);

#endif
