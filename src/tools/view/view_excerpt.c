/* SPDX-License-Identifier: MIT */
/* Chooses which times of a range the view reads, and estimates what an excerpt stands for. */
#include <errno.h>
#include <stdlib.h>

#include "tools/view/view_model_parts.h"

/* Spans and waits of a range may begin in the events before it, and end in those after it. */
#define EVENTS_BEFORE 131072u
#define EVENTS_AFTER 65536u

static bool has_events(const struct rp_index_block *block)
{
	return block->kind == RP_BLOCK_EVENT && block->events;
}

static bool is_in_range(const struct rp_index_block *block, int64_t from_ns, int64_t to_ns)
{
	return has_events(block) && block->last_ns >= from_ns && block->first_ns < to_ns;
}

uint64_t rp_view_count_range(const struct rp_trace_index *index, int64_t from_ns, int64_t to_ns)
{
	uint64_t events = 0;

	for (size_t i = 0; i < index->block_count; i++) {
		if (is_in_range(&index->blocks[i], from_ns, to_ns))
			events += index->blocks[i].events;
	}
	return events;
}

void rp_view_widen_range(struct rp_view_trace *trace)
{
	const struct rp_trace_index *index = trace->index;
	const int64_t from_ns = trace->from_ns, to_ns = trace->to_ns;
	size_t first = index->block_count, end = 0;
	uint64_t before = 0, after = 0;

	for (size_t i = 0; i < index->block_count; i++) {
		if (!is_in_range(&index->blocks[i], from_ns, to_ns))
			continue;
		first = first < i ? first : i;
		end = i + 1;
	}
	while (first < end && first > 0 && before < EVENTS_BEFORE) {
		const struct rp_index_block *block = &index->blocks[--first];

		if (!has_events(block))
			continue;
		before += block->events;
		if (block->first_ns < trace->from_ns)
			trace->from_ns = block->first_ns;
	}
	while (end > 0 && end < index->block_count && after < EVENTS_AFTER) {
		const struct rp_index_block *block = &index->blocks[end++];

		if (!has_events(block))
			continue;
		after += block->events;
		if (block->last_ns >= trace->to_ns)
			trace->to_ns = block->last_ns + (block->last_ns != INT64_MAX);
	}
}

/* Count what each part stands for. */
static void count_parts(struct rp_view_trace *trace)
{
	const struct rp_trace_index *index = trace->index;

	for (size_t i = 0; i < index->block_count; i++) {
		const struct rp_index_block *block = &index->blocks[i];
		size_t part = 0;

		if (!is_in_range(block, trace->from_ns, trace->to_ns))
			continue;
		while (part + 1 < trace->part_count &&
		       trace->parts[part + 1].first_ns <= block->first_ns)
			part++;
		trace->parts[part].events += block->events;
		trace->range_events += block->events;
	}
}

/* Return: a time after the cell of the last event. */
static int64_t end_of_series(const struct rp_view_trace *trace)
{
	const unsigned int shift = trace->series.shift < 62 ? trace->series.shift : 62;
	int64_t end_ns;

	return __builtin_add_overflow(trace->last_ns, 1ll << shift, &end_ns) ? INT64_MAX : end_ns;
}

int rp_view_finish_parts(struct rp_view_trace *trace)
{
	struct rp_view_stretch *stretches;

	if (!trace->part_count)
		return 0;
	stretches = calloc(trace->part_count, sizeof(*stretches));
	if (!stretches)
		return -ENOMEM;
	trace->stretches = stretches;
	count_parts(trace);
	for (size_t i = 0; i < trace->part_count; i++) {
		const struct rp_view_part *part = &trace->parts[i];
		const bool is_last = i + 1 == trace->part_count;
		const int64_t end_ns = is_last ? end_of_series(trace) : part[1].first_ns;

		trace->read_events += part->read;
		stretches[i] = (struct rp_view_stretch){
			.from_ns = part->first_ns,
			.to_ns = end_ns > part->first_ns ? end_ns : part->first_ns + 1,
			.scale = part->read ? (double)part->events / (double)part->read : 0,
		};
	}
	trace->series.stretches = trace->cpu_series.stretches = stretches;
	trace->series.stretch_count = trace->cpu_series.stretch_count = trace->part_count;
	return 0;
}
