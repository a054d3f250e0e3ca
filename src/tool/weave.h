/* SPDX-License-Identifier: MIT */
/*
 * Several processes' traces woven into one, by time. A nettrace file names one process, so events
 * of provider `ringpipe` tell the others (fields in weave.c): ProcessTraced before all of a
 * process, ThreadOfProcess before the first event of a thread, and again when its number comes back
 * in another process; ProcessEnd after all, with how many events it had and lost, and whether it is
 * whole.
 */
#ifndef RP_TOOL_WEAVE_H
#define RP_TOOL_WEAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/output.h"

#define RP_WEAVE_PROVIDER "ringpipe"

enum rp_weave_event {
	RP_WEAVE_PROCESS = 64,		/* ids; the library's own are below */
	RP_WEAVE_THREAD,
	RP_WEAVE_END,
};

struct rp_weave_source {
	int fd;				/* of a trace, at its beginning */
	pid_t pid;
	pid_t parent;			/* 0: not known */
	const char *name;
	const char *command_line;
	uint64_t events;		/* told by rp_weave() */
	uint64_t lost;
	bool whole;			/* it did not stop before its end */
};

/*
 * Reads all sources and writes one trace, `process_id`'s. What a source has up to its end, or up to
 * where it is cut or damaged, is there: each event once, its payload, time, stack and activity as
 * they were; losses are summed.
 *
 * Return: 0; -ENODATA: there is no source with a head; -ENOMEM; what write(2) said.
 */
int rp_weave(struct rp_weave_source *sources, size_t count, pid_t process_id,
	     struct rp_output *output);

#endif
