/* SPDX-License-Identifier: MIT */
#include "tools/trace/time_range.h"

#include <errno.h>
#include <string.h>

/* Return: 0, and a time since the start of the recording; -EINVAL, after an error line. */
static int resolve(const char *command, const struct rp_time_point *point,
		   const struct rp_reader_info *info, int64_t *ret_ns)
{
	if (!point->is_utc) {
		*ret_ns = point->ns;
		return 0;
	}
	if (!info->start_utc_ns) {
		rp_tool_error("%s: the trace does not state the time of day of its start; give a "
			      "time since the start, as 1.5s", command);
		return -EINVAL;
	}
	if (__builtin_sub_overflow(point->ns, info->start_utc_ns, ret_ns))
		*ret_ns = point->ns < 0 ? INT64_MIN : INT64_MAX;
	return 0;
}

static int report(const char *command, const char *path, int ret)
{
	if (ret < 0)
		rp_tool_error("%s: cannot index %s: %s", command, path, strerror(-ret));
	return ret;
}

int rp_time_range_resolve(const char *command, const struct rp_tool_options *options,
			  const struct rp_reader *reader, struct rp_time_range *ret_range)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_time_range range = RP_TIME_RANGE_ALL;
	int ret = 0;

	rp_reader_get_info(reader, &info);
	if (options->given & RP_OPTION_FROM)
		ret = resolve(command, &options->from, &info, &range.from_ns);
	if (ret == 0 && options->given & RP_OPTION_RANGE_END)
		ret = resolve(command, &options->range_end, &info, &range.to_ns);
	if (ret < 0)
		return ret;
	if (options->given & RP_OPTION_FROM && options->given & RP_OPTION_RANGE_END &&
	    range.from_ns >= range.to_ns) {
		rp_tool_error("%s: --from must be earlier than --to", command);
		return -EINVAL;
	}
	*ret_range = range;
	return 0;
}

int rp_time_range_index(const char *command, const char *path, const struct rp_input *input,
			struct rp_trace_index **ret_index)
{
	int ret = 0;

	*ret_index = NULL;
	if (rp_input_can_seek(input))
		ret = rp_trace_index_open(path, input->signal_fd, ret_index);
	return ret == -ESPIPE ? 0 : report(command, path, ret);
}

int rp_time_range_select(const char *command, const struct rp_trace_query *query, const char *path,
			 const struct rp_input *input, struct rp_reader *reader)
{
	const struct rp_time_range range = { query->from_ns, query->to_ns };
	struct rp_trace_index *index;
	int ret;

	/* The making of an index reads the whole trace, which an expression alone needs, too. */
	if (rp_time_range_is_all(&range))
		return report(command, path, !query->where || !rp_input_can_seek(input) ? 0 :
			      rp_trace_index_select_stored(path, input->fd, query, reader));
	ret = rp_time_range_index(command, path, input, &index);
	if (ret < 0)
		return ret;
	ret = rp_trace_index_select(index, query, reader);
	rp_trace_index_close(index);
	return report(command, path, ret);
}

int rp_time_range_apply(const char *command, const struct rp_tool_options *options,
			struct rp_expression *where, const char *path,
			const struct rp_input *input, struct rp_reader *reader)
{
	struct rp_time_range range;
	struct rp_trace_query query;
	int ret = rp_time_range_resolve(command, options, reader, &range);

	if (ret < 0)
		return ret;
	query = rp_time_range_query(&range);
	query.where = where;
	return rp_time_range_select(command, &query, path, input, reader);
}
