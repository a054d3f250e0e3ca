/* SPDX-License-Identifier: MIT */
/* The rows of all options. */
#ifndef RP_TOOL_OPTION_TABLE_H
#define RP_TOOL_OPTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/cli/tool.h"

struct rp_option {
	rp_option_set flag;
	char letter;			/* or 0 */
	const char *name;
	const char *argument;		/* name of its argument, or NULL */
	const char *help;
	int (*take)(struct rp_tool_options *options, const char *value);
};

/* In the order in which the help prints them. */
extern const struct rp_option rp_option_table[];
extern const size_t rp_option_count;

#endif
