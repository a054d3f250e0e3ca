/* SPDX-License-Identifier: MIT */
/* Loads the BPF program and attaches it to its probe. The functions report each failure once. */
#ifndef RP_BPF_PROGRAM_H
#define RP_BPF_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include <bpf/libbpf.h>

#include "../../bpf/aggregate.h"
#include <batch.skel.h>

struct rp_bpf_program {
	struct batch_bpf *skeleton;
	struct bpf_link *link;
};

/* Loads the program for a mode; the kernel verifies it. Return: 0; -errno, reported. */
int rp_bpf_program_load(enum rp_bpf_mode mode, uint64_t linear_step,
			struct rp_bpf_program *ret_program);

/*
 * Attaches the program to the instruction at `address` in the process, for the batches of one
 * session. Return: 0; -errno, reported.
 */
int rp_bpf_program_attach(struct rp_bpf_program *program, pid_t pid, uint64_t address,
			  uint64_t session_id);

void rp_bpf_program_fini(struct rp_bpf_program *program);

#endif
