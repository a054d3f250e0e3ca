/* SPDX-License-Identifier: MIT */
/*
 * The waits of all threads, and more on request, which BPF programs in the kernel record. For one
 * thread at a time.
 */
#ifndef RP_RECORD_WAIT_PROGRAMS_H
#define RP_RECORD_WAIT_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/waits.h"

struct rp_waits;

/* Records besides waits: bits of `groups`. */
enum rp_waits_group {
	RP_WAITS_CALLS = 1 << 0,	/* system calls above the threshold */
	RP_WAITS_FUTEX = 1 << 1,	/* of those, futex() alone, unless CALLS is set, too */
	RP_WAITS_FAULTS = 1 << 2,	/* page faults of user mode */
	RP_WAITS_BLOCK = 1 << 3,	/* requests to block devices */
	RP_WAITS_INTERRUPTS = 1 << 4,	/* interrupts above the threshold */
};

/* Return: whether to record the process. */
typedef bool (*rp_waits_filter)(void *context, pid_t process);

struct rp_waits_options {
	uint64_t threshold_ns;		/* shorter waits, calls and interrupts are left out */
	unsigned int groups;
	bool without_waits;
	size_t ring_bytes;		/* a power of two, in pages */
	rp_waits_filter wants;		/* called at the start; NULL: record all processes */
	void *context;			/* of `wants` */
	bool by_owner;			/* the answer depends on the user or the cgroups */
	uint64_t since_ns;		/* `wants` knows the processes that started before */
	/* Tracepoints are only those of these threads, and of what they start; NULL: all. */
	const pid_t *threads;
	size_t thread_count;
};

/* The record is valid during the call. Another value than 0 ends the drain, which returns it. */
typedef int (*rp_waits_callback)(void *user, const struct rp_wait_record *record);

/*
 * Load and attach the programs.
 *
 * Return: 0; -EOPNOTSUPP: this program was built without libbpf, or the kernel has no type
 * information or lacks a tracepoint; -EPERM: no permission to load them; -errno.
 */
int rp_waits_start(const struct rp_waits_options *options, rp_waits_callback callback, void *user,
		   struct rp_waits **ret_waits);
void rp_waits_destroy(struct rp_waits *waits);

/* A descriptor that becomes readable when a part of the ring is in use. */
int rp_waits_fd(const struct rp_waits *waits);

/* Deliver what the ring contains, roughly in order of time. */
int rp_waits_drain(struct rp_waits *waits);

/*
 * Record no more of the record's process and of the children that it starts from now on. If the
 * filter depends on the user and the cgroups, a process is recorded again after a change of these.
 */
void rp_waits_reject(struct rp_waits *waits, const struct rp_wait_record *record);

/* Return: the descriptor of the program that rp_perf_attach() runs for each sample. */
int rp_waits_sample_program(const struct rp_waits *waits);
/* Let that program output into the descriptor. `user`: the struct rp_waits. 0; -errno. */
int rp_waits_set_output(void *user, uint32_t processor, int fd);

/* Set where the threads of a process have the pointer to their ids; NULL: nowhere. */
void rp_waits_set_context_place(struct rp_waits *waits, pid_t process,
				const struct rp_context_place *place);

/* Detach the programs. Records in the ring remain. */
void rp_waits_stop(struct rp_waits *waits);

/* Return: the number of waits and wakings that have no record, for one reason. */
uint64_t rp_waits_lost(const struct rp_waits *waits, enum rp_wait_loss reason);

#endif
