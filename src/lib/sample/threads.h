/* SPDX-License-Identifier: MIT */
/* The sampler's table of the threads of this program. */
#ifndef RP_SAMPLE_THREADS_H
#define RP_SAMPLE_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define RP_THREAD_NAME_BYTES 16u	/* the kernel's limit, NUL included */

/* The samples that a thread still owes for the beginning of the newest session. */
enum rp_beginning {
	RP_BEGUN,
	RP_OWES_STACK,
	RP_OWES_END,		/* the second sample */
};

/*
 * One thread. Its place in the table does not change while the thread lives; afterwards another
 * thread may use the place.
 */
struct rp_sampled {
	uint32_t id;			/* the kernel's thread id; 0: a free place */
	uint32_t awake;			/* sampled, and not seen asleep since */
	uint32_t samples;		/* number taken, by the thread's own handler */
	uint32_t samples_before;	/* `samples` when rp_beginning_write() last looked */
	uint64_t cpu_ns;		/* the thread's CPU clock when last seen awake */
	uint64_t host_cpu_ns;		/* the same, when rp_host_samples_take() last looked */
	uint64_t pass;			/* the last scan that found the thread */
	timer_t timer;
	bool has_timer;
	bool host_is_due;		/* it has run since rp_host_samples_take() last looked */
	bool is_named;			/* its name was emitted */
	enum rp_beginning beginning;
	uint8_t tries;			/* failed attempts to find it asleep */
	char name[RP_THREAD_NAME_BYTES];
};

/* The table: place numbers below RP_THREADS_MAX. The first scan maps it; it is never unmapped. */
#define RP_THREADS_MAX 65536u
extern struct rp_sampled *rp_threads;

/* The places in use. */
extern uint32_t *rp_threads_used;
extern uint32_t rp_threads_count;

/* Callbacks of a scan of the threads. */
struct rp_thread_visitor {
	void (*came)(struct rp_sampled *thread);
	void (*went)(struct rp_sampled *thread);	/* called before the place is freed */
};

/*
 * Find threads that have started or ended, and call the visitor for them. Threads without a free
 * place are left out: the table has RP_THREADS_MAX places, and each thread has only a few
 * candidates.
 * Return: 0 or -errno.
 */
int rp_threads_scan(const struct rp_thread_visitor *visitor);

/* Remove all threads from the table, with the visitor's `went`. */
void rp_threads_clear(const struct rp_thread_visitor *visitor);

/* Forget the table in a forked child. */
void rp_threads_forget(void);

/*
 * Read /proc/self/task/ID/NAME and terminate the text with a NUL. Return: number of bytes; or
 * -errno.
 */
int rp_thread_file(uint32_t id, const char *name, char *ret_text, size_t size);

#endif
