/* SPDX-License-Identifier: MIT */
/* GUIDs as text, and a set of GUIDs that only grows. */
#ifndef RP_TOOL_GUIDS_H
#define RP_TOOL_GUIDS_H

#include <stddef.h>

#include <ringpipe/types.h>

#define RP_GUID_TEXT 37

/* Write a GUID as text, or "" if it is zero. Return: `buffer`, of RP_GUID_TEXT bytes. */
const char *rp_guid_text(const struct rp_guid *guid, char *buffer);

/* Zero-initialised, the set is empty. It never contains the all-zero GUID. */
struct rp_guids {
	struct rp_guid *slots;
	size_t capacity;	/* a power of two, or 0 */
	size_t count;
};

/* Return: 0, also if the set already has the GUID; -ENOMEM. */
int rp_guids_add(struct rp_guids *set, const struct rp_guid *guid);
void rp_guids_fini(struct rp_guids *set);

#endif
