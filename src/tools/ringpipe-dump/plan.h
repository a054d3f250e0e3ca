/* SPDX-License-Identifier: MIT */
/* Which pages of a process go into a core. */
#ifndef RP_DUMP_PLAN_H
#define RP_DUMP_PLAN_H

#include "tools/ringpipe-dump/maps.h"
#include "diag/dump_report.h"
#include "tools/ringpipe-dump/tracee.h"

/* Which pages of a mapping are wanted. */
enum rp_dump_choice {
	RP_DUMP_NOTHING,
	RP_DUMP_CHANGED,		/* those that differ from the file, and its ELF header */
	RP_DUMP_PRESENT,		/* those that were ever touched; the rest are zero */
	RP_DUMP_ALL,
};

enum rp_dump_choice rp_dump_choose(const struct rp_dump_mapping *mapping, enum rp_dump_type type);

/* A piece of address space, whole pages. With data it has a place in the file. */
struct rp_dump_segment {
	uint64_t start;
	uint64_t end;
	const struct rp_dump_mapping *mapping;
	enum rp_dump_choice choice;
	bool has_data;
};

/* Addresses that are wanted whatever the mapping. */
struct rp_dump_range {
	uint64_t start;
	uint64_t end;
};

struct rp_dump_plan {
	struct rp_dump_segment *segments;	/* by address */
	size_t count;
	size_t capacity;
	struct rp_dump_range *ranges;	/* by address, apart from each other */
	size_t range_count;
	uint64_t data_bytes;		/* pages that will be read */
	uint64_t page_bytes;
	int pagemap_fd;
};

/*
 * Divides all mappings into segments. Unwanted parts get a segment without data, so that a debugger
 * reads the mapped file instead. Return: 0; -ENOMEM; errors of opening pagemap.
 */
int rp_dump_plan_make(struct rp_dump_plan *plan, const struct rp_dump_maps *maps,
		      const struct rp_tracee *tracee, enum rp_dump_type type);

/*
 * Finds out which of up to `count` pages from `start` on have to be read; the others of a segment
 * with data are zero.
 */
void rp_dump_plan_pages(const struct rp_dump_plan *plan, const struct rp_dump_segment *segment,
			uint64_t start, size_t count, bool *ret_wanted);

void rp_dump_plan_fini(struct rp_dump_plan *plan);

#endif
