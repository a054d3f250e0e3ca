/* SPDX-License-Identifier: MIT */
/* The functions in a name that `ringpipe symbolize --inlines` made. */
#ifndef RP_TOOL_INLINED_NAMES_H
#define RP_TOOL_INLINED_NAMES_H

#include <stddef.h>

#define RP_INLINED_NAMES_MAX 32u

struct rp_inlined_name {
	const char *text;		/* not terminated */
	size_t length;
};

/*
 * Find the functions in a name such as "leaf (inlined by middle, main)", innermost first. Commas in
 * brackets, as those of C++ templates and arguments, separate none.
 * Return: their number; 1: the name is of one function, or has more than RP_INLINED_NAMES_MAX.
 */
size_t rp_inlined_names_find(const char *name,
			     struct rp_inlined_name ret_names[RP_INLINED_NAMES_MAX]);

#endif
