/* SPDX-License-Identifier: MIT */
#include "tools/analysis/recorded_kinds.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "tools/analysis/profile.h"
#include "tools/analysis/thread_time_parts.h"

static int compare_processes(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static int add_process(struct rp_recorded_kinds *kinds, uint64_t process)
{
	uint64_t *made;

	/* Successive waits are often of one process. */
	if (kinds->processes && process == kinds->last_process)
		return 0;
	kinds->last_process = process;
	if (tfind(&process, &kinds->processes, compare_processes))
		return 0;
	made = malloc(sizeof(*made));
	if (!made)
		return -ENOMEM;
	*made = process;
	if (tsearch(made, &kinds->processes, compare_processes))
		return 0;
	free(made);
	return -ENOMEM;
}

/* Take what the recorder recorded. */
static void take_groups(struct rp_recorded_kinds *kinds, const struct rp_reader_event *event)
{
	static const char *const names[RP_TIME_GROUP_COUNT] = {
		"sched", "syscalls", "futex", "faults", "block", "irq",
	};
	const uint64_t threshold_ns = rp_profile_number(event, "threshold_ns");
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	char groups[128] = "";

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, "groups", &value) == 0)
		rp_value_get_text(&value, groups, sizeof(groups));
	kinds->states_groups = true;
	for (unsigned int i = 0; i < RP_TIME_GROUP_COUNT; i++)
		kinds->missing_groups |= strstr(groups, names[i]) ? 0 : 1u << i;
	if (threshold_ns > kinds->threshold_ns)
		kinds->threshold_ns = threshold_ns;
}

int rp_recorded_kinds_take(struct rp_recorded_kinds *kinds, const struct rp_reader_event *event)
{
	if (strcmp(event->type->provider, RP_TIME_PROVIDER) != 0)
		return 0;
	switch (event->type->id) {
	case RP_TIME_ID_WAIT:
		kinds->has_waits = true;
		return add_process(kinds, event->process);
	case RP_TIME_ID_SYSCALL:
		kinds->has_calls = true;
		return 0;
	case RP_TIME_ID_LOSS:
		kinds->lost += rp_profile_number(event, "lost");
		return 0;
	case RP_TIME_ID_GROUPS:
		take_groups(kinds, event);
		return 0;
	default:
		return 0;
	}
}

void rp_recorded_kinds_take_type(struct rp_recorded_kinds *kinds, const struct rp_reader_type *type)
{
	kinds->lacks_processes = true;
	if (strcmp(type->provider, RP_TIME_PROVIDER) != 0)
		return;
	kinds->has_waits |= type->id == RP_TIME_ID_WAIT;
	kinds->has_calls |= type->id == RP_TIME_ID_SYSCALL;
}

bool rp_recorded_kinds_has_process(const struct rp_recorded_kinds *kinds, uint64_t process)
{
	return (kinds->lacks_processes && kinds->has_waits) ||
	       tfind(&process, &kinds->processes, compare_processes);
}

void rp_recorded_kinds_fini(struct rp_recorded_kinds *kinds)
{
	tdestroy(kinds->processes, free);
	*kinds = (struct rp_recorded_kinds){ 0 };
}
