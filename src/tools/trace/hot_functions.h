/* SPDX-License-Identifier: MIT */
/*
 * Find the functions in which processes spend processor time. The samples of a trace are events
 * `cpu` of the provider Universal.Events. The file trace_symbols.h describes how processes and
 * functions get their names.
 *
 * A sample counts for the innermost function in user space of its stack, even if the thread was in
 * the kernel at that moment. If the stack has frames of the kernel only, the sample counts for the
 * innermost of them. A sample without a stack is ignored.
 */
#ifndef RP_TOOL_HOT_FUNCTIONS_H
#define RP_TOOL_HOT_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json.h>
#include <ringpipe/reader.h>

#include "tools/trace/trace_symbols.h"

struct rp_hot_hit {
	uint64_t process, address;
	uint64_t samples;
	int64_t time_ns;		/* of the last sample */
	uint32_t life;			/* of the process id */
};

struct rp_hot_process {
	uint64_t process;
	uint32_t life;			/* how many processes had the id before */
	bool has_ended;
	const char *name;		/* NULL: unknown; of the rows only */
	uint64_t samples;
};

/* Set the first member, and the others to zero. */
struct rp_hot_functions {
	uint32_t pointer_bytes;		/* of the trace */
	uint64_t samples;
	struct rp_hot_hit *hits;
	size_t hit_count, hit_capacity;
	size_t merged;			/* the first hits: sorted, and no address twice */
	struct rp_symbols symbols;
	struct rp_hot_process *processes;
	size_t process_count, process_capacity;
};

/* A row of the result. */
struct rp_hot_function {
	const struct rp_hot_process *process;
	const char *name;		/* NULL: unknown; valid until rp_hot_functions_fini() */
	uint64_t samples;
};

/* Whether events of the type are samples. */
bool rp_hot_functions_is_sample(const struct rp_reader_type *type);

/* Add an event of the trace. Events without samples or names are ignored. Return: 0; -ENOMEM. */
int rp_hot_functions_take(struct rp_hot_functions *hot, const struct rp_reader_event *event);

/* Print the hottest functions of the hottest processes on standard output. Return: exit status. */
int rp_hot_functions_print(struct rp_hot_functions *hot);
/* Make an array of all rows; NULL without samples. */
struct json_object *rp_hot_functions_to_json(struct rp_hot_functions *hot);

void rp_hot_functions_fini(struct rp_hot_functions *hot);

#endif
