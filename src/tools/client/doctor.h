/* SPDX-License-Identifier: MIT */
/* Checks of the machine's offers to ringpipe. */
#ifndef RP_TOOL_DOCTOR_H
#define RP_TOOL_DOCTOR_H

#include <stddef.h>

#include <json.h>

enum rp_check_state {
	RP_CHECK_WORKS,
	RP_CHECK_LIMITED,		/* works partly, or costs more */
	RP_CHECK_MISSING,
	RP_CHECK_STATES
};

#define RP_CHECK_TEXT_MAX 256

/* The answer of a check. The texts are complete sentences or names, without a period. */
struct rp_finding {
	enum rp_check_state state;
	char found[RP_CHECK_TEXT_MAX];	/* what is there */
	const char *fix;		/* how to get more; NULL: nothing to do */
};

/*
 * Fill in the finding. Checks try what they report on, because versions and settings do not show
 * what a container or a security module refuses.
 */
typedef void (*rp_check)(struct rp_finding *ret_finding);

/* Checks of this process and the library in it: doctor_process.c. */
void rp_check_kernel(struct rp_finding *ret_finding);
void rp_check_libc(struct rp_finding *ret_finding);
void rp_check_rseq(struct rp_finding *ret_finding);
void rp_check_membarrier(struct rp_finding *ret_finding);
void rp_check_clock(struct rp_finding *ret_finding);
void rp_check_sockets(struct rp_finding *ret_finding);
void rp_check_recovery(struct rp_finding *ret_finding);
void rp_check_lttng(struct rp_finding *ret_finding);
void rp_check_container(struct rp_finding *ret_finding);

/* Checks of the kernel's tracing: doctor_kernel.c. */
void rp_check_perf_events(struct rp_finding *ret_finding);
void rp_check_cycles(struct rp_finding *ret_finding);
void rp_check_bpf(struct rp_finding *ret_finding);
void rp_check_btf(struct rp_finding *ret_finding);
void rp_check_tracefs(struct rp_finding *ret_finding);
void rp_check_waits(struct rp_finding *ret_finding);
void rp_check_uprobes(struct rp_finding *ret_finding);
void rp_check_user_events(struct rp_finding *ret_finding);
void rp_check_kernel_names(struct rp_finding *ret_finding);
void rp_check_other_processes(struct rp_finding *ret_finding);

/* Run all checks. Return: an array of their findings, owned by the caller; NULL: no memory. */
struct json_object *rp_doctor_to_json(void);

/* Set a finding, whose text is formatted like printf's. */
void rp_finding_set(struct rp_finding *ret_finding, enum rp_check_state state, const char *fix,
		    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
