/* SPDX-License-Identifier: MIT */
/*
 * Sleep and wake-up of the drain thread. While it sleeps, it advances the coarse clock.
 *
 * ORDERING of the wake-up: a Dekker pair. Either the writer sees `asleep`, or the drain thread sees
 * the writer's head. The writer executes a plain store and a plain load. The membarrier of the
 * drain thread replaces the fence between them. (The fallback has a real fence: the exchange that
 * releases its lock.)
 *
 *	writer				drain thread
 *	------				------------
 *	store head	[RING-PUB]	store asleep = 1	[DRAIN-ASLEEP]
 *	(the membarrier acts here)	rp_fence_heavy()
 *	load asleep	[DRAIN-ASLEEP]	load heads		[RING-PUB]
 *
 * A thread that clears `asleep` must issue the futex wake.
 */
#include "core/drain_wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/core.h"
#include "ring/ring.h"
#include "ring/slot.h"

/* Static, because a writer may read it at any time, even after its session has ended. */
static uint32_t asleep;

/*
 * A session of the pass has coarse times, so the clock must advance. Threads of snapshots read it
 * too.
 */
static uint32_t coarse;

/* The drain thread; 0: this process has none. */
static pthread_t drain_self;

static void futex_wake(void)
{
	syscall(SYS_futex, &asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void rp_drain_wake_if_asleep(void)
{
	uint32_t yes = 1;
	int saved = errno;

	if (rp_load_relaxed(&asleep) == 1 && rp_cas_seq_cst(&asleep, &yes, 0))	/* [DRAIN-ASLEEP] */
		futex_wake();
	errno = saved;
}

void rp_drain_wake(void)
{
	rp_store_seq_cst(&rp_core.work, 1);
	rp_drain_wake_if_asleep();
}

bool rp_drain_is_self(void)
{
	return rp_load_relaxed(&drain_self) == pthread_self();
}

void rp_drain_move_coarse(void)
{
	if (rp_load_relaxed(&coarse))
		rp_clock_coarse_move(rp_clock_ticks_ordered());
}

/* Return: false if woken before the timeout. An argument of 0 means no timeout. */
static bool futex_wait(uint64_t ns)
{
	struct timespec timeout = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	return syscall(SYS_futex, &asleep, FUTEX_WAIT_PRIVATE, 1, ns ? &timeout : NULL, NULL,
		       0) != 0 && errno == ETIMEDOUT;
}

/* `ns` is 0: without a timeout. A coarse clock still advances. */
void rp_drain_sleep(uint64_t ns, bool (*rings_fill)(const void *data), const void *data)
{
	uint64_t step = rp_load_relaxed(&coarse) ? RP_COARSE_NS : ns;

	rp_store_seq_cst(&asleep, 1);	/* [DRAIN-ASLEEP] */
	rp_fence_heavy();
	if (!rp_exchange_seq_cst(&rp_core.work, 0) && !rings_fill(data)) {
		for (uint64_t slept = step; futex_wait(step) && slept < ns; slept += step)
			rp_drain_move_coarse();
	}
	rp_store_seq_cst(&asleep, 0);
	rp_store_relaxed(&rp_core.work, 0);
}

void rp_drain_set_self(void)
{
	rp_store_relaxed(&drain_self, pthread_self());
}

void rp_drain_set_coarse(bool any)
{
	rp_store_relaxed(&coarse, any);
}

void rp_drain_wake_forget(void)
{
	rp_core.work = 0;
	asleep = 0;
	drain_self = 0;
}
