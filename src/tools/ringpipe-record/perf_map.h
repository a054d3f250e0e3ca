/* SPDX-License-Identifier: MIT */
/*
 * The functions of generated code, from the files that compilers such as those of .NET, Java and
 * Node.js write on request: /tmp/perf-PID.map and jitdump files. Their content is untrusted.
 *
 * Source: tools/perf/Documentation/jit-interface.txt of Linux.
 */
#ifndef RP_RECORD_PERF_MAP_H
#define RP_RECORD_PERF_MAP_H

#include "tools/ringpipe-record/process_table.h"

struct rp_perf_map_function {
	uint64_t start, end;		/* end is exclusive */
	size_t line;			/* of the file; later lines replace earlier ones */
	const char *name;
	char *owned;			/* the name, if it is not in the map's text */
};

struct rp_perf_map {
	const struct rp_machine_process *process;	/* NULL: none was read */
	struct rp_perf_map_function *functions;	/* sorted by address */
	size_t count, capacity;
	char *text;
};

/* Read the files of a process, as that process sees the paths. Without files, the map is empty. */
void rp_perf_map_read(struct rp_perf_map *map, const struct rp_machine_process *process);

const struct rp_perf_map_function *rp_perf_map_find(const struct rp_perf_map *map,
						    uint64_t address);
void rp_perf_map_fini(struct rp_perf_map *map);

#endif
