/* SPDX-License-Identifier: MIT */
#include "tools/trace/time_range.h"

#include <errno.h>
#include <string.h>

#include "tools/trace/trace_index.h"

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

/* Use an index for the expression if there is one, since its making would read the whole trace. */
static int select_stored(const char *command, const struct rp_trace_query *query, const char *path,
			 const struct rp_input *input, struct rp_reader *reader)
{
	struct rp_trace_index index;
	int ret;

	if (!rp_input_can_seek(input) || rp_trace_index_load(path, input->fd, &index) < 0)
		return 0;
	ret = rp_trace_index_select(&index, query, reader);
	rp_trace_index_fini(&index);
	return report(command, path, ret);
}

int rp_time_range_apply(const char *command, const struct rp_tool_options *options,
			struct rp_expression *where, const char *path,
			const struct rp_input *input, struct rp_reader *reader)
{
	struct rp_trace_query query = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .has_descriptions = true, .where = where,
	};
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_trace_index *index = NULL;
	int ret = 0;

	if (!(options->given & (RP_OPTION_FROM | RP_OPTION_RANGE_END)))
		return where ? select_stored(command, &query, path, input, reader) : 0;
	rp_reader_get_info(reader, &info);
	if (options->given & RP_OPTION_FROM)
		ret = resolve(command, &options->from, &info, &query.from_ns);
	if (ret == 0 && options->given & RP_OPTION_RANGE_END)
		ret = resolve(command, &options->range_end, &info, &query.to_ns);
	if (ret < 0)
		return ret;
	if (query.from_ns >= query.to_ns) {
		rp_tool_error("%s: --from must be earlier than --to", command);
		return -EINVAL;
	}
	if (rp_input_can_seek(input))
		ret = rp_trace_index_open(path, input->signal_fd, &index);
	if (ret == 0 || ret == -ESPIPE)
		ret = rp_trace_index_select(index, &query, reader);
	rp_trace_index_close(index);
	return report(command, path, ret);
}
