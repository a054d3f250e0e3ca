/* SPDX-License-Identifier: MIT */
/* A first reading of a trace finds what a merge needs before it reads the first event. */
#ifndef RP_TOOL_TRACE_SCAN_H
#define RP_TOOL_TRACE_SCAN_H

#include <stdbool.h>

#include <ringpipe/reader.h>

#include "tools/trace/machine_clock.h"

struct rp_trace_scan {
	struct rp_reader_info info;
	char host[256];			/* "": unknown, like the others */
	char boot_id[64];
	char command_line[4096];
	bool has_processes;		/* its events belong to several processes */
	bool has_types;			/* that a merge cannot copy, so it converts the trace */
	struct rp_clock_reading *readings;	/* of the machine's clocks; one or more */
	size_t reading_count, reading_capacity;
	struct rp_machine_clock clock;	/* through them */
};

/* Read the trace. Return: 0; what rp_reader_next() returned before the end; -ENOMEM. */
int rp_trace_scan_read(struct rp_trace_scan *scan, struct rp_reader *reader);
void rp_trace_scan_fini(struct rp_trace_scan *scan);

/* Return: whether both traces come from one machine between two of its boots. */
bool rp_trace_scan_is_same_boot(const struct rp_trace_scan *a, const struct rp_trace_scan *b);

#endif
