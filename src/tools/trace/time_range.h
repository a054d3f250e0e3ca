/* SPDX-License-Identifier: MIT */
/* The options --from and --to of commands that read a trace. */
#ifndef RP_TOOL_TIME_RANGE_H
#define RP_TOOL_TIME_RANGE_H

#include <ringpipe/reader.h>

#include "tools/cli/tool.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/input.h"
#include "tools/trace/trace_index.h"

/* Times since the start of a recording; `to_ns` is excluded. */
struct rp_time_range {
	int64_t from_ns, to_ns;
};

#define RP_TIME_RANGE_ALL ((struct rp_time_range){ INT64_MIN, INT64_MAX })

static inline bool rp_time_range_is_all(const struct rp_time_range *range)
{
	return range->from_ns == INT64_MIN && range->to_ns == INT64_MAX;
}

/* A range without an end has all times, also INT64_MAX. */
static inline bool rp_time_range_has(const struct rp_time_range *range, int64_t time_ns)
{
	return time_ns >= range->from_ns && (time_ns < range->to_ns || range->to_ns == INT64_MAX);
}

/*
 * Get the range of the options, in the times of the reader's trace; without them, all times.
 * @command: for messages.
 *
 * Return: 0; -EINVAL, after an error line: the options do not fit each other or the trace.
 */
int rp_time_range_resolve(const char *command, const struct rp_tool_options *options,
			  const struct rp_reader *reader, struct rp_time_range *ret_range);

/* Return: the query of the events of a range, and of those that describe others. */
static inline struct rp_trace_query rp_time_range_query(const struct rp_time_range *range)
{
	return (struct rp_trace_query){
		.from_ns = range->from_ns, .to_ns = range->to_ns, .has_descriptions = true,
	};
}

/*
 * Get the index of a trace for queries of times; see rp_trace_index_open(). Print the cause of a
 * failure.
 * @command: for messages.
 * @path: of the input.
 * @ret_index: for rp_trace_index_close(); NULL: the trace cannot have one.
 *
 * Return: 0; -ENOMEM; -ECANCELED; -errno of read(2).
 */
int rp_time_range_index(const char *command, const char *path, const struct rp_input *input,
			struct rp_trace_index **ret_index);

/*
 * Make a reader, which has returned no event yet, return only the events of a query. For a query of
 * times, a file is read by its index, which is built if necessary. For another one, only an index
 * that is there is used. The function prints the cause of a failure.
 * @command: for messages.
 * @path: of the input.
 *
 * Return: 0; -ENOMEM; -ECANCELED; -errno of read(2).
 */
int rp_time_range_select(const char *command, const struct rp_trace_query *query, const char *path,
			 const struct rp_input *input, struct rp_reader *reader);

/*
 * Make a reader, which has returned no event yet, return only the events of the options' times, and
 * those that describe others; see rp_time_range_select().
 * @command: for messages.
 * @where: blocks may be skipped if they have no event that fulfils it; NULL: none.
 *
 * Return: as rp_time_range_resolve() and rp_time_range_select().
 */
int rp_time_range_apply(const char *command, const struct rp_tool_options *options,
			struct rp_expression *where, const char *path,
			const struct rp_input *input, struct rp_reader *reader);

#endif
