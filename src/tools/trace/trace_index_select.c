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

static bool is_wanted(const struct rp_index_block *block, const struct rp_index_filter *filter)
{
	const struct rp_trace_query *query = filter->query;

	if (block->kind != RP_BLOCK_EVENT || !block->events)
		return false;
	if (query->has_descriptions && block->flags & RP_INDEX_DESCRIBES)
		return true;
	return block->last_ns >= query->from_ns &&
	       (block->first_ns < query->to_ns || query->has_tail) &&
	       rp_index_filter_accepts(filter, block);
}

/* Extend a part of the trace to the second sequence point on each side. */
static void extend_to_points(const struct rp_trace_index *index, size_t *begin, size_t *end)
{
	unsigned int before = 0, after = 0;

	while (*begin > 0 && before < 2)
		before += index->blocks[--*begin].kind == RP_BLOCK_SEQUENCE_POINT;
	while (*end < index->block_count && after < 2)
		after += index->blocks[(*end)++].kind == RP_BLOCK_SEQUENCE_POINT;
}

/*
 * Find the blocks from the first to after the last that can have an event of the query's times; or,
 * if the query wants them, those between the sequence points around these.
 */
static void find_range(const struct rp_trace_index *index, const struct rp_trace_query *query,
		       size_t *ret_begin, size_t *ret_end)
{
	size_t begin = index->block_count, end = 0;

	for (size_t i = 0; i < index->block_count; i++) {
		const struct rp_index_block *block = &index->blocks[i];

		if (block->kind != RP_BLOCK_EVENT || !block->events)
			continue;
		if (block->last_ns >= query->from_ns && i < begin)
			begin = i;
		if (block->first_ns < query->to_ns)
			end = i + 1;
	}
	*ret_begin = begin;
	*ret_end = end < begin ? begin : end;
	if (query->has_points)
		extend_to_points(index, ret_begin, ret_end);
}

/* Mark the events and sequence points of the range. */
static void mark_points(const struct rp_trace_index *index, const struct rp_trace_query *query,
			bool *marks)
{
	size_t begin, end;

	find_range(index, query, &begin, &end);
	for (size_t i = begin; i < end; i++)
		marks[i] |= index->blocks[i].kind == RP_BLOCK_EVENT ||
			    index->blocks[i].kind == RP_BLOCK_SEQUENCE_POINT;
}

static bool is_wanted_by(const struct rp_index_block *block, const struct rp_index_filter *filter,
			 const struct rp_index_filter *lead)
{
	return is_wanted(block, filter) || (lead && is_wanted(block, lead));
}

/* Mark the blocks of events that are wanted, or, of these, those in the query's parts. */
static void mark_events(const struct rp_trace_index *index, const struct rp_index_filter *filter,
			const struct rp_index_filter *lead, bool *marks)
{
	const struct rp_trace_query *query = filter->query;
	uint64_t distance = 0, before = 0, part_begin = 0, part_end = 0;

	for (size_t i = 0; i < index->block_count; i++) {
		marks[i] = is_wanted_by(&index->blocks[i], filter, lead);
		distance += marks[i] ? index->blocks[i].events : 0;
	}
	distance = query->part_count ? distance / query->part_count : 0;
	for (size_t i = 0; distance && i < index->block_count; i++) {
		if (!marks[i])
			continue;
		if (before >= part_begin) {
			part_begin = (before / distance + 1) * distance;
			part_end = before + query->part_events;
		}
		marks[i] = before < part_end;
		before += index->blocks[i].events;
	}
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

/* @lead: of the events before the range; or NULL. */
static void mark(const struct rp_trace_index *index, const struct rp_index_filter *filter,
		 const struct rp_index_filter *lead, bool *marks)
{
	/* The events from the damage on are read, because it must be reported. */
	size_t end = index->is_whole ? 0 : index->block_count, begin = 0;

	mark_events(index, filter, lead, marks);
	if (filter->query->has_points)
		mark_points(index, filter->query, marks);
	for (size_t i = 0; i < index->block_count; i++) {
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
		marks[i] |= mark_part(index, begin, i, false, marks) ||
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

/* Mark the blocks that the query needs. Return: 0; -ENOMEM. */
static int mark_query(const struct rp_trace_index *index, const struct rp_trace_query *query,
		      bool *marks)
{
	const struct rp_trace_query before = {
		.from_ns = INT64_MIN, .to_ns = query->from_ns, .where = query->lead,
	};
	struct rp_index_filter filter, lead = { 0 };
	int ret = rp_index_filter_init(&filter, index, query);

	if (ret == 0 && query->lead)
		ret = rp_index_filter_init(&lead, index, &before);
	if (ret == 0)
		mark(index, &filter, query->lead ? &lead : NULL, marks);
	rp_index_filter_fini(&filter);
	rp_index_filter_fini(&lead);
	return ret;
}

int rp_trace_index_select(const struct rp_trace_index *index, const struct rp_trace_query *query,
			  struct rp_reader *reader)
{
	struct rp_reader_span *spans;
	size_t count = 0, begin, end;
	bool *marks;

	if (!query->has_points && (query->from_ns != INT64_MIN || query->to_ns != INT64_MAX))
		rp_reader_limit_time(reader, query->lead ? INT64_MIN : query->from_ns,
				     query->has_tail ? INT64_MAX : query->to_ns,
				     query->has_descriptions ? rp_event_describes : NULL);
	if (!index)
		return 0;
	marks = calloc(index->block_count + 1, sizeof(*marks));
	spans = calloc(index->block_count + 1, sizeof(*spans));
	if (!marks || !spans || mark_query(index, query, marks) < 0) {
		free(marks);
		free(spans);
		return -ENOMEM;
	}
	find_range(index, query, &begin, &end);
	/* The damage is reported wherever it is. */
	reader->range_end = !index->is_whole ? UINT64_MAX : end ? index->blocks[end - 1].end : 0;
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

bool rp_trace_index_is_past(const struct rp_reader *reader)
{
	return reader->spans && reader->block.begin >= reader->range_end;
}

uint32_t rp_trace_index_gaps(const struct rp_reader *reader)
{
	return reader->gap;
}

int rp_trace_index_select_stored(const char *path, int fd, const struct rp_trace_query *query,
				 struct rp_reader *reader)
{
	struct rp_trace_index index;
	int ret = rp_trace_index_load(path, fd, &index);

	if (ret != -ENOMEM)
		ret = rp_trace_index_select(ret < 0 ? NULL : &index, query, reader);
	rp_trace_index_fini(&index);
	return ret;
}
