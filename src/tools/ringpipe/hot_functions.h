/* SPDX-License-Identifier: MIT */
/*
 * Where processes spend processor time, from the samples of a trace: events `cpu` of provider
 * Universal.Events, with names from Universal.System.
 *
 * A sample counts for its innermost function in user space, even if the kernel ran at that moment.
 * A sample with frames of the kernel alone counts for the innermost of these, and a sample without
 * frames is ignored.
 */
#ifndef RP_TOOL_HOT_FUNCTIONS_H
#define RP_TOOL_HOT_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <json.h>
#include <ringpipe/reader.h>

struct rp_hot_hit {
	uint64_t process, address;
	uint64_t samples;
};

struct rp_hot_symbol {
	uint64_t process, start, last;	/* last: its last address */
	char *name;
};

struct rp_hot_process {
	uint64_t process;
	char *name;
	uint64_t samples;
};

/* All zeros: without samples. */
struct rp_hot_functions {
	uint64_t samples;
	struct rp_hot_hit *hits;
	size_t hit_count, hit_capacity;
	size_t merged;			/* hits up to here are sorted, each once */
	struct rp_hot_symbol *symbols;
	size_t symbol_count, symbol_capacity;
	struct rp_hot_process *processes;
	size_t process_count, process_capacity;
};

/* A row of the result. */
struct rp_hot_function {
	const struct rp_hot_process *process;
	const char *name;		/* NULL: unknown; valid as long as the struct above */
	uint64_t samples;
};

/* Look at an event. 0; -ENOMEM. */
int rp_hot_functions_take(struct rp_hot_functions *hot, const struct rp_reader_event *event);

/*
 * Make the rows: processes with most samples first, and the functions of each likewise. For free().
 * Return: the rows; NULL: there are no samples, or no memory.
 */
struct rp_hot_function *rp_hot_functions_rows(struct rp_hot_functions *hot, size_t *ret_count);

/* Print the hottest functions of the hottest processes on standard output. Return: exit status. */
int rp_hot_functions_print(struct rp_hot_functions *hot);
/* Make an array of all rows; NULL without samples. */
struct json_object *rp_hot_functions_to_json(struct rp_hot_functions *hot);

void rp_hot_functions_fini(struct rp_hot_functions *hot);

#endif
