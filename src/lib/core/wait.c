/* SPDX-License-Identifier: MIT */
/*
 * Writers that wait for space, in sessions that request it. A writer waits on its cold branch,
 * outside of all sections and locks, so a thread that stops the session, forks or exits finds
 * nothing held.
 *
 * ORDERING: a Dekker pair on the slot's word `space`, which outlives the sessions of the slot.
 * Either the writer sees the space, or the drain thread sees the writer. Both sides change the word
 * with a LOCKed instruction, so no separate fence is necessary:
 *
 *	writer					drain thread
 *	------					------------
 *	space |= WAITED_FOR [WAIT-WORD] seq_cst	owner: FREE; pool_frees++	[POOL-FREE]
 *	try to write: pool_frees?  [POOL-FREE]	space: next round, wake	[WAIT-WORD] seq_cst
 *	futex_wait while `space` is the same
 *
 * The word counts rounds above its flags. Without the rounds, a writer could take the later
 * announcement of another writer for its own, and sleep through the wake-up in between.
 *
 * The end of a session, a failed sink, and an event that is no longer wanted use the same order,
 * with another change in place of the free buffer: first the change that the next attempt to write
 * sees, then the word.
 *
 * A signal handler that interrupts a wait must not wait itself. Otherwise the handlers of a timer
 * could keep the interrupted wait from ending. The thread may also have left that wait by
 * siglongjmp. In that case the frame with its mark is below the stack pointer or overwritten, or
 * the wait's time is over.
 *
 * A writer whose wait timed out while no space was freed sets STALLED in the word. Until the drain
 * thread frees space, no writer waits. A stalled output thus delays each thread once, not once per
 * event.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/session.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/drain_wake.h"
#include "core/wait.h"
#include "ring/slot.h"

#define WAITED_FOR 1u
#define STALLED 2u
#define ROUND 4u
#define LOCK_NS 100000u		/* before held fallback locks are tried again */

static __thread struct {
	uint64_t until_ns;	/* end of the current wait, or of one left by siglongjmp */
	uint64_t again_ns;	/* when that wait is certainly over: as long again after its end */
	const struct rp_wait *wait;
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

static uint64_t mark_of(const struct rp_wait *wait)
{
	return ((uint64_t)(uintptr_t)wait ^ thread.until_ns) * 0x9e3779b97f4a7c15ull;
}

/*
 * Whether the thread's last wait still continues, interrupted by a handler that led to this call.
 */
__attribute__((no_sanitize("address"))) static bool is_nested(uint64_t now)
{
	uint64_t at = (uint64_t)(uintptr_t)thread.wait, low, high;

	if (thread.until_ns == 0)
		return false;
	if (rp_thread_stack_bounds(&low, &high) && at >= low &&
	    at <= high - sizeof(struct rp_wait) &&
	    (at <= (uint64_t)(uintptr_t)__builtin_frame_address(0) ||
	     thread.wait->mark != mark_of(thread.wait)))
		return false;
	/* The wait may still have been left. If it continues, it ends before `again_ns`. */
	return now < thread.again_ns;
}

bool rp_wait_begin(struct rp_wait *wait, struct rp_slot *slot)
{
	uint64_t wait_ns = rp_load_relaxed(&slot->wait_ns);
	uint64_t now = rp_clock_monotonic_ns();

	if (wait_ns == 0 || thread.refuses || rp_thread_is_ours || is_nested(now) ||
	    on_alternate_stack())
		return false;
	wait->word = rp_or_seq_cst(&slot->space, WAITED_FOR) | WAITED_FOR;	/* [WAIT-WORD] */
	if (wait->word & STALLED)
		return false;
	wait->until_ns = now + wait_ns;
	wait->moved = false;
	wait->outer_until_ns = thread.until_ns;
	wait->outer = thread.until_ns != 0 ? thread.wait : NULL;
	thread.wait = wait;
	thread.until_ns = wait->until_ns;
	thread.again_ns = wait->until_ns + wait_ns;
	wait->mark = mark_of(wait);
	return true;
}

void rp_wait_end(struct rp_wait *wait)
{
	uint64_t wait_ns = thread.again_ns - wait->until_ns;

	wait->mark = 0;
	thread.wait = wait->outer;
	thread.until_ns = wait->outer_until_ns;
	/*
	 * After a handler waited, the interrupted wait must be able to end. If the signal is
	 * already pending again, that wait only proceeds while handlers do not wait.
	 */
	if (wait->outer)
		thread.again_ns = rp_clock_monotonic_ns() + wait_ns;
}

/* Not through libc, where a wait might be a cancellation point. */
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
		if (result == RP_WRITE_NO_SPACE && !wait->moved)
			rp_or_seq_cst(&slot->space, STALLED);
		return false;
	}
	if (result == RP_WRITE_NO_LOCK) {
		/* The drain thread releases locks whose holders no longer exist. */
		rp_drain_wake_if_asleep();
		if (until > now + LOCK_NS)
			until = now + LOCK_NS;
	}
	futex_wait(&slot->space, wait->word, until);
	word = rp_or_seq_cst(&slot->space, WAITED_FOR) | WAITED_FOR;	/* [WAIT-WORD] */
	wait->moved |= word / ROUND != wait->word / ROUND;
	wait->word = word;
	return !(word & STALLED);
}

void rp_wait_wake(struct rp_slot *slot)
{
	uint32_t word = rp_load_relaxed(&slot->space);

	while (!rp_cas_seq_cst(&slot->space, &word,
			       (word / ROUND + 1) * ROUND))	/* [WAIT-WORD] */
		;
	if (word & WAITED_FOR)
		syscall(SYS_futex, &slot->space, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
