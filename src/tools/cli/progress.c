/* SPDX-License-Identifier: MIT */
#include "tools/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"

#define TICK_MS 500

void rp_progress_begin(struct rp_progress *progress, bool is_quiet)
{
	progress->is_live = isatty(STDERR_FILENO) && !is_quiet;
	progress->line_open = false;
	progress->tick_ms = rp_now_ms() + TICK_MS;
}

void rp_progress_show(struct rp_progress *progress, uint64_t bytes, uint64_t total)
{
	char done[RP_TEXT_MAX], all[RP_TEXT_MAX];

	if (!progress->is_live || rp_now_ms() < progress->tick_ms)
		return;
	progress->tick_ms = rp_now_ms() + TICK_MS;
	progress->line_open = true;
	rp_status_line_show("%s%s%s  Ctrl-C stops", rp_text_bytes(bytes, done), total ? " of " : "",
			    total ? rp_text_bytes(total, all) : "");
}

void rp_progress_end(struct rp_progress *progress)
{
	if (progress->line_open)
		rp_status_line_clear();
	progress->line_open = false;
}
