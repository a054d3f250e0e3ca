/* SPDX-License-Identifier: MIT */
#include "tools/analysis/processor_runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSORS_MAX 8192u		/* as many as the kernel supports */

/* Return: 0; -ENOMEM. */
static int find_history(struct rp_processor_runs *runs, uint32_t processor,
			struct rp_processor_history **ret_history)
{
	struct rp_processor_history **grown;

	if (processor >= runs->count) {
		grown = reallocarray(runs->processors, processor + 1u, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + runs->count, 0, (processor + 1u - runs->count) * sizeof(*grown));
		runs->processors = grown;
		runs->count = processor + 1u;
	}
	if (!runs->processors[processor])
		runs->processors[processor] = calloc(1, sizeof(**runs->processors));
	*ret_history = runs->processors[processor];
	return *ret_history ? 0 : -ENOMEM;
}

int rp_processor_runs_take(struct rp_processor_runs *runs, uint32_t processor, uint64_t thread,
			   struct rp_processor_run *run, bool is_cut,
			   const struct rp_processor_history **ret_history)
{
	struct rp_processor_history *history;

	if (processor >= PROCESSORS_MAX) {
		*ret_history = NULL;
		return 0;
	}
	if (find_history(runs, processor, &history) < 0)
		return -ENOMEM;
	*ret_history = history;
	if (run->thread) {
		if (is_cut && run->thread == history->thread && history->since_ns < run->from_ns)
			run->from_ns = history->since_ns;
		history->runs[history->count++ % RP_RUNS_KEPT] = *run;
	}
	history->thread = thread;
	history->since_ns = run->to_ns;
	return 0;
}

void rp_processor_runs_fini(struct rp_processor_runs *runs)
{
	for (size_t i = 0; i < runs->count; i++)
		free(runs->processors[i]);
	free(runs->processors);
}
