/* SPDX-License-Identifier: MIT */
/*
 * Evaluates an expression for a block of the index, without its events. The index knows which
 * types, threads and times a block has. A field, which the index does not know, may have any value.
 */
#include "tools/trace/trace_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/event_expression_parts.h"
#include "tools/trace/trace_merge.h"

static uint64_t type_bit(size_t index)
{
	return 1ull << index % 64;
}

static bool states_process(const struct rp_index_type *type)
{
	return type->id >= RP_TRACE_MERGE_PROCESS && type->id <= RP_TRACE_MERGE_END &&
	       !strcmp(type->provider, RP_TRACE_MERGE_PROVIDER);
}

/* Decide the comparisons that the type decides, and whether the expression accepts the type. */
static bool accepts_type(struct rp_index_filter *filter, const struct rp_index_type *type)
{
	struct rp_expression *where = filter->query->where;
	const struct rp_reader_type shown = {
		.provider = type->provider, .name = type->name, .id = type->id,
		.version = type->version,
	};

	for (size_t i = 0; i < where->comparison_count; i++) {
		const struct rp_comparison *comparison = &where->comparisons[i];

		/* The index does not have the fields of the type. */
		filter->comparisons[i].result = RP_KNOWN_PER_EVENT;
		if (comparison->name != RP_NAME_FIELD)
			rp_expression_learn(where, &shown, comparison, &filter->comparisons[i]);
	}
	return rp_expression_decide(where, filter->comparisons) != RP_VERDICT_NEVER;
}

int rp_index_filter_init(struct rp_index_filter *filter, const struct rp_trace_index *index,
			 const struct rp_trace_query *query)
{
	*filter = (struct rp_index_filter){
		.query = query, .types = UINT64_MAX, .knows_processes = index->has_processes,
	};
	for (size_t i = 0; i < index->type_count; i++) {
		if (states_process(&index->types[i]))
			filter->knows_processes = false;
	}
	if (!query->where)
		return 0;
	filter->comparisons = calloc(query->where->comparison_count, sizeof(*filter->comparisons));
	if (!filter->comparisons)
		return -ENOMEM;
	filter->types = 0;
	for (size_t i = 0; i < index->type_count; i++) {
		if (accepts_type(filter, &index->types[i]))
			filter->types |= type_bit(i);
	}
	return 0;
}

void rp_index_filter_fini(struct rp_index_filter *filter)
{
	free(filter->comparisons);
}

/* If other events state which process a thread belongs to, the index does not know it. */
static bool has_process(const struct rp_index_filter *filter, const struct rp_index_block *block,
			uint64_t process)
{
	return !filter->knows_processes || block->processes & rp_index_bit(process);
}

/* Return: whether an integer between `low` and `high` can fulfil the comparison. */
static bool is_possible(const struct rp_comparison *comparison, int64_t low, int64_t high)
{
	const __int128 value = comparison->value.integer;

	switch (comparison->operator) {
	case RP_OPERATOR_EQUAL:
		return value >= low && value <= high;
	case RP_OPERATOR_LESS:
		return low < value;
	case RP_OPERATOR_AT_MOST:
		return low <= value;
	case RP_OPERATOR_MORE:
		return high > value;
	case RP_OPERATOR_AT_LEAST:
		return high >= value;
	default:
		return true;
	}
}

/* Return: whether an event of the block can fulfil the comparison. */
static bool can_hold(const struct rp_index_filter *filter, const struct rp_index_block *block,
		     const struct rp_comparison *comparison)
{
	const struct rp_operand *value = &comparison->value;
	const bool is_equal = comparison->operator == RP_OPERATOR_EQUAL;

	if (value->kind != RP_OPERAND_INTEGER)
		return true;
	if (comparison->name == RP_NAME_TIME)
		return is_possible(comparison, block->first_ns, block->last_ns);
	if (!is_equal || value->integer < 0 || value->integer > UINT64_MAX)
		return true;
	if (comparison->name == RP_NAME_THREAD)
		return block->threads & rp_index_bit((uint64_t)value->integer);
	return comparison->name != RP_NAME_PROCESS ||
	       has_process(filter, block, (uint64_t)value->integer);
}

bool rp_index_filter_accepts(const struct rp_index_filter *filter,
			     const struct rp_index_block *block)
{
	const struct rp_trace_query *query = filter->query;

	if (!(block->types & filter->types) ||
	    (query->has_thread && !(block->threads & rp_index_bit(query->thread))) ||
	    (query->has_process && !has_process(filter, block, query->process)))
		return false;
	if (!query->where)
		return true;
	for (size_t i = 0; i < query->where->comparison_count; i++)
		filter->comparisons[i].result =
			can_hold(filter, block, &query->where->comparisons[i]) ?
			RP_KNOWN_PER_EVENT : RP_KNOWN_FALSE;
	return rp_expression_decide(query->where, filter->comparisons) != RP_VERDICT_NEVER;
}
