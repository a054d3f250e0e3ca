/* SPDX-License-Identifier: MIT */
/* The program that puts the kernel's events into a trace on its way into the file. */
#ifndef RP_TOOL_KERNEL_PROGRAM_H
#define RP_TOOL_KERNEL_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/ringpipe/output.h"

/*
 * `groups`: bits, as ringpipe-kernel knows them.
 *
 * From here on the output goes through the program, until rp_output_close(). Where that cannot be,
 * which is said on stderr, it goes on as it was.
 */
void rp_kernel_start(struct rp_output *output, pid_t pid, unsigned int groups, uint32_t buffer_mb);

#endif
