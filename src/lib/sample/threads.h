/* SPDX-License-Identifier: MIT */
/* The threads of this program, as the sampler knows them. */
#ifndef RP_SAMPLE_THREADS_H
#define RP_SAMPLE_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define RP_THREAD_NAME_BYTES 16u	/* the kernel's, the NUL included */

/* The samples that a thread still owes to the beginning of the newest session. */
enum rp_beginning {
	RP_BEGUN,
	RP_OWES_STACK,
	RP_OWES_END,		/* the sample after that */
};

/*
 * One thread. Its place in the table is its number for as long as it lives; a place may be another
 * thread's later.
 */
struct rp_sampled {
	uint32_t id;			/* of the kernel; 0: a free place */
	uint32_t awake;			/* had a sample, and no sign of sleep since */
	uint32_t samples;		/* taken; by its own handler */
	uint32_t samples_before;	/* as rp_beginning_write() saw them last */
	uint64_t cpu_ns;		/* of its CPU clock, when last looked at awake */
	uint64_t pass;			/* of the last scan that saw it */
	timer_t timer;
	bool has_timer;
	bool is_named;			/* its name was emitted */
	enum rp_beginning beginning;
	uint8_t tries;			/* to find it asleep */
	char name[RP_THREAD_NAME_BYTES];
};

/* The table: place numbers below RP_THREADS_MAX. Mapped at the first scan, never unmapped. */
#define RP_THREADS_MAX 65536u
extern struct rp_sampled *rp_threads;

/* The places in use. */
extern uint32_t *rp_threads_used;
extern uint32_t rp_threads_count;

/* Callbacks of a scan of the threads. */
struct rp_thread_visitor {
	void (*came)(struct rp_sampled *thread);
	void (*went)(struct rp_sampled *thread);	/* before its place is free */
};

/*
 * Looks who came and who went. Threads without a place are left out: above RP_THREADS_MAX, or the
 * few that share one with too many others. Return: 0 or -errno.
 */
int rp_threads_scan(const struct rp_thread_visitor *visitor);

/* All have gone. */
void rp_threads_clear(const struct rp_thread_visitor *visitor);

/* In a forked child. */
void rp_threads_forget(void);

/* Reads /proc/self/task/ID/NAME. Return: bytes, the text ended by NUL; or -errno. */
int rp_thread_file(uint32_t id, const char *name, char *ret_text, size_t size);

/* A mask of signals of the thread's status: "SigBlk", "SigPnd". All ones if it cannot be read. */
uint64_t rp_thread_signals(uint32_t id, const char *field);

/* The thread's CPU time. Return: 0 or -errno; -EINVAL for a thread that is gone. */
int rp_thread_cpu_ns(uint32_t id, uint64_t *ret_ns);

/* The clock that counts it. */
clockid_t rp_thread_cpu_clock(uint32_t id);

#endif
