/* SPDX-License-Identifier: MIT */
/*
 * Sessions of System.Diagnostics.Metrics: their arguments, the clients that share a session, and
 * the times of its events.
 *
 * A client chooses a SessionId, which each event contains, and ignores events of other ids. Clients
 * that may share a session use the id SHARED: they get the instruments that any of them requested,
 * and must agree on interval and limits. A client that disagrees gets an error event with its
 * ClientId, and no values. Unlike in .NET, sessions with different ids run simultaneously.
 */
#include "counter/meters.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/text.h"
#include "core/session_setup.h"
#include "counter/meter_events.h"
#include "counter/outbox.h"
#include "counter/requests.h"
#include "counter/state.h"

#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 86400
#define SERIES_DEFAULT 1000
#define HISTOGRAMS_DEFAULT 20

/* The version of the events' format, sent to clients. */
static const uint32_t version[3] = { 9, 0, 0 };

struct limits {
	double interval_s;
	uint32_t series, histograms;
};

/* A session of the core that takes part in a meters session. */
struct meter_member {
	struct cds_list_head node;	/* in meters->members */
	uint64_t session_id;
	char *specs;			/* instruments that it requested */
	bool is_wanted;
};

struct meters {
	struct cds_list_head node;
	struct cds_list_head members;	/* members that disagree have no specs */
	char *id;
	struct limits limits;
	struct rp_view view;
	bool series_reported, histograms_reported;
	uint32_t *reported;			/* ids of instruments whose BEGIN was emitted */
	size_t reported_count, reported_capacity;
	uint64_t next_ns;
	int64_t begin_utc_ns;
};

static CDS_LIST_HEAD(all);

static int64_t utc_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Match one item of a list: "Meter", "Meter\instrument" or "Prefix*". */
static bool spec_matches(const char *spec, size_t length, const struct rp_instrument *instrument)
{
	const char *slash = memchr(spec, '\\', length);
	size_t meter = slash ? (size_t)(slash - spec) : length;
	const char *name = instrument->group->name;

	if (slash && (strlen(instrument->name) != length - meter - 1 ||
		      memcmp(slash + 1, instrument->name, length - meter - 1) != 0))
		return false;
	if (meter && spec[meter - 1] == '*')
		return strncmp(spec, name, meter - 1) == 0;
	return strlen(name) == meter && memcmp(spec, name, meter) == 0;
}

static bool member_wants(const struct meter_member *member, const struct rp_instrument *instrument)
{
	const char *at = member->specs;

	while (at && *at) {
		size_t length = strcspn(at, "\r\n,;");

		if (length && spec_matches(at, length, instrument))
			return true;
		at += length + (at[length] != '\0');
	}
	return false;
}

static bool wants(const struct meters *meters, const struct rp_instrument *instrument)
{
	struct meter_member *member;

	if (instrument->hidden & RP_VIEW_METERS)
		return false;
	cds_list_for_each_entry(member, &meters->members, node) {
		if (member_wants(member, instrument))
			return true;
	}
	return false;
}

static uint32_t read_limit(const char *filter_data, const char *key, uint32_t otherwise)
{
	double number = rp_request_number(filter_data, key, otherwise);

	/* Only integers are valid. */
	if (number < 0 || number > INT_MAX || number != (double)(uint32_t)number)
		return otherwise;
	return (uint32_t)number;
}

static void read_limits(const char *filter_data, const struct limits *otherwise,
			struct limits *ret_limits)
{
	double interval_s = rp_request_number(filter_data, "RefreshInterval",
					      otherwise->interval_s);

	if (interval_s < INTERVAL_MIN_S)
		interval_s = INTERVAL_MIN_S;
	if (interval_s > INTERVAL_MAX_S)
		interval_s = INTERVAL_MAX_S;
	ret_limits->interval_s = interval_s;
	ret_limits->series = read_limit(filter_data, "MaxTimeSeries", otherwise->series);
	ret_limits->histograms = read_limit(filter_data, "MaxHistograms", otherwise->histograms);
}

static void report_disagreement(const struct rp_request *request, const struct limits *expected,
				const struct limits *actual, struct rp_outbox *out)
{
	char *client, text[32];

	if (rp_filter_data_get(request->filter_data, "ClientId", &client) != 0)
		return;
	rp_outbox_begin(out, rp_meter_event(RP_METER_MISCONFIGURED));
	rp_outbox_text(out, client);
	free(client);
	for (int i = 0; i < 6; i++) {
		const struct limits *limits = i % 2 ? actual : expected;

		if (i < 2)
			snprintf(text, sizeof(text), "%u", limits->histograms);
		else if (i < 4)
			snprintf(text, sizeof(text), "%u", limits->series);
		else
			snprintf(text, sizeof(text), "%.15g", limits->interval_s);
		rp_outbox_text(out, text);
	}
}

static struct meters *find_meters(const char *id)
{
	struct meters *meters;

	cds_list_for_each_entry(meters, &all, node) {
		if (strcmp(meters->id, id) == 0)
			return meters;
	}
	return NULL;
}

static struct meters *make_meters(char *id, const char *filter_data)
{
	static const struct limits defaults = { 1, SERIES_DEFAULT, HISTOGRAMS_DEFAULT };
	struct meters *meters = calloc(1, sizeof(*meters));

	if (!meters)
		return NULL;
	meters->id = id;
	read_limits(filter_data, &defaults, &meters->limits);
	CDS_INIT_LIST_HEAD(&meters->members);
	rp_view_init(&meters->view);
	cds_list_add_tail(&meters->node, &all);
	return meters;
}

static void drop_member(struct meter_member *member)
{
	cds_list_del(&member->node);
	free(member->specs);
	free(member);
}

static void drop_meters(struct meters *meters)
{
	struct meter_member *member, *next;

	cds_list_for_each_entry_safe(member, next, &meters->members, node)
		drop_member(member);
	rp_view_fini(&meters->view);
	cds_list_del(&meters->node);
	free(meters->reported);
	free(meters->id);
	free(meters);
}

static bool was_reported(const struct meters *meters, uint32_t id)
{
	for (size_t i = 0; i < meters->reported_count; i++) {
		if (meters->reported[i] == id)
			return true;
	}
	return false;
}

static int remember_reported(struct meters *meters, uint32_t id)
{
	uint32_t *grown;

	grown = rp_array_reserve(meters->reported, meters->reported_count,
				 &meters->reported_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	meters->reported = grown;
	meters->reported[meters->reported_count++] = id;
	return 0;
}

/* Find or create the mark of a series. NULL: a limit (reported once) or no memory. */
static struct rp_mark *mark_within(struct meters *meters, struct rp_series *series,
				   bool from_start, struct rp_outbox *out)
{
	struct rp_mark *mark = rp_view_find(&meters->view, series);
	bool is_histogram = series->instrument->kind == RP_COUNTER_HISTOGRAM;
	bool *reported = NULL;
	enum rp_meter_event which = RP_METER_SERIES_LIMIT;

	if (mark)
		return mark;
	if (is_histogram && meters->view.histograms >= meters->limits.histograms) {
		reported = &meters->histograms_reported;
		which = RP_METER_HISTOGRAM_LIMIT;
	} else if (meters->view.count >= meters->limits.series) {
		reported = &meters->series_reported;
	}
	if (reported) {
		if (!*reported) {
			rp_outbox_begin(out, rp_meter_event(which));
			rp_outbox_text(out, meters->id);
		}
		*reported = true;
		return NULL;
	}
	if (rp_view_mark(&meters->view, series, from_start, &mark) != 0)
		return NULL;
	return mark;
}

static bool is_first(const struct rp_series *series)
{
	return series->node.prev == &series->instrument->series;
}

/* An unused series without tags is hidden if the instrument has other series. */
static bool is_idle(const struct rp_series *series, const struct rp_delta *delta)
{
	uint32_t kind = series->instrument->kind;

	if (rp_kind_is_observed(kind))
		return !series->was_seen;
	if (kind == RP_COUNTER_GAUGE)
		return !delta->has_value;
	return is_first(series) && series->instrument->series_count > 1 &&
	       delta->value == 0 && delta->count == 0;
}

/* Return: whether a series without tags was ever used. */
static bool was_used(struct rp_series *series)
{
	struct rp_view view;
	struct rp_mark *mark;
	struct rp_delta delta;
	bool used = false;

	if (rp_delta_init(&delta, series->instrument->kind) != 0)
		return false;
	rp_view_init(&view);
	if (rp_view_mark(&view, series, true, &mark) == 0) {
		rp_mark_take(mark, &delta);
		used = !is_idle(series, &delta);
	}
	rp_view_fini(&view);
	rp_delta_fini(&delta);
	return used;
}

/* `from_start`: the instrument is newer than the session, which therefore gets its whole count. */
static void begin_instrument(struct meters *meters, struct rp_instrument *instrument,
			     bool from_start, struct rp_outbox *out)
{
	struct rp_series *series;

	if (remember_reported(meters, instrument->id) != 0)
		return;
	if (from_start)
		rp_meter_put_instrument(out, RP_METER_PUBLISHED, meters->id, instrument);
	rp_meter_put_instrument(out, RP_METER_BEGIN, meters->id, instrument);
	cds_list_for_each_entry(series, &instrument->series, node) {
		if (!is_first(series) || instrument->series_count == 1 || was_used(series))
			(void)mark_within(meters, series, from_start, out);
	}
}

static void begin_new_instruments(struct meters *meters, bool from_start, struct rp_outbox *out)
{
	struct rp_instrument *instrument;
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(instrument, &group->instruments, node) {
			if (wants(meters, instrument) && !was_reported(meters, instrument->id))
				begin_instrument(meters, instrument, from_start, out);
		}
	}
}

static void observe_wanted(const struct meters *meters, uint64_t poll)
{
	struct rp_instrument *instrument;
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
again:
		cds_list_for_each_entry(instrument, &group->instruments, node) {
			if (!rp_kind_is_observed(instrument->kind) || instrument->poll >= poll ||
			    instrument->going || !wants(meters, instrument))
				continue;
			rp_instrument_observe(instrument, poll);
			goto again;
		}
	}
}

/* Emit all announcements again for a new client, which has seen none of them. */
static void welcome(struct meters *meters, bool is_new, uint64_t now_ns, struct rp_outbox *out)
{
	struct rp_instrument *instrument;
	struct rp_group *group;

	rp_outbox_begin(out, rp_meter_event(RP_METER_VERSION));
	for (int i = 0; i < 3; i++)
		rp_outbox_u32(out, version[i]);
	observe_wanted(meters, ++rp_counters.poll);
	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(instrument, &group->instruments, node) {
			if (!(instrument->hidden & RP_VIEW_METERS))
				rp_meter_put_instrument(out, RP_METER_PUBLISHED, meters->id,
							instrument);
			if (was_reported(meters, instrument->id))
				rp_meter_put_instrument(out, RP_METER_BEGIN, meters->id,
							instrument);
		}
	}
	begin_new_instruments(meters, false, out);
	rp_outbox_begin(out, rp_meter_event(RP_METER_ENUMERATED));
	rp_outbox_text(out, meters->id);
	if (is_new) {
		meters->next_ns = now_ns + (uint64_t)(meters->limits.interval_s * 1e9);
		meters->begin_utc_ns = utc_ns();
	}
}

static struct meter_member *find_member(uint64_t session_id)
{
	struct meters *meters;
	struct meter_member *member;

	cds_list_for_each_entry(meters, &all, node) {
		cds_list_for_each_entry(member, &meters->members, node) {
			if (member->session_id == session_id)
				return member;
		}
	}
	return NULL;
}

static void add_member(struct meters *meters, const struct rp_request *request, bool is_new,
		       uint64_t now_ns, struct rp_outbox *out)
{
	struct meter_member *member = calloc(1, sizeof(*member));
	struct limits limits;

	if (!member)
		return;
	member->session_id = request->session_id;
	member->is_wanted = true;
	cds_list_add_tail(&member->node, &meters->members);
	read_limits(request->filter_data, &meters->limits, &limits);
	if (limits.interval_s != meters->limits.interval_s ||
	    limits.series != meters->limits.series ||
	    limits.histograms != meters->limits.histograms) {
		report_disagreement(request, &meters->limits, &limits, out);
		return;
	}
	(void)rp_filter_data_get(request->filter_data, "Metrics", &member->specs);
	welcome(meters, is_new, now_ns, out);
}

/* A request without a SessionId gets a unique one. */
static char *session_name(const struct rp_request *request)
{
	char *id;
	int ret = rp_filter_data_get(request->filter_data, "SessionId", &id);

	if (ret == -ENOENT && asprintf(&id, "session-%llu",
				       (unsigned long long)request->session_id) >= 0)
		return id;
	return ret == 0 ? id : NULL;
}

static void take_request(const struct rp_request *request, uint64_t now_ns, struct rp_outbox *out)
{
	char *id = session_name(request);
	struct meters *meters = id ? find_meters(id) : NULL;
	bool is_new = !meters;

	if (is_new && id) {
		meters = make_meters(id, request->filter_data);
		if (meters)
			id = NULL;
	}
	free(id);
	if (meters)
		add_member(meters, request, is_new, now_ns, out);
}

static bool asks_for_meters(const struct rp_request *request)
{
	return strcmp(request->provider, RP_METERS_PROVIDER) == 0;
}

static void drop_unwanted(const struct rp_request *requests, size_t count)
{
	struct meters *meters, *next;
	struct meter_member *member, *next_member;

	cds_list_for_each_entry(meters, &all, node) {
		cds_list_for_each_entry(member, &meters->members, node)
			member->is_wanted = false;
	}
	for (size_t i = 0; i < count; i++) {
		member = asks_for_meters(&requests[i]) ? find_member(requests[i].session_id) : NULL;
		if (member)
			member->is_wanted = true;
	}
	cds_list_for_each_entry_safe(meters, next, &all, node) {
		cds_list_for_each_entry_safe(member, next_member, &meters->members, node) {
			if (!member->is_wanted)
				drop_member(member);
		}
		if (cds_list_empty(&meters->members))
			drop_meters(meters);
	}
}

void rp_meters_prepare(const struct rp_request *requests, size_t count)
{
	bool asked = false;

	for (size_t i = 0; i < count; i++)
		asked |= asks_for_meters(&requests[i]);
	if (asked)
		rp_meter_events_create();
}

/* Drop sessions that have ended first: new sessions need not agree with them. */
void rp_meters_refresh(const struct rp_request *requests, size_t count, uint64_t now_ns,
		       struct rp_outbox *out)
{
	drop_unwanted(requests, count);
	for (size_t i = 0; i < count; i++) {
		if (asks_for_meters(&requests[i]) && !find_member(requests[i].session_id))
			take_request(&requests[i], now_ns, out);
	}
}

uint64_t rp_meters_next(void)
{
	struct meters *meters;
	uint64_t first = 0;

	cds_list_for_each_entry(meters, &all, node) {
		if (first == 0 || meters->next_ns < first)
			first = meters->next_ns;
	}
	return first;
}

static void put_interval(struct rp_outbox *out, enum rp_meter_event which,
			 const struct meters *meters, int64_t end_utc_ns)
{
	rp_outbox_begin(out, rp_meter_event(which));
	rp_outbox_text(out, meters->id);
	rp_outbox_put(out, &meters->begin_utc_ns, sizeof(meters->begin_utc_ns));
	rp_outbox_put(out, &end_utc_ns, sizeof(end_utc_ns));
}

static void publish_series(struct meters *meters, struct rp_series *series, struct rp_outbox *out)
{
	struct rp_mark *mark = mark_within(meters, series, true, out);
	struct rp_delta delta;

	if (!mark || rp_delta_init(&delta, series->instrument->kind) != 0)
		return;
	rp_mark_take(mark, &delta);
	rp_meter_put_total(out, meters->id, mark);
	if (!is_idle(series, &delta))
		rp_meter_put_series(out, meters->id, series, &delta);
	rp_delta_fini(&delta);
}

static void publish_instrument(struct meters *meters, struct rp_instrument *instrument,
			       struct rp_outbox *out)
{
	struct rp_series *series;
	char text[2 * RP_NAME_MAX + 64];

	if (rp_kind_is_observed(instrument->kind) && instrument->observed != 0) {
		snprintf(text, sizeof(text), "%s\\%s: %s", instrument->group->name,
			 instrument->name, rp_text_error(-instrument->observed));
		rp_outbox_begin(out, rp_meter_event(RP_METER_CALLBACK_ERROR));
		rp_outbox_text(out, meters->id);
		rp_outbox_text(out, text);
	}
	cds_list_for_each_entry(series, &instrument->series, node)
		publish_series(meters, series, out);
}

static void publish(struct meters *meters, uint64_t now_ns, uint64_t poll, struct rp_outbox *out)
{
	uint64_t interval_ns = (uint64_t)(meters->limits.interval_s * 1e9);
	int64_t end_utc_ns;
	struct rp_instrument *instrument;
	struct rp_group *group;

	observe_wanted(meters, poll);
	begin_new_instruments(meters, true, out);
	end_utc_ns = utc_ns();
	put_interval(out, RP_METER_COLLECTION_START, meters, end_utc_ns);
	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		cds_list_for_each_entry(instrument, &group->instruments, node) {
			if (was_reported(meters, instrument->id))
				publish_instrument(meters, instrument, out);
		}
	}
	put_interval(out, RP_METER_COLLECTION_STOP, meters, end_utc_ns);
	meters->begin_utc_ns = end_utc_ns;
	while (meters->next_ns <= now_ns)
		meters->next_ns += interval_ns;
}

void rp_meters_publish(uint64_t now_ns, uint64_t poll, struct rp_outbox *out)
{
	struct meters *meters;

	cds_list_for_each_entry(meters, &all, node) {
		if (meters->next_ns <= now_ns)
			publish(meters, now_ns, poll, out);
	}
}

void rp_meters_end(struct rp_instrument *instrument, struct rp_outbox *out)
{
	struct meters *meters;

	cds_list_for_each_entry(meters, &all, node) {
		for (size_t i = 0; i < meters->reported_count; i++) {
			if (meters->reported[i] != instrument->id)
				continue;
			rp_meter_put_instrument(out, RP_METER_END, meters->id, instrument);
			meters->reported[i] = meters->reported[--meters->reported_count];
		}
	}
}

void rp_meters_forget(void)
{
	struct meters *meters, *next;

	cds_list_for_each_entry_safe(meters, next, &all, node)
		drop_meters(meters);
}
