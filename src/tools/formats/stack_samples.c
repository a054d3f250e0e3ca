/* SPDX-License-Identifier: MIT */
#include "tools/formats/stack_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void rp_stack_samples_close(void *state)
{
	struct rp_stack_samples *samples = state;

	rp_profile_fini(&samples->profile);
	rp_attribute_table_fini(&samples->attributes);
	free(samples->rows);
	free(samples);
}

int rp_stack_samples_open(const struct rp_format_source *source, struct rp_format_out *out,
			  void **ret_state)
{
	struct rp_stack_samples *samples = calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->out = out;
	samples->info = source->info;
	/* A damaged trace may lack names. The conversion reports the damage. */
	if (rp_profile_init(&samples->profile, RP_PROFILE_BY_THREAD, source->file,
			    &source->range) == -ENOMEM) {
		rp_stack_samples_close(samples);
		return -ENOMEM;
	}
	rp_profile_set_reader(&samples->profile, source->reader);
	*ret_state = samples;
	return 0;
}

int rp_stack_samples_event(void *state, const struct rp_reader_event *event)
{
	const struct rp_call_weight weight = { .count = 1 };
	struct rp_stack_samples *samples = state;
	struct rp_stack_sample row = { .time_ns = event->time_ns }, *grown;
	uint64_t process;
	int ret = rp_profile_process(&samples->profile, event, &process);

	if (ret == 0 && rp_attribute_table_take(&samples->attributes, event) < 0)
		ret = -ENOMEM;
	if (ret || !rp_profile_is_sample(&samples->profile, event))
		return ret;
	ret = rp_profile_add(&samples->profile, event, process, &weight, &row.group, &row.node);
	if (ret || samples->count >= RP_STACK_SAMPLES_MAX)
		return ret;
	grown = rp_array_reserve(samples->rows, samples->count, &samples->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	samples->rows = grown;
	grown[samples->count++] = row;
	return 0;
}

void rp_stack_samples_each(struct rp_stack_samples *samples, rp_stack_samples_call call,
			   void *data)
{
	struct rp_call_tree *tree = &samples->profile.tree;

	rp_call_tree_finish(tree);
	for (size_t i = 0; i < tree->node_count; i++) {
		const struct rp_call_node *node = &tree->nodes[i];

		if (node->own.count)
			call(samples, &tree->groups[node->group], (uint32_t)i, node->own.count,
			     data);
	}
	/* Samples without a stack have no node. */
	for (size_t i = 0; i < tree->group_count; i++) {
		uint64_t rest = tree->groups[i].weight.count;

		for (uint32_t root = tree->groups[i].first_root; root != RP_CALL_NONE;
		     root = tree->nodes[root].next_sibling)
			rest -= tree->nodes[root].sum.count;
		if (rest)
			call(samples, &tree->groups[i], RP_CALL_NONE, rest, data);
	}
}

bool rp_stack_samples_range(const struct rp_stack_samples *samples, int64_t *ret_first_ns,
			    int64_t *ret_last_ns)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < samples->count; i++) {
		const int64_t time = samples->rows[i].time_ns;

		first = time < first ? time : first;
		last = time > last ? time : last;
	}
	*ret_first_ns = first;
	*ret_last_ns = last;
	return samples->count > 0;
}

size_t rp_stack_samples_path(const struct rp_call_tree *tree, uint32_t node, uint32_t *nodes)
{
	size_t count = 0;

	for (; node != RP_CALL_NONE && count <= RP_CALL_DEPTH_MAX; node = tree->nodes[node].parent)
		nodes[count++] = node;
	return count;
}

const char *rp_stack_samples_name(const struct rp_call_function *function, char *buffer,
				  size_t size)
{
	const char *slash;

	if (function->name)
		return function->name;
	if (!function->file)
		return "[unknown]";
	slash = strrchr(function->file, '/');
	snprintf(buffer, size, "[%s]", slash ? slash + 1 : function->file);
	return buffer;
}

void rp_stack_samples_title(const struct rp_stack_samples *samples,
			    const struct rp_call_group *group, bool with_thread, char *buffer,
			    size_t size)
{
	const char *name = rp_symbols_life_name(&samples->profile.symbols, group->process,
						group->life, INT64_MAX);
	int used = snprintf(buffer, size, "%s (%" PRIu64 ")", name ? name : "process",
			    group->process);

	if (with_thread && used >= 0 && (size_t)used < size)
		snprintf(buffer + used, size - (size_t)used, ", thread %" PRIu64, group->thread);
}
