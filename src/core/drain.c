/* SPDX-License-Identifier: MIT */
/*
 * The drain thread: one per process, made with the first session, asleep while there is nothing to
 * do.
 *
 * ORDERING of the wake-up: a Dekker pair. Either the writer sees `asleep`, or the drain thread sees
 * the writer's head. The writer's half is a plain store and a plain load; the drain thread's
 * membarrier stands in for the fence between them. (The fallback has a real one: the exchange that
 * gives its lock back.)
 *
 *	writer				drain thread
 *	------				------------
 *	store head	[RING-PUB]	store asleep = 1	[DRAIN-ASLEEP]
 *	(membarrier stands here)	rp_fence_heavy()
 *	load asleep	[DRAIN-ASLEEP]	load heads		[RING-PUB]
 *
 * Who turns asleep from 1 to 0 wakes.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "core/core.h"
#include "core/session.h"
#include "unwind/unwind.h"

#define TICK_NS 50000000u	/* events are on their way after this at the latest */
#define SPACING_NS 1000000u	/* between two membarriers, unless a ring is above half */
#define BLOCKED_NS 2000000u	/* before a full sink is tried again */

/* Outlives all sessions; a writer may look at it at any time. */
static uint32_t asleep;

/* A session of the pass has coarse times: the clock is to be moved. Also for snapshots' threads. */
static uint32_t coarse;

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
	bool is_self;

	pthread_mutex_lock(&rp_core.lock);
	is_self = rp_core.drain_started && pthread_equal(rp_core.drain_thread, pthread_self());
	pthread_mutex_unlock(&rp_core.lock);
	return is_self;
}

struct pass {
	struct rp_session *sessions[RP_SLOTS];
	bool finishing[RP_SLOTS];
	enum rp_pass result[RP_SLOTS];
	unsigned int count;
	uint64_t number;
};

static void begin_pass(struct pass *pass)
{
	struct rp_session *session;
	uint32_t with_coarse_times = 0;

	pass->count = 0;
	pthread_mutex_lock(&rp_core.lock);
	pass->number = rp_core.pass + 1;
	rp_store_relaxed(&rp_core.pass, pass->number);
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == RP_SESSION_ENDED)
			continue;
		pass->sessions[pass->count] = session;
		with_coarse_times |= session->flags & RP_SESSION_COARSE;
		if (session->discard)
			session->failed = true;
		pass->finishing[pass->count++] = session->state == RP_SESSION_FINISHING;
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_store_relaxed(&coarse, with_coarse_times);
}

/* A session that failed by itself is taken off here, by nobody's request. */
static void take_off_failed(const struct pass *pass)
{
	bool any = false, aside = true;

	pthread_mutex_lock(&rp_core.lock);
	for (unsigned int i = 0; i < pass->count; i++) {
		struct rp_session *session = pass->sessions[i];

		if (!session->failed || session->state != RP_SESSION_RUNNING)
			continue;
		rp_session_take_off(session);
		rp_notices_add(session, false);
		any = true;
		aside = aside && session->callbacks_aside;
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (any)
		rp_notices_run(aside);
}

static void end_session(struct rp_session *session)
{
	struct rp_sink *sink = session->sink;

	if (session->on_end)
		session->on_end(session, session->data);
	session->sink = NULL;
	sink->ops->destroy(sink);
	pthread_mutex_lock(&rp_core.lock);
	session->state = RP_SESSION_ENDED;
	session->stats.memory_bytes = 0;
	rp_core.slots_used &= ~session->slots;
	rp_core.session_count--;
	pthread_cond_broadcast(&rp_core.changed);
	pthread_mutex_unlock(&rp_core.lock);
}

/* The oldest pass that every session has got through: what was retired before can go. */
static void end_pass(const struct pass *pass)
{
	struct rp_session *session;
	uint64_t passed = UINT64_MAX;

	for (unsigned int i = 0; i < pass->count; i++) {
		session = pass->sessions[i];
		/* Rings that overwrite may hold any definition as long as they are there. */
		if (pass->result[i] < RP_PASS_BLOCKED && !(session->flags & RP_SESSION_OVERWRITE))
			session->passed = pass->number;
	}
	pthread_mutex_lock(&rp_core.lock);
	for (unsigned int i = 0; i < pass->count; i++)
		rp_session_fill_stats(pass->sessions[i]);
	rp_core.pass_ns = rp_clock_monotonic_ns();
	pthread_mutex_unlock(&rp_core.lock);
	for (unsigned int i = 0; i < pass->count; i++) {
		if (pass->result[i] == RP_PASS_DONE)
			end_session(pass->sessions[i]);
	}
	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state != RP_SESSION_ENDED && session->passed < passed)
			passed = session->passed;
	}
	rp_defs_reap(passed);
	pthread_mutex_unlock(&rp_core.lock);
}

static enum rp_pass run_pass(struct pass *pass, struct rp_clock_map *map)
{
	enum rp_pass worst = RP_PASS_QUIET;
	uint64_t now;

	begin_pass(pass);
	if (pass->count == 0) {
		rp_clock_map_rest(map);
		end_pass(pass);
		return RP_PASS_DONE;
	}
	rp_clock_map_update(map);
	if (rp_load_relaxed(&rp_core.stack_slots))
		rp_unwind_learn();
	/* The sequence point: every event stamped up to `now` is in its ring after the fence. */
	now = rp_clock_ticks_ordered();
	rp_clock_coarse_pass(now);
	rp_fence_heavy();
	for (unsigned int i = 0; i < pass->count; i++) {
		pass->result[i] = rp_session_pass(pass->sessions[i], pass->finishing[i], now, map);
		if (pass->result[i] != RP_PASS_DONE && pass->result[i] > worst)
			worst = pass->result[i];
	}
	take_off_failed(pass);
	end_pass(pass);
	return worst;
}

static bool rings_above_watermark(const struct pass *pass)
{
	for (unsigned int i = 0; i < pass->count; i++) {
		if (pass->result[i] < RP_PASS_BLOCKED && rp_session_above(pass->sessions[i], 4))
			return true;
	}
	return false;
}

static void pause_until(uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

void rp_drain_move_coarse(void)
{
	if (rp_load_relaxed(&coarse))
		rp_clock_coarse_move(rp_clock_ticks_ordered());
}

/* False: somebody woke us. 0: for ever. */
static bool futex_wait(uint64_t ns)
{
	struct timespec timeout = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	return syscall(SYS_futex, &asleep, FUTEX_WAIT_PRIVATE, 1, ns ? &timeout : NULL, NULL,
		       0) != 0 && errno == ETIMEDOUT;
}

/* 0: for ever. A coarse clock goes on meanwhile. */
static void sleep_for(const struct pass *pass, uint64_t ns)
{
	uint64_t step = rp_load_relaxed(&coarse) ? RP_COARSE_NS : ns;

	rp_store_seq_cst(&asleep, 1);	/* [DRAIN-ASLEEP] */
	rp_fence_heavy();
	if (!rp_exchange_seq_cst(&rp_core.work, 0) && !rings_above_watermark(pass)) {
		for (uint64_t slept = step; futex_wait(step) && slept < ns; slept += step)
			rp_drain_move_coarse();
	}
	rp_store_seq_cst(&asleep, 0);
	rp_store_relaxed(&rp_core.work, 0);
}

static void *drain_run(void *data)
{
	static struct pass the_pass;
	struct rp_clock_map *map = data;
	struct pass *pass = &the_pass;
	uint64_t begun = 0;

	rp_clock_map_init(map);
	for (;;) {
		uint64_t now = rp_clock_monotonic_ns();
		enum rp_pass result;

		if (now < begun + SPACING_NS)
			pause_until(begun + SPACING_NS);
		begun = rp_clock_monotonic_ns();
		result = run_pass(pass, map);
		if (result == RP_PASS_URGENT)
			begun = 0;
		else if (result == RP_PASS_DONE)
			sleep_for(pass, 0);
		else if (result == RP_PASS_BLOCKED)
			sleep_for(pass, BLOCKED_NS);
		else if (result == RP_PASS_QUIET)
			sleep_for(pass, TICK_NS);
	}
	return NULL;
}

int rp_drain_start(void)
{
	static struct rp_clock_map map;
	int ret;

	if (rp_core.drain_started)
		return 0;
	ret = rp_thread_create(&rp_core.drain_thread, "ringpipe-drain", drain_run, &map);
	if (ret == 0)
		rp_core.drain_started = true;
	return ret;
}

void rp_drain_forget(void)
{
	rp_core.drain_started = false;
	rp_core.work = 0;
	asleep = 0;
}
