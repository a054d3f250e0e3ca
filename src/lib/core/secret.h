/* SPDX-License-Identifier: MIT */
/*
 * Secret fields of dynamic events: their values are replaced before any session, tracer or listener
 * gets the payload. Declared events replace theirs in compiled code.
 */
#ifndef RP_CORE_SECRET_H
#define RP_CORE_SECRET_H

#include <stdbool.h>

#include <ringpipe/event.h>

struct rp_event_def;

/* In rp_slow_path_mask: there are such events. Enable words do not use this bit. */
#define RP_SECRET_BIT (1ull << 47)

/* In rp_event.flags, above those that a declaration may have: this is one of them. */
#define RP_EVENT_SECRETS 0x100u

#define RP_SECRET_PARTS 256u

bool rp_secret_is_in(const struct rp_event_def *def);

/*
 * Replaces the secrets of a payload. The result's parts refer to the given ones. Bytes after the
 * last field are left out.
 *
 * Context: any, signal handlers included.
 * Return: the count of parts; -EMSGSIZE when it takes more than RP_SECRET_PARTS, or more bytes than
 * RP_PAYLOAD_MAX were given.
 */
int rp_secret_replace(const struct rp_event_def *def, const struct rp_part *parts,
		      unsigned int part_count, struct rp_part ret_parts[RP_SECRET_PARTS]);

#endif
