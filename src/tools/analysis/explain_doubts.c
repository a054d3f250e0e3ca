/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/analysis/explain_print.h"
#include "tools/cli/display_text.h"

/* Without waits, all is unexplained, and the other groups do not matter. */
static size_t add_missing_groups(const struct rp_thread_time *time, char *doubt)
{
	static const char *const texts[RP_TIME_GROUP_COUNT] = {
		[RP_TIME_GROUP_SYSCALLS] = "system calls",
		[RP_TIME_GROUP_FUTEX] = "addresses of locks",
		[RP_TIME_GROUP_FAULTS] = "page faults",
		[RP_TIME_GROUP_BLOCK] = "requests to disks",
		[RP_TIME_GROUP_IRQ] = "interrupts",
	};
	char missing[128] = "";
	size_t used = 0;

	if (!time->kinds->states_groups && !time->kinds->has_calls)
		strcpy(missing, texts[RP_TIME_GROUP_SYSCALLS]);
	for (unsigned int i = RP_TIME_GROUP_SYSCALLS; i < RP_TIME_GROUP_COUNT; i++) {
		if (time->kinds->missing_groups & 1u << i)
			used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s",
						 used ? ", " : "", texts[i]);
	}
	if (!*missing)
		return 0;
	snprintf(doubt, RP_EXPLAIN_DOUBT_BYTES, "the trace has no records of %s; ringpipe record "
		 "--profile all --off-cpu 0 adds them", missing);
	return 1;
}

size_t rp_explain_doubts(const struct rp_thread_time *time,
			 char ret_doubts[RP_EXPLAIN_DOUBTS][RP_EXPLAIN_DOUBT_BYTES])
{
	char text[RP_TEXT_MAX];
	size_t doubts = 0;

	if (!time->kinds->has_waits)
		strcpy(ret_doubts[doubts++], "the trace has no waits of threads: record it by "
		       "ringpipe record --profile all --off-cpu 0");
	else
		doubts += add_missing_groups(time, ret_doubts[doubts]);
	if (time->kinds->has_waits && time->kinds->threshold_ns)
		snprintf(ret_doubts[doubts++], RP_EXPLAIN_DOUBT_BYTES,
			 "waits, system calls and interrupts shorter than %s have no records and "
			 "count as time of the program; ringpipe record --off-cpu 0 adds them",
			 rp_text_short_time(time->kinds->threshold_ns, text));
	if (time->kinds->lost)
		snprintf(ret_doubts[doubts++], RP_EXPLAIN_DOUBT_BYTES,
			 "the trace lacks %s, so waits may be missing; record with a larger "
			 "--buffer", rp_text_counted(time->kinds->lost, "lost record", text));
	if (time->left_out)
		snprintf(ret_doubts[doubts++], RP_EXPLAIN_DOUBT_BYTES,
			 "the spans have %s above the limit of %u, which are left out; choose "
			 "fewer spans", rp_text_counted(time->left_out, "record", text),
			 RP_TIME_RECORDS_MAX);
	return doubts;
}
