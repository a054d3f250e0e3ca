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

int rp_time_range_apply(const char *command, const struct rp_tool_options *options,
			const char *path, const struct rp_input *input, struct rp_reader *reader)
{
	struct rp_trace_query query = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .has_descriptions = true,
	};
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_trace_index *index = NULL;
	int ret = 0;

	if (!(options->given & (RP_OPTION_FROM | RP_OPTION_RANGE_END)))
		return 0;
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
		ret = rp_trace_index_open(path, &index);
	if (ret == 0 || ret == -ESPIPE)
		ret = rp_trace_index_select(index, &query, reader);
	if (ret < 0)
		rp_tool_error("%s: cannot index %s: %s", command, path, strerror(-ret));
	rp_trace_index_close(index);
	return ret;
}
