/* SPDX-License-Identifier: MIT */
/* Names of addresses, from a trace's events of provider Universal.System. */
#ifndef RP_TOOL_ADDRESS_RANGES_H
#define RP_TOOL_ADDRESS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

/* A named range; `end` is inclusive. The first of those with the same start counts. */
struct rp_address_range {
	uint64_t start, end;
	size_t reported;			/* how many were reported before */
	char *name;
};

struct rp_address_ranges {
	struct rp_address_range *rows;		/* by start, once rp_names_sort() was called */
	size_t count, capacity;
};

struct rp_names {
	struct rp_address_ranges functions;
	struct rp_address_ranges files;
};

/* Adds the names of an event that has some. Return: 0; -ENOMEM. Damaged events are ignored. */
int rp_names_take(struct rp_names *names, const struct rp_reader_event *event);
/* After the last event, before the first rp_address_range_find(). */
void rp_names_sort(struct rp_names *names);
/* Both for the file at `path`, as far as it is whole. */
int rp_names_read(struct rp_names *names, const char *path);
void rp_names_fini(struct rp_names *names);

/*
 * Whether RP_EVENT generated the function, PROVIDER_EVENT_write_: its frame says no more
 * than that of its caller. Suffixes of compilers and mangled C++ names are known.
 */
bool rp_address_range_is_generated(const char *function);

/* NULL: the trace has no name for the address. */
const struct rp_address_range *rp_address_range_find(const struct rp_address_ranges *ranges,
						     uint64_t address);

#endif
