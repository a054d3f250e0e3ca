/* SPDX-License-Identifier: MIT */
/*
 * Secrets of events made at run time: replaced in the payload before any session, tracer or
 * listener is given it. Declared events forget theirs by themselves, where they are compiled.
 */
#ifndef RP_CORE_SECRET_H
#define RP_CORE_SECRET_H

#include <stdbool.h>

#include <ringpipe/event.h>

struct rp_event_def;

/* In rp_special_slots: there are such events. Its place in enable words is nobody's. */
#define RP_SECRET_BIT (1ull << 47)

/* In rp_event.flags, above those that a declaration may have: this is one of them. */
#define RP_EVENT_SECRETS 0x100u

#define RP_SECRET_PARTS 256u

bool rp_secret_is_in(const struct rp_event_def *def);

/*
 * The payload with other values for its secrets, in parts that refer to those given. What comes
 * after the last field is left out.
 *
 * Context: any, signal handlers included.
 * Return: the count of parts; -EMSGSIZE when it takes more than RP_SECRET_PARTS, or more bytes than
 * RP_PAYLOAD_MAX were given.
 */
int rp_secret_replace(const struct rp_event_def *def, const struct rp_part *parts,
		      unsigned int part_count, struct rp_part ret_parts[RP_SECRET_PARTS]);

#endif
