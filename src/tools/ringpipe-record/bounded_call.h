/* SPDX-License-Identifier: MIT */
/*
 * Calls functions that may wait for others: for a process whose memory is missing, or for the
 * server of a file system. The recorder continues without their results, because a thread that
 * waits would not drain the rings of perf_events.
 *
 * The functions run in worker processes, because no signal ends a thread whose request a server of
 * FUSE has taken, and a program with such a thread cannot end. A worker has no file of the recorder
 * open, and is killed when the recorder ends.
 */
#ifndef RP_RECORD_BOUNDED_CALL_H
#define RP_RECORD_BOUNDED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest request and the largest reply. */
#define RP_BOUNDED_BYTES_MAX (64u << 10)

struct rp_bounded_call {
	uint64_t source;		/* what the call may wait for; not 0 */
	uint64_t limit_ns;
	/*
	 * Read the request, and fill the reply, which is all zeros. Context: a worker process,
	 * which has the static data of the first call; async-signal-safe functions alone.
	 * Return: a descriptor for the caller; -1: none.
	 */
	int (*run)(const void *request, void *reply);
	/* Called with the reply of an abandoned call, when a later call finds it; or NULL. */
	void (*discard)(const void *reply);
	const void *request;
	size_t request_bytes;
	void *reply;
	size_t reply_bytes;		/* not 0 */
};

/* How long a call waits until its worker runs; a stopped one does not. A unit test changes this. */
extern uint64_t rp_bounded_begin_limit_ns;

/*
 * Fork the process that forks the workers. The first call does so if this function was not called;
 * a program calls it while it has little memory, as long as it has one thread.
 */
void rp_bounded_start(void);

/*
 * Call run() in a worker, which is abandoned if the call takes longer than the limit. As long as
 * that worker waits, further calls of the same source fail, and all calls if 64 workers wait. A
 * worker that does not run in 10 seconds is abandoned, too; until it runs, only the workers that
 * have served a call serve further ones.
 *
 * @ret_fd: the descriptor that run() returned, or -1; it belongs to the caller.
 * Context: any thread.
 * Return: whether the call has returned. Otherwise the reply and `ret_fd` are untouched.
 */
bool rp_bounded_call(const struct rp_bounded_call *call, int *ret_fd);

/*
 * Return: whether a call failed because no worker ran: it was stopped, or ended before or in the
 * call, or could not be forked, or the process that forks workers could not or has ended.
 */
bool rp_bounded_is_missing(void);

/* Get a number that the callers share with the functions in all workers. It is 0 at first. */
uint64_t *rp_bounded_number(void);

#endif
