/* SPDX-License-Identifier: MIT */
/* Shared by ringpipe report FILE heap with and without --diff. */
#ifndef RP_TOOL_REPORT_HEAP_H
#define RP_TOOL_REPORT_HEAP_H

#include "tools/analysis/heap_profile.h"
#include "tools/ringpipe/report_functions.h"

struct rp_heap_view {
	const struct rp_report *report;
	struct rp_profile profile;
	struct rp_heap_profile heap;
	bool has_table;			/* false: rp_heap_view_read() printed the reason */
};

/* Return: the exit status; RP_EXIT_FAILURE after an error line: there is nothing to free. */
int rp_heap_view_init(const struct rp_report *report, struct rp_heap_view *ret_view);
/* Read the trace. Return: as rp_profile_read(). */
int rp_heap_view_read(struct rp_heap_view *view);
/* Print what the figures do not have. */
void rp_heap_view_doubts(const struct rp_heap_view *view);
void rp_heap_view_fini(struct rp_heap_view *view);

/* Return: the whole number next to an estimate. */
uint64_t rp_heap_rounded(double number);

/* Add a column with an estimate, which text shows in short form. */
void rp_heap_bytes_add(struct rp_rows *rows, double bytes);
void rp_heap_count_add(struct rp_rows *rows, double count);

/* Print the live blocks of each stack at two times, of --diff. Return: the exit status. */
int rp_report_heap_diff(const struct rp_report *report);

#endif
