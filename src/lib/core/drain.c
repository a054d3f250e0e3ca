/* SPDX-License-Identifier: MIT */
/*
 * The drain thread: one per process. The first session starts it. It sleeps while it has nothing to
 * do.
 */
#include <errno.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/cut_stacks.h"
#include "core/def_table.h"
#include "core/drain.h"
#include "core/drain_wake.h"
#include "core/enable.h"
#include "core/flush.h"
#include "core/listing.h"
#include "core/missing.h"
#include "core/notices.h"
#include "core/rings.h"
#include "core/session_pass.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "ring/slot.h"

#define TICK_NS 50000000u	/* longest time before an event is passed on */
#define SPACING_NS 1000000u	/* between membarriers, unless half of a buffer is unread */
#define BLOCKED_NS 2000000u	/* before a full sink gets events again */
#define RULES_NS 2000000u	/* before writers get more unwind rules, while they request some */
#define RULE_PASSES_MAX 25u	/* with that delay: the cache may be too small for a program */

static struct rp_thread_once drain_thread = RP_THREAD_ONCE_INIT;

struct pass {
	struct rp_session *sessions[RP_SLOTS];
	bool finishing[RP_SLOTS];
	enum rp_pass result[RP_SLOTS];
	unsigned int count;
	uint64_t number;
	bool with_stacks;		/* a session has stacks, also in its last pass */
	unsigned int rule_passes;	/* successive ones with requests for unwind rules */
};

static void begin_pass(struct pass *pass)
{
	struct rp_session *session;
	uint32_t with_coarse_times = 0;

	pass->count = 0;
	pass->with_stacks = false;
	pthread_mutex_lock(&rp_core.lock);
	pass->number = rp_core.pass + 1;
	rp_store_relaxed(&rp_core.pass, pass->number);
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == RP_SESSION_ENDED)
			continue;
		pass->sessions[pass->count] = session;
		with_coarse_times |= session->flags & RP_SESSION_COARSE;
		pass->with_stacks |= (session->flags & RP_SESSION_STACKS) != 0;
		if (session->finish.discard)
			session->failed = true;
		rp_missing_settle(session);
		pass->finishing[pass->count++] = session->state == RP_SESSION_FINISHING;
	}
	pthread_mutex_unlock(&rp_core.lock);
	for (unsigned int i = 0; i < pass->count; i++)
		rp_missing_report(pass->sessions[i]);
	rp_drain_set_coarse(with_coarse_times != 0);
}

/* Disable the events of sessions whose output failed. */
static void detach_failed(const struct pass *pass)
{
	bool any = false, async = true;

	pthread_mutex_lock(&rp_core.lock);
	for (unsigned int i = 0; i < pass->count; i++) {
		struct rp_session *session = pass->sessions[i];

		if (!session->failed || session->state != RP_SESSION_RUNNING)
			continue;
		rp_session_detach(session);
		rp_notices_add(session, false);
		any = true;
		async = async && session->callbacks_async;
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (!any)
		return;
	rp_core_changed();
	rp_notices_run(async);
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
	rp_session_clear_memory_stats(session);
	rp_core.slots_used &= ~session->slots;
	rp_core.session_count--;
	pthread_cond_broadcast(&rp_core.changed);
	pthread_mutex_unlock(&rp_core.lock);
}

/*
 * End the pass. Definitions that retired before the oldest pass that every session has completed
 * are freed.
 */
static void end_pass(const struct pass *pass)
{
	struct rp_session *session;
	uint64_t passed = UINT64_MAX;

	for (unsigned int i = 0; i < pass->count; i++) {
		session = pass->sessions[i];
		/* Overwriting rings may contain any definition as long as they exist. */
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

/* Whether no output blocked. Listeners that do not read are not counted as outputs. */
static bool is_flushed(const struct pass *pass)
{
	for (unsigned int i = 0; i < pass->count; i++) {
		if (pass->result[i] == RP_PASS_BLOCKED && !pass->sessions[i]->no_deadline)
			return false;
	}
	return true;
}

static enum rp_pass run_pass(struct pass *pass, struct rp_clock_map *map)
{
	enum rp_pass worst = RP_PASS_QUIET;
	uint64_t begun = rp_clock_ticks_ordered(), now;
	bool flushed;

	begin_pass(pass);
	if (pass->count == 0) {
		rp_clock_map_rest(map);
		end_pass(pass);
		rp_flush_publish(begun);
		return RP_PASS_DONE;
	}
	rp_clock_map_update(map);
	pass->rule_passes = pass->with_stacks && rp_stacks_cache_fill() ? pass->rule_passes + 1 : 0;
	/*
	 * The sequence point: every event with a time up to `now` is in its ring after the fence.
	 */
	now = rp_clock_ticks_ordered();
	rp_clock_coarse_pass(now);
	rp_fence_heavy();
	for (unsigned int i = 0; i < pass->count; i++) {
		pass->result[i] = rp_session_pass(pass->sessions[i], pass->finishing[i], now, map);
		if (pass->result[i] != RP_PASS_DONE && pass->result[i] > worst)
			worst = pass->result[i];
	}
	detach_failed(pass);
	flushed = is_flushed(pass);
	end_pass(pass);		/* frees sessions that have ended */
	if (flushed)
		rp_flush_publish(begun);
	return worst;
}

static bool rings_above_watermark(const void *data)
{
	const struct pass *pass = data;

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

static void *drain_run(void *data)
{
	static struct pass the_pass;
	struct rp_clock_map *map = data;
	struct pass *pass = &the_pass;
	uint64_t begun = 0;

	rp_drain_set_self();
	rp_clock_map_init(map);
	for (;;) {
		uint64_t now = rp_clock_monotonic_ns(), reap_ns;
		enum rp_pass result;

		if (now < begun + SPACING_NS)
			pause_until(begun + SPACING_NS);
		begun = rp_clock_monotonic_ns();
		result = run_pass(pass, map);
		reap_ns = rp_memory_reap(begun);
		if (result == RP_PASS_URGENT)
			begun = 0;
		else if (result == RP_PASS_DONE)
			rp_drain_sleep(reap_ns, rings_above_watermark, pass);
		else if (result == RP_PASS_BLOCKED)
			rp_drain_sleep(BLOCKED_NS, rings_above_watermark, pass);
		else if (result == RP_PASS_QUIET)
			rp_drain_sleep(pass->rule_passes - 1 < RULE_PASSES_MAX ? RULES_NS : TICK_NS,
				       rings_above_watermark, pass);
	}
	return NULL;
}

int rp_drain_start(void)
{
	static struct rp_clock_map map;

	return rp_thread_create_once(&drain_thread, "ringpipe-drain", drain_run, &map);
}

void rp_drain_forget(void)
{
	(void)rp_thread_once_forget(&drain_thread);
	rp_drain_wake_forget();
}
