/* SPDX-License-Identifier: MIT */
/* Finds the names of addresses, from a trace's events of the provider Universal.System. */
#ifndef RP_TOOL_ADDRESS_RANGES_H
#define RP_TOOL_ADDRESS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

/* A named range; `end` is inclusive. If several ranges have the same start, the first is used. */
struct rp_address_range {
	uint64_t start, end;
	size_t reported;			/* number of ranges reported before this one */
	char *name;
};

struct rp_address_ranges {
	struct rp_address_range *rows;		/* sorted by start after rp_names_sort() */
	size_t count, capacity;
};

struct rp_names {
	struct rp_address_ranges functions;
	struct rp_address_ranges files;
};

/* Adds the names that an event contains. Ignores damaged events. Return: 0; -ENOMEM. */
int rp_names_take(struct rp_names *names, const struct rp_reader_event *event);
/* Call it after the last event and before the first rp_address_range_find(). */
void rp_names_sort(struct rp_names *names);
/* Reads the file at `path`, up to the first damage, and sorts the names. */
int rp_names_read(struct rp_names *names, const char *path);
void rp_names_fini(struct rp_names *names);

/*
 * Whether RP_EVENT generated the function (PROVIDER_EVENT_write_): such a frame can be left out,
 * since its caller's frame says the same. Suffixes of compilers and mangled C++ names are
 * recognised.
 */
bool rp_address_range_is_generated(const char *function);

/* Return: the range that contains the address; NULL if the trace has no name for it. */
const struct rp_address_range *rp_address_range_find(const struct rp_address_ranges *ranges,
						     uint64_t address);

#endif
