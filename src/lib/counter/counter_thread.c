/* SPDX-License-Identifier: MIT */
/*
 * The counters' thread. It starts when a session first requests counters, and sleeps without a
 * timeout while no session does.
 */
#include <linux/futex.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/enable.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "counter/counters.h"
#include "counter/event_counters.h"
#include "counter/meter_events.h"
#include "counter/meters.h"
#include "counter/outbox.h"
#include "counter/state.h"

static struct rp_thread_once counters_thread = RP_THREAD_ONCE_INIT;
static locale_t plain;		/* the C locale for numbers, whatever the program's locale is */

/* End events of instruments that other threads destroy; guarded by the counters' lock. */
static struct rp_outbox ends = { .start = SIZE_MAX };

static void report_end(struct rp_instrument *instrument)
{
	rp_meters_end(instrument, &ends);
	if (ends.size)
		rp_counters_look();
}

static void refresh(void)
{
	struct rp_outbox out;
	struct rp_request *requests;
	size_t count;

	if (rp_requests_get(&requests, &count) != 0)
		return;
	rp_event_counters_prepare(requests, count);
	rp_meters_prepare(requests, count);
	pthread_mutex_lock(&rp_counters.lock);
	out = ends;
	ends = (struct rp_outbox){ .start = SIZE_MAX };
	rp_event_counters_refresh(requests, count, rp_clock_monotonic_ns());
	rp_meters_refresh(requests, count, rp_clock_monotonic_ns(), &out);
	pthread_mutex_unlock(&rp_counters.lock);
	free(requests);
	rp_outbox_write(&out);
}

static void publish(uint64_t now_ns)
{
	struct rp_outbox out = { .start = SIZE_MAX };
	uint64_t poll;

	pthread_mutex_lock(&rp_counters.lock);
	poll = ++rp_counters.poll;
	rp_event_counters_publish(now_ns, poll, &out);
	rp_meters_publish(now_ns, poll, &out);
	pthread_mutex_unlock(&rp_counters.lock);
	rp_outbox_write(&out);
}

static uint64_t next_ns(void)
{
	uint64_t next, meters;

	pthread_mutex_lock(&rp_counters.lock);
	next = rp_event_counters_next();
	meters = rp_meters_next();
	pthread_mutex_unlock(&rp_counters.lock);
	return !next || (meters && meters < next) ? meters : next;
}

static void sleep_until(uint64_t then_ns, uint64_t now_ns)
{
	uint64_t left = then_ns - now_ns;
	struct timespec timeout = {
		.tv_sec = (time_t)(left / 1000000000u),
		.tv_nsec = (long)(left % 1000000000u),
	};

	syscall(SYS_futex, &rp_counters.work, FUTEX_WAIT_PRIVATE, 0, then_ns ? &timeout : NULL,
		NULL, 0);
}

static void *run(void *data)
{
	(void)data;
	uselocale(plain);
	for (;;) {
		uint64_t now, next;

		if (rp_exchange_seq_cst(&rp_counters.work, 0))
			refresh();
		next = next_ns();
		now = rp_clock_monotonic_ns();
		if (next && next <= now)
			publish(now);
		else
			sleep_until(next, now);
	}
	return NULL;
}

static bool asks_for_counters(void)
{
	struct rp_session *session;
	bool asks = false;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		for (size_t i = 0; i < session->config_count; i++) {
			const char *text = session->configs[i].filter_data;

			asks |= session->state == RP_SESSION_RUNNING && text &&
				(strstr(text, "EventCounterIntervalSec") ||
				 strcmp(session->configs[i].name, RP_METERS_PROVIDER) == 0);
		}
	}
	pthread_mutex_unlock(&rp_core.lock);
	return asks;
}

int rp_counters_prepare(void)
{
	return rp_thread_create_once(&counters_thread, "ringpipe-count", run, NULL);
}

/* If the thread cannot be created now, the start of the next session tries again. */
static void on_change(void)
{
	if (asks_for_counters())
		(void)rp_counters_prepare();
	rp_counters_look();
}

void rp_counters_init(void)
{
	plain = newlocale(LC_ALL_MASK, "C", NULL);
	rp_counters.ending = report_end;
	rp_builtin_create();
	rp_core_watch(on_change);
}

void rp_counters_fork_prepare(void)
{
	pthread_mutex_lock(&rp_counters.lock);
}

void rp_counters_fork_parent(void)
{
	pthread_mutex_unlock(&rp_counters.lock);
}

void rp_counters_fork_child(void)
{
	struct rp_instrument *instrument;
	struct rp_group *group;

	pthread_mutex_unlock(&rp_counters.lock);
	pthread_cond_init(&rp_counters.changed, NULL);
	(void)rp_thread_once_forget(&counters_thread);
	rp_counters.work = 0;
	rp_event_counters_forget();
	rp_meters_forget();
	free(ends.bytes);
	ends = (struct rp_outbox){ .start = SIZE_MAX };
	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(instrument, &group->instruments, node) {
			if (!instrument->observing ||
			    !pthread_equal(instrument->observer, pthread_self()))
				instrument->observing = false;
			instrument->users = 0;
		}
	}
}
