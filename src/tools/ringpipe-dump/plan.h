/* SPDX-License-Identifier: MIT */
/* Selects the pages of a process that go into a core. */
#ifndef RP_DUMP_PLAN_H
#define RP_DUMP_PLAN_H

#include "tools/ringpipe-dump/maps.h"
#include "diag/dump_report.h"
#include "tools/ringpipe-dump/tracee.h"

/* The pages to copy of a mapping. */
enum rp_dump_choice {
	RP_DUMP_NOTHING,
	RP_DUMP_CHANGED,		/* pages that differ from the file, and its ELF header */
	RP_DUMP_PRESENT,		/* pages that were ever touched; the rest are zero */
	RP_DUMP_ALL,
};

enum rp_dump_choice rp_dump_choose(const struct rp_dump_mapping *mapping, enum rp_dump_type type);

/* A part of the address space, in whole pages. With data, it has an offset in the file. */
struct rp_dump_segment {
	uint64_t start;
	uint64_t end;
	const struct rp_dump_mapping *mapping;
	enum rp_dump_choice choice;
	bool has_data;
};

/* Addresses to copy, whatever their mapping. */
struct rp_dump_range {
	uint64_t start;
	uint64_t end;
};

struct rp_dump_plan {
	struct rp_dump_segment *segments;	/* sorted by address */
	size_t count;
	size_t capacity;
	struct rp_dump_range *ranges;	/* sorted by address, not overlapping */
	size_t range_count;
	uint64_t data_bytes;		/* size of the pages to read */
	uint64_t page_bytes;
	int pagemap_fd;
};

/*
 * Divides all mappings into segments. Parts that are not copied get a segment without data, so that
 * a debugger reads the mapped file instead. Return: 0; -ENOMEM; -errno of opening pagemap.
 */
int rp_dump_plan_make(struct rp_dump_plan *plan, const struct rp_dump_maps *maps,
		      const struct rp_tracee *tracee, enum rp_dump_type type);

/*
 * Finds which of up to `count` pages from `start` on must be read; the other pages of a segment
 * with data are zero.
 */
void rp_dump_plan_pages(const struct rp_dump_plan *plan, const struct rp_dump_segment *segment,
			uint64_t start, size_t count, bool *ret_wanted);

void rp_dump_plan_fini(struct rp_dump_plan *plan);

#endif
