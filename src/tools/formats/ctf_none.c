/* SPDX-License-Identifier: MIT */
/* Without libbabeltrace2. */
#include <errno.h>

#include "tools/cli/tool.h"
#include "tools/formats/format_writer.h"

static int open_nothing(const struct rp_format_source *source, struct rp_format_out *out,
			void **ret_state)
{
	(void)source, (void)ret_state;
	rp_tool_error("convert: this build has no --to ctf, which needs libbabeltrace2");
	out->error = -EOPNOTSUPP;
	return -EOPNOTSUPP;
}

const struct rp_format_writer rp_format_ctf = {
	.name = "ctf", .is_folder = true, .open = open_nothing,
};
