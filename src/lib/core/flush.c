/* SPDX-License-Identifier: MIT */
/*
 * rp_sessions_flush(): wait until the drain thread has passed every earlier event to the kernel.
 *
 * After each pass in which no output blocked, the drain thread publishes the time at which that
 * pass began. All sessions of that time are in the pass, and every event with an earlier time is in
 * their outputs. A caller therefore reads the clock and waits for a pass that began later. The wait
 * takes no lock and allocates nothing, so a handler of SIGSEGV may call the function.
 *
 * ORDERING: a Dekker pair. Either the caller sees the pass, or the drain thread sees the caller.
 *
 *	caller				drain thread
 *	------				------------
 *	load the round			store the pass		[FLUSH-PASS]
 *	store waiting = 1 [FLUSH-WAIT]	exchange waiting, 0	[FLUSH-WAIT]
 *	load the pass	[FLUSH-PASS]	if it was 1: round++, wake
 *	sleep while the round is the same
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/drain_wake.h"
#include "core/flush.h"
#include "core/session_setup.h"
#include "ring/slot.h"

static uint64_t flushed_ticks;	/* beginning of the last pass that delivered everything */
static uint32_t waiting;
static uint32_t flush_round;	/* the futex: counts wake-ups of callers */

void rp_flush_publish(uint64_t begun_ticks)
{
	rp_store_seq_cst(&flushed_ticks, begun_ticks);	/* [FLUSH-PASS] */
	if (!rp_load_seq_cst(&waiting) || !rp_exchange_seq_cst(&waiting, 0))	/* [FLUSH-WAIT] */
		return;
	rp_add_seq_cst(&flush_round, 1);
	syscall(SYS_futex, &flush_round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* `ns` of UINT64_MAX means no time limit. */
static void wait_for_round(uint32_t round, uint64_t ns)
{
	struct timespec timeout = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	syscall(SYS_futex, &flush_round, FUTEX_WAIT_PRIVATE, round,
		ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
}

static int wait_for_pass(uint64_t ticks, uint64_t until_ns)
{
	for (;;) {
		uint32_t round = rp_load_seq_cst(&flush_round);
		uint64_t now;

		rp_store_seq_cst(&waiting, 1);	/* [FLUSH-WAIT] */
		if (rp_load_seq_cst(&flushed_ticks) > ticks)	/* [FLUSH-PASS] */
			return 0;
		now = rp_clock_monotonic_ns();
		if (now >= until_ns)
			return -ETIMEDOUT;
		rp_drain_wake();
		wait_for_round(round, until_ns == UINT64_MAX ? UINT64_MAX : until_ns - now);
	}
}

RP_PUBLIC int rp_sessions_flush(int timeout_ms)
{
	uint64_t until_ns = UINT64_MAX;
	int saved = errno, ret;

	/*
	 * No session was started yet. In a forked child, the kernel zeroed this page, even if no
	 * fork handler ran.
	 */
	if (!rp_slots || rp_load_relaxed(rp_slots_generation()) == 0)
		return 0;
	if (rp_drain_is_self())
		return -EDEADLK;
	if (timeout_ms >= 0)
		until_ns = rp_clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
	ret = wait_for_pass(rp_clock_ticks_ordered(), until_ns);
	errno = saved;
	return ret;
}
