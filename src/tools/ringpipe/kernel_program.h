/* SPDX-License-Identifier: MIT */
/* Runs ringpipe-kernel, which inserts the kernel's events into a trace on its way to the file. */
#ifndef RP_TOOL_KERNEL_PROGRAM_H
#define RP_TOOL_KERNEL_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/trace/output.h"

/*
 * Send the output through the program, until rp_output_close(). `groups` are the bits of
 * ringpipe-kernel's event groups. If the program cannot run, the function reports the cause on
 * stderr and leaves the output unchanged.
 */
void rp_kernel_start(struct rp_output *output, pid_t pid, unsigned int groups, uint32_t buffer_mb);

#endif
