/* SPDX-License-Identifier: MIT */
/* The events by which the recorder describes the machine and the recording. */
#include "tools/ringpipe-record/machine_trace_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe-record/clock_watch.h"

/* An event of the recorder. Its time is not before events that the trace has already. */
static int put_own(struct rp_record_trace *trace, enum rp_machine_event kind)
{
	const struct rp_machine_process recorder = { .pid = getpid() };
	const struct rp_record_trace_place place = { .time_ns = trace->last_ns };

	return rp_record_put(trace, kind, &recorder, &place, NULL, 0);
}

int rp_record_loss(struct rp_record_trace *trace, const char *reason, uint64_t lost)
{
	rp_record_put_string(trace, reason);
	rp_record_put_bytes(trace, &lost, 8);
	return put_own(trace, RP_MACHINE_LOSS);
}

int rp_record_machine(struct rp_record_trace *trace)
{
	char host[HOST_NAME_MAX + 1] = "", boot_id[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	gethostname(host, sizeof(host) - 1);
	if (file) {
		if (fgets(boot_id, sizeof(boot_id), file))
			boot_id[strcspn(boot_id, "\n")] = '\0';
		fclose(file);
	}
	rp_record_put_string(trace, host);
	rp_record_put_string(trace, boot_id);
	return put_own(trace, RP_MACHINE_DESCRIPTION);
}

int rp_record_groups(struct rp_record_trace *trace, const char *groups, uint64_t threshold_ns)
{
	rp_record_put_string(trace, groups);
	rp_record_put_bytes(trace, &threshold_ns, 8);
	return put_own(trace, RP_MACHINE_GROUPS);
}

int rp_record_clock(struct rp_record_trace *trace, const struct rp_clock_reading *reading)
{
	rp_record_put_bytes(trace, &reading->monotonic_ns, 8);
	rp_record_put_bytes(trace, &reading->utc_ns, 8);
	rp_record_put_bytes(trace, &reading->boottime_ns, 8);
	rp_record_put_bytes(trace, &reading->uncertainty_ns, 8);
	return put_own(trace, RP_MACHINE_CLOCK);
}

int rp_record_suspend(struct rp_record_trace *trace, uint64_t duration_ns)
{
	trace->stats.suspended_ns += duration_ns;
	rp_record_put_bytes(trace, &duration_ns, 8);
	return put_own(trace, RP_MACHINE_SUSPEND);
}
