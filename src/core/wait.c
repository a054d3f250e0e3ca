/* SPDX-License-Identifier: MIT */
/*
 * Writers that wait for room, in sessions that ask for it: on the writer's cold branch, outside of
 * all sections and locks, so whoever stops the session, forks or exits finds nothing held.
 *
 * ORDERING: a Dekker pair on the slot's word `room`, which outlives its sessions. Either the writer
 * sees the room, or the drain thread sees the writer. Both halves change the word by a LOCKed
 * instruction, so there is no fence besides:
 *
 *	writer					drain thread
 *	------					------------
 *	room |= WAITED_FOR  [WAIT-WORD] seq_cst	store tail		[RING-ROOM]
 *	try to write: load tail	   [RING-ROOM]	room: next round, wake	[WAIT-WORD] seq_cst
 *	futex_wait while `room` is the same
 *
 * The word counts rounds above its flags: else one writer would take another's later announcement
 * for its own, and sleep through the wake-up in between.
 *
 * The end of a session, a sink that failed and an event that is not wanted any more take the place
 * of the tail: first the change that a try to write sees, then the word.
 *
 * Who waited in vain leaves STALLED there, and until the drain thread frees something nobody waits:
 * an output that stands still holds each thread up once, not once for each event.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "core/core.h"

#define WAITED_FOR 1u
#define STALLED 2u
#define ROUND 4u
#define LOCK_NS 100000u		/* before held fallback locks are tried again */

static __thread struct {
	uint64_t until_ns;	/* the end of the wait that goes on, or was left by siglongjmp */
	bool refuses;
} thread __attribute__((tls_model("initial-exec")));

RP_PUBLIC int rp_thread_set_blocking(int blocking)
{
	int before = !thread.refuses;

	thread.refuses = !blocking;
	return before;
}

static bool on_alternate_stack(void)
{
	stack_t stack;

	return sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK);
}

bool rp_wait_begin(struct rp_wait *wait, struct rp_slot *slot)
{
	uint64_t wait_ns = rp_load_relaxed(&slot->wait_ns);
	uint64_t now = rp_clock_monotonic_ns();

	if (wait_ns == 0 || thread.refuses || rp_thread_is_ours || now < thread.until_ns ||
	    on_alternate_stack())
		return false;
	wait->word = rp_or_seq_cst(&slot->room, WAITED_FOR) | WAITED_FOR;	/* [WAIT-WORD] */
	if (wait->word & STALLED)
		return false;
	wait->until_ns = now + wait_ns;
	wait->moved = false;
	thread.until_ns = wait->until_ns;
	return true;
}

void rp_wait_end(void)
{
	thread.until_ns = 0;
}

/* Not through libc, where a wait might be a point of cancellation. */
static void futex_wait(uint32_t *word, uint32_t value, uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, &until, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

bool rp_wait_more(struct rp_wait *wait, struct rp_slot *slot, enum rp_write_result result)
{
	uint64_t now = rp_clock_monotonic_ns(), until = wait->until_ns;
	uint32_t word;

	if (now >= until) {
		if (result == RP_WRITE_NO_ROOM && !wait->moved)
			rp_or_seq_cst(&slot->room, STALLED);
		return false;
	}
	if (result == RP_WRITE_NO_LOCK && until > now + LOCK_NS)
		until = now + LOCK_NS;
	futex_wait(&slot->room, wait->word, until);
	word = rp_or_seq_cst(&slot->room, WAITED_FOR) | WAITED_FOR;	/* [WAIT-WORD] */
	wait->moved |= word / ROUND != wait->word / ROUND;
	wait->word = word;
	return !(word & STALLED);
}

void rp_wait_wake(struct rp_slot *slot)
{
	uint32_t word = rp_load_relaxed(&slot->room);

	while (!rp_cas_seq_cst(&slot->room, &word, (word / ROUND + 1) * ROUND))	/* [WAIT-WORD] */
		;
	if (word & WAITED_FOR)
		syscall(SYS_futex, &slot->room, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
