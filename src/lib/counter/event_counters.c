/* SPDX-License-Identifier: MIT */
/*
 * EventCounters events as EventSource writes them: an unnamed struct that contains one struct,
 * Payload, which has one of two shapes.
 *
 * .NET has one timer per provider, with the shortest requested interval, and reports that interval
 * in the field Series; a client that requested another interval ignores the events. Here, each
 * requested interval is a separate series.
 */
#include "counter/event_counters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/session_setup.h"
#include "counter/outbox.h"
#include "counter/requests.h"
#include "counter/state.h"

#define DAY_S 86400u
#define INTERVAL_MIN_MS 10u
#define INTERVAL_MAX_MS 86400000u

/* A provider's own events rarely have ids this high. */
#define FIRST_EVENT_ID 65533u

enum event_shape {
	MEAN,
	SUM,
};

struct rp_timer {
	struct cds_list_head node;	/* in group->timers */
	struct rp_view view;
	uint32_t interval_ms;
	bool is_wanted;
	uint64_t last_ns, next_ns;
};

#define TEXT(field_name) { .name = field_name, .type = RP_TYPE_STRING }
#define F64(field_name) { .name = field_name, .type = RP_TYPE_F64 }
#define F32(field_name) { .name = field_name, .type = RP_TYPE_F32 }
#define I32(field_name) { .name = field_name, .type = RP_TYPE_I32 }
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct rp_field mean_members[] = {
	TEXT("Name"), TEXT("DisplayName"), F64("Mean"), F64("StandardDeviation"), I32("Count"),
	F64("Min"), F64("Max"), F32("IntervalSec"), TEXT("Series"), TEXT("CounterType"),
	TEXT("Metadata"), TEXT("DisplayUnits"),
};

static const struct rp_field sum_members[] = {
	TEXT("Name"), TEXT("DisplayName"), TEXT("DisplayRateTimeScale"), F64("Increment"),
	F32("IntervalSec"), TEXT("Metadata"), TEXT("Series"), TEXT("CounterType"),
	TEXT("DisplayUnits"),
};

static const struct rp_field payloads[] = {
	[MEAN] = { .name = "Payload", .type = RP_TYPE_STRUCT, .members = mean_members,
		   .member_count = COUNT(mean_members) },
	[SUM] = { .name = "Payload", .type = RP_TYPE_STRUCT, .members = sum_members,
		  .member_count = COUNT(sum_members) },
};

static const struct rp_field fields[] = {
	[MEAN] = { .name = "", .type = RP_TYPE_STRUCT, .members = &payloads[MEAN],
		   .member_count = 1 },
	[SUM] = { .name = "", .type = RP_TYPE_STRUCT, .members = &payloads[SUM],
		  .member_count = 1 },
};

_Static_assert(COUNT(fields) == RP_EVENT_COUNTER_SHAPES, "an event for each shape");

/* Create the events, on a separate provider of the same name. Context: without a lock. */
static void create_events(struct rp_group *group)
{
	int ret = 0;

	if (!group->provider)
		ret = rp_provider_create(group->name, NULL, NULL, &group->provider);
	for (uint32_t shape = 0; ret == 0 && shape < COUNT(fields); shape++) {
		struct rp_event_decl decl = {
			.size = sizeof(decl),
			.id = FIRST_EVENT_ID + shape,
			.name = "EventCounters",
			.fields = &fields[shape],
			.field_count = 1,
			.flags = RP_EVENT_NO_STACK,
		};

		if (!group->events[shape])
			ret = rp_event_create(group->provider, &decl, &group->events[shape]);
	}
}

static bool has_events(const struct rp_group *group)
{
	for (uint32_t shape = 0; shape < COUNT(fields); shape++) {
		if (!group->events[shape])
			return false;
	}
	return true;
}

static struct rp_timer *find_timer(const struct rp_group *group, uint32_t interval_ms)
{
	struct rp_timer *timer;

	cds_list_for_each_entry(timer, &group->timers, node) {
		if (timer->interval_ms == interval_ms)
			return timer;
	}
	return NULL;
}

/* Create a timer and start its first interval. */
static void start_timer(struct rp_group *group, uint32_t interval_ms, uint64_t now_ns)
{
	struct rp_instrument *instrument;
	struct rp_series *series;
	struct rp_timer *timer;

	if (!has_events(group))
		return;
	timer = calloc(1, sizeof(*timer));
	if (!timer)
		return;
	timer->interval_ms = interval_ms;
	timer->is_wanted = true;
	timer->last_ns = now_ns;
	timer->next_ns = now_ns + interval_ms * 1000000ull;
	rp_view_init(&timer->view);
	cds_list_add_tail(&timer->node, &group->timers);
	rp_group_observe(group, ++rp_counters.poll);
	cds_list_for_each_entry(instrument, &group->instruments, node) {
		cds_list_for_each_entry(series, &instrument->series, node)
			(void)rp_view_mark(&timer->view, series, false, NULL);
	}
}

static void drop_timer(struct rp_timer *timer)
{
	rp_view_fini(&timer->view);
	cds_list_del(&timer->node);
	free(timer);
}

/* The interval that the session of requests[*at] requested: by provider name, or else by "*". */
static uint32_t session_interval(const struct rp_request *requests, size_t count, size_t *at,
				 const char *provider)
{
	uint64_t session_id = requests[*at].session_id;
	const char *by_name = NULL, *by_star = NULL;
	double seconds;

	for (; *at < count && requests[*at].session_id == session_id; ++*at) {
		const struct rp_request *request = &requests[*at];

		if (!by_name && strcmp(request->provider, provider) == 0)
			by_name = request->filter_data;
		else if (!by_star && strcmp(request->provider, "*") == 0)
			by_star = request->filter_data;
	}
	seconds = rp_request_number(by_name ? by_name : by_star, "EventCounterIntervalSec", 0);
	if (!(seconds > 0))
		return 0;
	if (seconds * 1000 < INTERVAL_MIN_MS)
		return INTERVAL_MIN_MS;
	if (seconds * 1000 > INTERVAL_MAX_MS)
		return INTERVAL_MAX_MS;
	return (uint32_t)(seconds * 1000 + 0.5);
}

static bool is_asked_for(const struct rp_group *group, const struct rp_request *requests,
			 size_t count)
{
	bool asked = false;

	for (size_t at = 0; at < count;)
		asked |= session_interval(requests, count, &at, group->name) != 0;
	return asked;
}

/* Groups are never removed, so the loop may unlock. A new group wakes the thread again. */
void rp_event_counters_prepare(const struct rp_request *requests, size_t count)
{
	struct rp_group *group;

	pthread_mutex_lock(&rp_counters.lock);
	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		if (!is_asked_for(group, requests, count))
			continue;
		pthread_mutex_unlock(&rp_counters.lock);
		create_events(group);
		pthread_mutex_lock(&rp_counters.lock);
	}
	pthread_mutex_unlock(&rp_counters.lock);
}

void rp_event_counters_refresh(const struct rp_request *requests, size_t count, uint64_t now_ns)
{
	struct rp_timer *timer, *next;
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(timer, &group->timers, node)
			timer->is_wanted = false;
		for (size_t at = 0; at < count;) {
			uint32_t interval_ms = session_interval(requests, count, &at, group->name);

			timer = find_timer(group, interval_ms);
			if (timer)
				timer->is_wanted = true;
			else if (interval_ms)
				start_timer(group, interval_ms, now_ns);
		}
		cds_list_for_each_entry_safe(timer, next, &group->timers, node) {
			if (!timer->is_wanted)
				drop_timer(timer);
		}
	}
}

uint64_t rp_event_counters_next(void)
{
	struct rp_timer *timer;
	struct rp_group *group;
	uint64_t first = 0;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(timer, &group->timers, node) {
			if (first == 0 || timer->next_ns < first)
				first = timer->next_ns;
		}
	}
	return first;
}

struct counter_payload {
	const struct rp_instrument *instrument;
	const struct rp_delta *delta;
	const char *series;
	float interval_s;
};

static void put_f32(struct rp_outbox *out, float value)
{
	rp_outbox_put(out, &value, sizeof(value));
}

/* If no value was recorded, the minimum is infinity and the maximum is minus infinity. */
static void put_mean(struct rp_outbox *out, const struct counter_payload *payload)
{
	const struct rp_delta *delta = payload->delta;
	double mean = delta->value, min = mean, max = mean;
	uint32_t count = 1;

	if (payload->instrument->kind == RP_COUNTER_HISTOGRAM) {
		count = (uint32_t)delta->count;
		mean = rp_delta_mean(delta);
		min = delta->count ? rp_delta_min(delta) : __builtin_inf();
		max = delta->count ? rp_delta_max(delta) : -__builtin_inf();
	}
	rp_outbox_double(out, mean);
	rp_outbox_double(out, rp_delta_deviation(delta));
	rp_outbox_u32(out, count);
	rp_outbox_double(out, min);
	rp_outbox_double(out, max);
	put_f32(out, payload->interval_s);
	rp_outbox_text(out, payload->series);
	rp_outbox_text(out, "Mean");
	rp_outbox_text(out, payload->instrument->metadata);
}

/* The rate's scale is a TimeSpan as .NET prints it, or "" if the counter declares none. */
static void put_sum(struct rp_outbox *out, const struct counter_payload *payload)
{
	uint32_t seconds = payload->instrument->rate_seconds;
	char scale[32], days[16] = "";

	if (seconds >= DAY_S)
		snprintf(days, sizeof(days), "%u.", seconds / DAY_S);
	snprintf(scale, sizeof(scale), "%s%02u:%02u:%02u", days, seconds / 3600 % 24,
		 seconds / 60 % 60, seconds % 60);
	rp_outbox_text(out, seconds ? scale : "");
	rp_outbox_double(out, payload->delta->change);
	put_f32(out, payload->interval_s);
	rp_outbox_text(out, payload->instrument->metadata);
	rp_outbox_text(out, payload->series);
	rp_outbox_text(out, "Sum");
}

static void put_event(struct rp_outbox *out, const struct counter_payload *payload)
{
	const struct rp_instrument *instrument = payload->instrument;
	bool is_sum = rp_kind_is_sum(instrument->kind);

	rp_outbox_begin(out, instrument->group->events[is_sum ? SUM : MEAN]);
	rp_outbox_text(out, instrument->name);
	/* Clients use only this field as a counter's title. */
	rp_outbox_text(out, *instrument->display_name ? instrument->display_name :
			    instrument->name);
	if (is_sum)
		put_sum(out, payload);
	else
		put_mean(out, payload);
	rp_outbox_text(out, instrument->unit);
}

static void publish_timer(struct rp_group *group, struct rp_timer *timer, uint64_t now_ns,
			  struct rp_outbox *out)
{
	struct rp_instrument *instrument;
	char series[32];

	snprintf(series, sizeof(series), "Interval=%u", timer->interval_ms);
	cds_list_for_each_entry(instrument, &group->instruments, node) {
		struct rp_delta delta;
		struct counter_payload payload = {
			.instrument = instrument,
			.delta = &delta,
			.series = series,
			.interval_s = (float)((double)(now_ns - timer->last_ns) / 1e9),
		};

		if ((instrument->hidden & RP_VIEW_EVENT_COUNTERS) ||
		    rp_delta_init(&delta, instrument->kind) != 0)
			continue;
		/* A counter whose callback failed and a gauge that was never set get no event. */
		if (rp_view_take(&timer->view, instrument, &delta) == 0 &&
		    (delta.has_value || instrument->kind == RP_COUNTER_HISTOGRAM))
			put_event(out, &payload);
		rp_delta_fini(&delta);
	}
	timer->last_ns = now_ns;
	while (timer->next_ns <= now_ns)
		timer->next_ns += timer->interval_ms * 1000000ull;
}

void rp_event_counters_publish(uint64_t now_ns, uint64_t poll, struct rp_outbox *out)
{
	struct rp_timer *timer;
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(timer, &group->timers, node) {
			if (timer->next_ns > now_ns)
				continue;
			rp_group_observe(group, poll);
			publish_timer(group, timer, now_ns, out);
		}
	}
}

void rp_event_counters_forget(void)
{
	struct rp_timer *timer, *next;
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry_safe(timer, next, &group->timers, node)
			drop_timer(timer);
	}
}
