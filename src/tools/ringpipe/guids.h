/* SPDX-License-Identifier: MIT */
/* A set of GUIDs that only grows. */
#ifndef RP_TOOL_GUIDS_H
#define RP_TOOL_GUIDS_H

#include <stddef.h>

#include <ringpipe/types.h>

/* All zeros is an empty set; an all-zero GUID is in none. */
struct rp_guids {
	struct rp_guid *slots;
	size_t capacity;	/* a power of two, or 0 */
	size_t count;
};

/* Return: 0, also when the set has the GUID; -ENOMEM. */
int rp_guids_add(struct rp_guids *set, const struct rp_guid *guid);
void rp_guids_fini(struct rp_guids *set);

#endif
