/* SPDX-License-Identifier: MIT */
/*
 * The counters' thread: made when a session first asks for counters, asleep without a timeout while
 * none does.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/core.h"
#include "counter/counters.h"
#include "counter/meter_events.h"
#include "counter/meters.h"
#include "counter/requests.h"

/* Whether the thread has to look at the sessions; the futex it sleeps on. */
static uint32_t work;

static bool started;		/* with the engine's lock */
static locale_t plain;		/* numbers as C writes them, whatever the host's locale */

/* What an event is in struct rp_outbox. */
struct entry {
	struct rp_event *event;
	size_t payload_bytes;
};

static void *reserve(struct rp_outbox *out, size_t size)
{
	void *at;

	if (out->size + size > out->room) {
		size_t room = 2 * (out->size + size) + 4096;
		uint8_t *grown = realloc(out->bytes, room);

		if (!grown)
			return NULL;
		out->bytes = grown;
		out->room = room;
	}
	at = out->bytes + out->size;
	out->size += size;
	return at;
}

void rp_outbox_begin(struct rp_outbox *out, struct rp_event *event)
{
	struct entry entry = { .event = event };
	void *at;

	out->start = (out->size + 7) & ~(size_t)7;
	if (!event) {
		out->start = SIZE_MAX;
		return;
	}
	at = reserve(out, out->start + sizeof(entry) - out->size);
	if (!at) {
		out->start = SIZE_MAX;	/* the event is left out */
		return;
	}
	memcpy(out->bytes + out->start, &entry, sizeof(entry));
}

void rp_outbox_put(struct rp_outbox *out, const void *bytes, size_t size)
{
	void *at;

	if (out->start == SIZE_MAX)
		return;
	at = reserve(out, size);
	if (!at) {
		out->size = out->start;
		out->start = SIZE_MAX;
		return;
	}
	memcpy(at, bytes, size);
	((struct entry *)(out->bytes + out->start))->payload_bytes += size;
}

void rp_outbox_text(struct rp_outbox *out, const char *text)
{
	rp_outbox_put(out, text, strlen(text) + 1);
}

void rp_outbox_double(struct rp_outbox *out, double value)
{
	rp_outbox_put(out, &value, sizeof(value));
}

void rp_outbox_u32(struct rp_outbox *out, uint32_t value)
{
	rp_outbox_put(out, &value, sizeof(value));
}

/* Without the lock: a session in block mode may make the writer wait. */
static void write_out(struct rp_outbox *out)
{
	for (size_t at = 0; at + sizeof(struct entry) <= out->size;) {
		const struct entry *entry = (const struct entry *)(out->bytes + at);
		struct rp_part part = { entry + 1, entry->payload_bytes };

		(void)rp_event_write(entry->event, &part, 1);
		at += (sizeof(*entry) + entry->payload_bytes + 7) & ~(size_t)7;
	}
	free(out->bytes);
}

double rp_request_number(const char *filter_data, const char *key, double otherwise)
{
	double number;
	char *text, *end;

	if (rp_filter_data_get(filter_data, key, &text) != 0)
		return otherwise;
	number = strtod_l(text, &end, plain);
	if (end == text || *end || number - number != 0)
		number = otherwise;
	free(text);
	return number;
}

void rp_group_observe(struct rp_group *group, uint64_t poll)
{
	struct rp_instrument *instrument;

	/* The list may change whenever the lock was given up. */
again:
	cds_list_for_each_entry(instrument, &group->instruments, node) {
		if (!rp_kind_is_observed(instrument->kind) || instrument->poll == poll ||
		    instrument->going)
			continue;
		rp_instrument_observe(instrument, poll);
		goto again;
	}
}

/* The ends of instruments, which other threads bring about; with the counters' lock. */
static struct rp_outbox ends = { .start = SIZE_MAX };

void rp_requests_end_instrument(struct rp_instrument *instrument)
{
	rp_meters_end(instrument, &ends);
	if (ends.size)
		rp_requests_look();
}

static void refresh(void)
{
	struct rp_outbox out;
	struct rp_request *requests;
	size_t count;

	if (rp_requests_get(&requests, &count) != 0)
		return;
	pthread_mutex_lock(&rp_counters.lock);
	out = ends;
	ends = (struct rp_outbox){ .start = SIZE_MAX };
	rp_event_counters_refresh(requests, count, rp_clock_monotonic_ns());
	rp_meters_refresh(requests, count, rp_clock_monotonic_ns(), &out);
	pthread_mutex_unlock(&rp_counters.lock);
	free(requests);
	write_out(&out);
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
	write_out(&out);
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

	syscall(SYS_futex, &work, FUTEX_WAIT_PRIVATE, 0, then_ns ? &timeout : NULL, NULL, 0);
}

static void *run(void *data)
{
	(void)data;
	uselocale(plain);
	for (;;) {
		uint64_t now, next;

		if (rp_exchange_seq_cst(&work, 0))
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

void rp_requests_look(void)
{
	rp_store_seq_cst(&work, 1);
	syscall(SYS_futex, &work, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool asks_for_counters(void)
{
	struct rp_session *session;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		for (size_t i = 0; i < session->config_count; i++) {
			const char *text = session->configs[i].filter_data;

			if (session->state == RP_SESSION_RUNNING && text &&
			    (strstr(text, "EventCounterIntervalSec") ||
			     strcmp(session->configs[i].name, RP_METERS_PROVIDER) == 0))
				return true;
		}
	}
	return false;
}

/* With the engine's lock held, as rp_core_watch() says. A thread that cannot be made is tried for
 * again when the next session begins. */
static void on_change(void)
{
	pthread_t thread;

	if (!started && asks_for_counters() &&
	    rp_thread_create(&thread, "ringpipe-count", run, NULL) == 0) {
		pthread_detach(thread);
		started = true;
	}
	if (started)
		rp_requests_look();
}

void rp_counters_init(void)
{
	plain = newlocale(LC_ALL_MASK, "C", NULL);
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
	started = false;
	work = 0;
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
