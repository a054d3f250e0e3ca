/* SPDX-License-Identifier: MIT */
/* The line of progress on a terminal. */
#ifndef RP_TOOL_PROGRESS_H
#define RP_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_progress {
	bool is_live;			/* standard error is a terminal, and --quiet is not given */
	bool line_open;			/* the cursor is in the line */
	int64_t tick_ms;		/* when to print next */
};

void rp_progress_begin(struct rp_progress *progress, bool is_quiet);

/* Print how many bytes have been read, of `total` or, if that is 0, of an unknown number. */
void rp_progress_show(struct rp_progress *progress, uint64_t bytes, uint64_t total);

/* Remove the line. */
void rp_progress_end(struct rp_progress *progress);

#endif
