/* SPDX-License-Identifier: MIT */
/*
 * Chooses the blocks that a query needs. Stacks and label lists are valid up to the next sequence
 * point, so they are read only between two points with a wanted block of events. Definitions and
 * threads are valid for longer: all of them before the last wanted block are read.
 */
#include "tools/trace/trace_index.h"

#include <errno.h>
#include <stdlib.h>

#include "nettrace/reader_parts.h"
#include "tools/trace/event_names.h"

static bool is_description(const struct rp_reader_type *type)
{
	return rp_event_is_own(type->provider);
}

static bool is_wanted(const struct rp_index_block *block, const struct rp_index_filter *filter)
{
	const struct rp_trace_query *query = filter->query;

	if (block->kind != RP_BLOCK_EVENT || !block->events)
		return false;
	if (query->has_descriptions && block->flags & RP_INDEX_DESCRIBES)
		return true;
	return block->last_ns >= query->from_ns && block->first_ns < query->to_ns &&
	       rp_index_filter_accepts(filter, block);
}

/* Return: whether a block of events is in one of the parts. @before: events before the block. */
static bool is_in_part(const struct rp_trace_index *index, const struct rp_trace_query *query,
		       uint64_t before)
{
	const uint64_t distance = query->part_count ? index->events / query->part_count : 0;

	return !distance || before % distance < query->part_events;
}

/* Mark the stacks and labels of the blocks [begin, end) for the event blocks that are marked. */
static bool mark_part(const struct rp_trace_index *index, size_t begin, size_t end, bool is_last,
		      bool *marks)
{
	bool is_used = is_last;

	for (size_t i = end; i-- > begin;) {
		const uint16_t kind = index->blocks[i].kind;

		if (kind == RP_BLOCK_EVENT)
			is_used |= marks[i];
		else if (kind == RP_BLOCK_STACK || kind == RP_BLOCK_LABEL_LIST)
			marks[i] = is_used;
	}
	return is_used;
}

static void mark(const struct rp_trace_index *index, const struct rp_index_filter *filter,
		 bool *marks)
{
	/* The events from the damage on are read, because it must be reported. */
	size_t end = index->is_whole ? 0 : index->block_count, begin = 0;
	uint64_t before = 0;

	for (size_t i = 0; i < index->block_count; i++) {
		marks[i] = is_wanted(&index->blocks[i], filter) &&
			   is_in_part(index, filter->query, before);
		before += index->blocks[i].events;
		if (marks[i])
			end = end > i + 1 ? end : i + 1;
	}
	for (size_t i = 0; i < end; i++) {
		const struct rp_index_block *block = &index->blocks[i];

		if (block->kind == RP_BLOCK_METADATA || block->kind == RP_BLOCK_THREAD ||
		    block->kind == RP_BLOCK_REMOVE_THREAD)
			marks[i] = true;
		if (block->kind != RP_BLOCK_SEQUENCE_POINT)
			continue;
		marks[i] = mark_part(index, begin, i, false, marks) ||
			   block->flags & (RP_INDEX_FLUSHES_THREADS | RP_INDEX_FLUSHES_METADATA);
		begin = i + 1;
	}
	mark_part(index, begin, end, !index->is_whole, marks);
}

static void add_span(struct rp_reader_span *spans, size_t *count, uint64_t begin, uint64_t end)
{
	if (*count && spans[*count - 1].end == begin)
		spans[*count - 1].end = end;
	else
		spans[(*count)++] = (struct rp_reader_span){ begin, end };
}

int rp_trace_index_select(const struct rp_trace_index *index, const struct rp_trace_query *query,
			  struct rp_reader *reader)
{
	struct rp_index_filter filter;
	struct rp_reader_span *spans;
	size_t count = 0;
	bool *marks;

	if (query->from_ns != INT64_MIN || query->to_ns != INT64_MAX)
		rp_reader_limit_time(reader, query->from_ns, query->to_ns,
				     query->has_descriptions ? is_description : NULL);
	if (!index)
		return 0;
	if (rp_index_filter_init(&filter, index, query) < 0)
		return -ENOMEM;
	marks = calloc(index->block_count + 1, sizeof(*marks));
	spans = calloc(index->block_count + 1, sizeof(*spans));
	if (!marks || !spans) {
		rp_index_filter_fini(&filter);
		free(marks);
		free(spans);
		return -ENOMEM;
	}
	mark(index, &filter, marks);
	rp_index_filter_fini(&filter);
	for (size_t i = 0; i < index->block_count; i++) {
		if (marks[i])
			add_span(spans, &count, index->blocks[i].begin, index->blocks[i].end);
	}
	if (!index->is_whole)
		add_span(spans, &count, index->end, UINT64_MAX);
	free(marks);
	rp_reader_select(reader, spans, count);
	return 0;
}

uint32_t rp_trace_index_gaps(const struct rp_reader *reader)
{
	return reader->gap;
}

int rp_trace_index_select_descriptions(const char *path, int fd, struct rp_reader *reader)
{
	const struct rp_trace_query query = {
		.from_ns = INT64_MAX, .to_ns = INT64_MIN, .has_descriptions = true,
	};
	struct rp_trace_index index;
	int ret = rp_trace_index_load(path, fd, &index);

	if (ret < 0)
		return ret == -ENOMEM ? ret : 0;
	ret = rp_trace_index_select(&index, &query, reader);
	rp_trace_index_fini(&index);
	return ret;
}
