/* SPDX-License-Identifier: MIT */
/*
 * Secret fields of dynamic events. This module replaces their values before any session, tracer or
 * listener gets the payload. Declared events do not need it: their compiled functions replace the
 * values.
 */
#ifndef RP_CORE_SECRET_H
#define RP_CORE_SECRET_H

#include <stdbool.h>

#include <ringpipe/event.h>

struct rp_event_def;

/*
 * A bit of rp_slow_path_mask: dynamic events with secret fields exist. Enable words do not use this
 * bit.
 */
#define RP_SECRET_BIT (1ull << 47)

/* A flag in rp_event.flags, above the flags of a declaration: the event has secret fields. */
#define RP_EVENT_SECRETS 0x100u

#define RP_SECRET_PARTS 256u

/* Return: whether the event has a secret field. */
bool rp_secret_is_in(const struct rp_event_def *def);

/*
 * Replace the secret values of a payload. `parts` is not changed: the resulting parts point into
 * the memory of `parts`, or to constants that replace the secret values. Bytes after the last field
 * are not in the result. If the payload lacks fields, so does the result.
 *
 * Context: any, signal handlers included. Return: the number of resulting parts; -EMSGSIZE: the
 * result needs more than RP_SECRET_PARTS parts, or the payload has more than RP_PAYLOAD_MAX bytes.
 */
int rp_secret_replace(const struct rp_event_def *def, const struct rp_part *parts,
		      unsigned int part_count, struct rp_part ret_parts[RP_SECRET_PARTS]);

#endif
