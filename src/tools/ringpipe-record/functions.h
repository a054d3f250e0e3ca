/* SPDX-License-Identifier: MIT */
/*
 * Finds the names of the functions in stacks, and puts them into the trace. The names found in an
 * image serve all processes and all later stacks.
 */
#ifndef RP_RECORD_FUNCTIONS_H
#define RP_RECORD_FUNCTIONS_H

#include "tools/trace/kernel_symbols.h"
#include "tools/ringpipe-record/machine_trace.h"
#include "tools/ringpipe-record/stop_requests.h"

struct rp_functions;

/* Reads the kernel's symbols. 0; -ENOMEM. */
int rp_functions_create(struct rp_functions **ret_functions);
void rp_functions_destroy(struct rp_functions *functions);

/* Why the kernel's functions have no names: -errno, or 0. */
int rp_functions_kernel_error(const struct rp_functions *functions);

/*
 * Take the hits of the trace, and clear them there. rp_functions_step() names them. This function
 * names generated code itself, because the process may end, and waits for the thread that reads
 * symbols. 0; -ENOMEM.
 */
int rp_functions_take(struct rp_functions *functions, struct rp_record_trace *trace);

/* Name the generated code of a process that executes another program. 0; -ENOMEM. */
int rp_functions_name_generated(struct rp_record_trace *trace,
				const struct rp_machine_process *process);

/*
 * Name what was taken as soon as its symbols are known. Another thread reads them, because the
 * rings of the kernel would fill up meanwhile.
 * @ending: NULL, or wait for that thread, which takes these requests meanwhile, and reads no more
 * symbols after the second one.
 * @ret_is_done: there is no more to name.
 * Return: 0; -ENOMEM.
 */
int rp_functions_step(struct rp_functions *functions, struct rp_record_trace *trace,
		      struct rp_stop_requests *ending, bool *ret_is_done);

#endif
