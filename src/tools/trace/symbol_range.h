/* SPDX-License-Identifier: MIT */
#ifndef RP_TOOLS_TRACE_SYMBOL_RANGE_H
#define RP_TOOLS_TRACE_SYMBOL_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* A mapping or a function; or metadata, whose `start` is its id and whose name is a build id. */
struct rp_symbol_range {
	uint64_t process;
	uint64_t start, last;
	uint64_t furthest;		/* the greatest `last` of the process up to this row */
	uint64_t id;			/* of a mapping; of a function: that of its mapping */
	uint64_t offset;		/* in the file; of a mapping */
	const char *name;		/* of the function, or the file */
	const char *build_id;		/* of a mapping; NULL: unknown */
	uint64_t metadata;		/* id of the mapping's metadata; 0: none */
	const struct rp_symbol_range *mapping;	/* of a function; NULL: not in the trace */
	int64_t time_ns;
	size_t reported;		/* how many ranges were reported before this one */
	uint32_t life;			/* of the process id */
};

#endif
