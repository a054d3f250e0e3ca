/* SPDX-License-Identifier: MIT */
#include "tools/trace/perf_copy.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Both structs begin with their key. */
static int compare_keys(const void *left, const void *right)
{
	uint32_t a, b;

	memcpy(&a, left, sizeof(a));
	memcpy(&b, right, sizeof(b));
	return (a > b) - (a < b);
}

/* Return: the struct of the key, of `size` bytes; NULL: no memory, or `max` of them exist. */
static void *get(void **tree, uint32_t key, size_t size, size_t *count, size_t max)
{
	void **found = tfind(&key, tree, compare_keys), *made;

	if (found)
		return *found;
	made = *count < max ? calloc(1, size) : NULL;
	if (!made)
		return NULL;
	memcpy(made, &key, sizeof(key));
	if (!tsearch(made, tree, compare_keys)) {
		free(made);
		return NULL;
	}
	++*count;
	return made;
}

struct rp_perf_process *rp_perf_get_process(struct rp_perf_copy *copy, uint32_t pid)
{
	return get(&copy->processes, pid, sizeof(struct rp_perf_process), &copy->process_count,
		   RP_PERF_PROCESSES_MAX);
}

struct rp_perf_thread *rp_perf_get_thread(struct rp_perf_copy *copy, uint32_t tid)
{
	return get(&copy->threads, tid, sizeof(struct rp_perf_thread), &copy->thread_count,
		   RP_PERF_PROCESSES_MAX);
}

static void free_process(void *node)
{
	struct rp_perf_process *process = node;

	free(process->mappings);
	rp_thread_table_fini(&process->kernel_functions);
	free(process);
}

void rp_perf_tables_fini(struct rp_perf_copy *copy)
{
	tdestroy(copy->processes, free_process);
	tdestroy(copy->threads, free);
}
