/* SPDX-License-Identifier: MIT */
/*
 * An event in the kernel's user_events, in the format of the .NET runtime: one tracepoint serves
 * any number of events, and each record identifies its event.
 *
 *	u8 version		1
 *	u16 event id
 *	u32 extension		offset from the end of this field, and length << 16
 *	u32 payload		the same
 *	extension		u8 1, u32 bytes, metadata: a nettrace V4 blob without its id
 *				u8 2, 16 bytes: activity id, if there is one
 *				u8 3, 16 bytes: related activity id, if there is one
 *	payload			as in nettrace V4
 *
 * Source: "User_events format" in documentation/design-docs/ipc-protocol.md of dotnet/diagnostics,
 * and helpers/dotnet/nettrace.rs of microsoft/one-collect, which reads it.
 */
#ifndef RP_EXPORT_USER_EVENT_H
#define RP_EXPORT_USER_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "core/event_def.h"
#include "export/user_fields.h"
#include "nettrace/convert.h"

#define RP_USER_EVENT_FIELDS \
	"u8 version; u16 event_id; __rel_loc u8[] extension; __rel_loc u8[] payload"

/* The longest record that perf accepts. ftrace has smaller pages and also drops shorter ones. */
#define RP_USER_EVENT_BYTES_MAX 8184u

/* Scratch memory of a write. It is not on the stack, since a signal stack may be small. */
#define RP_USER_EVENT_SCRATCH_BYTES (2u << 16)

struct rp_user_event {
	uint32_t write_index;	/* assigned by the kernel, for one open file */
	uint16_t id;
	bool typed;
	struct rp_user_fields fields;	/* if `typed` */
	struct rp_plan plan;
	uint8_t *metadata;	/* with its label and length */
	size_t metadata_bytes;
};

/*
 * Create the record format of an event. `typed`: for a tracepoint of this event alone
 * (user_fields.h).
 * Return: 0; -ENOMEM; -EMSGSIZE or -EINVAL: such an event cannot be written.
 */
int rp_user_event_make(const struct rp_event_def *def, bool typed,
		       struct rp_user_event **ret_event);
void rp_user_event_free(struct rp_user_event *event);

/*
 * Write one event to `fd`. Context: any thread, any signal handler.
 * Return: 0; -EMSGSIZE: too long for the kernel; -errno of writev(2), -EBADF if the tracepoint has
 * no reader any more.
 */
int rp_user_event_write(const struct rp_user_event *event, int fd, const struct rp_part *parts,
			unsigned int part_count, uint64_t payload_bytes, uint8_t *scratch);

#endif
