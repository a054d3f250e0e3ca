/* SPDX-License-Identifier: MIT */
/* A command that is traced from its start to its end. */
#ifndef RP_TOOL_CHILD_H
#define RP_TOOL_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rp_child_plan {
	char *const *arguments;		/* ended by NULL */
	const char *config;		/* RINGPIPE_CONFIG */
	const char *output;		/* RINGPIPE_OUTPUT, absolute; the library replaces {pid} */
	uint32_t buffer_mb;		/* RINGPIPE_BUFFER_MB */
	bool stacks;			/* RINGPIPE_STACKS */
};

/*
 * Runs the command to its end, passing on signals that were meant for it.
 *
 * Return: 0 with its pid and its exit status (128 + signal when one killed it); -errno when it
 * could not be started, said on stderr.
 */
int rp_child_run(const struct rp_child_plan *plan, pid_t *ret_pid, int *ret_status);

#endif
