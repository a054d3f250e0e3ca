/* SPDX-License-Identifier: MIT */
/*
 * An event with a separate tracepoint, PROVIDER_EVENT, whose fields have types of the kernel's
 * user_events. In names an underscore replaces each character that is no letter or digit.
 *
 *	field				type of the kernel
 *	integers, time, pointer		s8 … u64; a bool is u8
 *	float, double			struct float 4, struct double 8: the kernel has none
 *	GUID				unsigned char[16]
 *	string				__data_loc char[], UTF-8
 *	UTF-16 string, array, blob	__data_loc of its elements
 *	struct				its members, each with the struct's name as a prefix
 *
 * If the description of the fields exceeds the kernel's limit, the event has a single field,
 * `__data_loc u8[] payload`: the payload in the layout of types.h. Fixed parts come first and
 * dynamic parts after them, both in the order of the fields.
 *
 * __rel_loc is not used: Linux 6.12 shows wrong lengths for it, and bpftrace 0.17 lacks it.
 *
 * Source: Documentation/trace/user_events.rst and kernel/trace/trace_events_user.c of Linux 6.12.
 */
#ifndef RP_EXPORT_USER_FIELDS_H
#define RP_EXPORT_USER_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "core/event_def.h"

#define RP_USER_COMMAND_BYTES_MAX 512u	/* the kernel's limit, with the NUL */

struct rp_user_field;

struct rp_user_fields {
	char *command;		/* the text that registers it with the kernel */
	struct rp_user_field *fields;
	size_t count;
	size_t header_bytes;	/* size of the fixed parts */
};

/* Return: 0; -ENOMEM; -EINVAL: the names alone exceed the limit. */
int rp_user_fields_make(struct rp_user_fields *fields, const struct rp_event_def *def);
void rp_user_fields_fini(struct rp_user_fields *fields);

/*
 * Convert a payload to the tracepoint's layout. Missing fixed parts become zeros; missing dynamic
 * parts become empty. Context: any.
 * Return: the number of bytes written to `out`; -EMSGSIZE: they do not fit into `space`.
 */
int64_t rp_user_fields_put(const struct rp_user_fields *fields, const uint8_t *payload,
			   size_t payload_bytes, uint8_t *out, size_t space);

#endif
