/* SPDX-License-Identifier: MIT */
#include "tools/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"

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
	fprintf(stderr, "\r\033[K%s", rp_text_bytes(bytes, done));
	if (total)
		fprintf(stderr, " of %s", rp_text_bytes(total, all));
	fputs("  Ctrl-C stops", stderr);
}

void rp_progress_end(struct rp_progress *progress)
{
	if (progress->line_open)
		fputs("\r\033[K", stderr);
	progress->line_open = false;
}
