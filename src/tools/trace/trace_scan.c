/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/array.h"
#include "nettrace/reader_parts.h"
#include "tools/trace/system_event.h"
#include "tools/trace/trace_fields.h"
#include "tools/trace/trace_merge.h"
#include "tools/trace/trace_restore.h"

/* The header of a trace of version 4 has the time of day in milliseconds. */
#define HEADER_UNCERTAINTY_NS 1000000u

/* Clocks of one machine, which the traces do not name, are closer than this. */
#define SAME_CLOCK_NS 1000000000u

enum scan_kind { OTHER = 1, DESCRIPTION, CLOCK, PROCESS_INFO, PROCESSES };

static enum scan_kind find_kind(const struct rp_reader_type *type)
{
	if (!strcmp(type->provider, RP_MACHINE_PROVIDER))
		return !strcmp(type->name, RP_MACHINE_EVENT_DESCRIPTION) ? DESCRIPTION :
		       !strcmp(type->name, RP_MACHINE_EVENT_CLOCK) ? CLOCK : OTHER;
	if (!strcmp(type->provider, "Microsoft-DotNETCore-EventPipe"))
		return !strcmp(type->name, "ProcessInfo") || type->id == 1 ? PROCESS_INFO : OTHER;
	return !strcmp(type->provider, RP_SYSTEM_PROVIDER) ||
	       (!strcmp(type->provider, RP_TRACE_MERGE_PROVIDER) &&
		type->id == RP_TRACE_MERGE_PROCESS) ? PROCESSES : OTHER;
}

static void take_text(const struct rp_fields *fields, const char *name, char *text, size_t size)
{
	struct rp_value value = RP_VALUE_INIT;

	if (!*text && rp_fields_find(fields, name, &value) == 0)
		(void)rp_value_get_text(&value, text, size);
}

static uint64_t take_number(const struct rp_fields *fields, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;

	return rp_fields_find(fields, name, &value) == 0 ? value.u64 : 0;
}

static int add_reading(struct rp_trace_scan *scan, const struct rp_clock_reading *reading)
{
	struct rp_clock_reading *grown = rp_array_reserve(scan->readings, scan->reading_count,
							  &scan->reading_capacity, 1,
							  sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	scan->readings = grown;
	grown[scan->reading_count++] = *reading;
	return 0;
}

static int take_event(struct rp_trace_scan *scan, const struct rp_reader_event *event)
{
	enum scan_kind kind = (enum scan_kind)(uintptr_t)event->type->user;
	struct rp_clock_reading reading;
	struct rp_fields fields;

	if (!kind) {
		kind = find_kind(event->type);
		event->type->user = (void *)(uintptr_t)kind;
		scan->has_types |= rp_trace_is_rewritten(event->type, RP_TRACE_FORM_PLAIN) ||
				   (scan->info.version != RP_NETTRACE_V6 &&
				    rp_trace_restore_is_added(event->type));
	}
	scan->has_processes |= kind == PROCESSES || event->process != scan->info.process_id;
	if (kind == OTHER || kind == PROCESSES)
		return 0;
	rp_reader_get_fields(event, &fields);
	if (kind == DESCRIPTION) {
		take_text(&fields, "host", scan->host, sizeof(scan->host));
		take_text(&fields, "boot_id", scan->boot_id, sizeof(scan->boot_id));
		return 0;
	}
	if (kind == PROCESS_INFO) {
		take_text(&fields, "CommandLine", scan->command_line, sizeof(scan->command_line));
		return 0;
	}
	reading = (struct rp_clock_reading){
		.monotonic_ns = take_number(&fields, "monotonic_ns"),
		.utc_ns = (int64_t)take_number(&fields, "utc_ns"),
		.uncertainty_ns = take_number(&fields, "uncertainty_ns"),
	};
	return reading.monotonic_ns && reading.utc_ns ? add_reading(scan, &reading) : 0;
}

int rp_trace_scan_read(struct rp_trace_scan *scan, struct rp_reader *reader)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret = 0, read = 0;

	memset(scan, 0, sizeof(*scan));
	scan->info.size = sizeof(scan->info);
	rp_reader_get_info(reader, &scan->info);
	while (ret == 0 && (read = rp_reader_next(reader, &event)) == 1)
		ret = take_event(scan, &event);
	if (ret == 0 && scan->reading_count == 0) {
		const struct rp_clock_reading head = {
			.monotonic_ns = (uint64_t)((__int128)scan->info.start_ticks * 1000000000 /
						   scan->info.ticks_per_second),
			.utc_ns = scan->info.start_utc_ns,
			.uncertainty_ns = HEADER_UNCERTAINTY_NS,
		};

		ret = add_reading(scan, &head);
	}
	scan->clock = rp_machine_clock_find(scan->readings, scan->reading_count);
	return ret ? ret : read;
}

void rp_trace_scan_fini(struct rp_trace_scan *scan)
{
	free(scan->readings);
	scan->readings = NULL;
}

bool rp_trace_scan_is_same_boot(const struct rp_trace_scan *a, const struct rp_trace_scan *b)
{
	uint64_t ahead;

	if (*a->boot_id && *b->boot_id)
		return !strcmp(a->boot_id, b->boot_id);
	ahead = (uint64_t)a->clock.utc_ns - (uint64_t)b->clock.utc_ns -
		(a->clock.ns - b->clock.ns);
	return ahead + SAME_CLOCK_NS - 1 < 2 * SAME_CLOCK_NS - 1;
}
