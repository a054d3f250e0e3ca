/* SPDX-License-Identifier: MIT */
/* ringpipe view, if this build has the page. */
#include "tools/cli/tool.h"

#ifdef RP_HAVE_VIEW
#include "tools/view/view_run.h"
#endif

int rp_command_view(const struct rp_tool_options *options)
{
#ifdef RP_HAVE_VIEW
	return rp_view_run(options);
#else
	(void)options;
	rp_tool_error("view: this build of ringpipe has no page, which needs libmicrohttpd, "
		      "Node.js and the packages of src/tools/view/page/");
	return RP_EXIT_FAILURE;
#endif
}
