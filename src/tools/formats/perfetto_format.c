/* SPDX-License-Identifier: MIT */
/*
 * Perfetto's format: a message Trace of TracePackets, whose schema Perfetto publishes in
 * protos/perfetto/trace/. All packets are of one sequence, and their times are those of the trace's
 * clock. A span is a slice, whose two packets are written when the span stops; readers sort packets
 * by their times and keep the order of packets with the same time.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/formats/format_writer.h"
#include "tools/formats/perfetto_fields.h"
#include "tools/formats/proto_out.h"
#include "tools/formats/shown_event.h"
#include "tools/formats/span_tracks.h"
#include "tools/trace/counter_sample.h"

enum packet_field {
	PACKET_CLOCKS = 6, PACKET_TIME = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11,
	PACKET_INTERNED = 12, PACKET_FLAGS = 13, PACKET_TRACK = 60,
};

enum event_field {
	EVENT_CATEGORY = 3, EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME = 10,
	EVENT_TRACK = 11, EVENT_NAME_TEXT = 23, EVENT_DOUBLE = 44, EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
};

enum event_type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };

enum track_field {
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
};

enum process_field { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum thread_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum interned_field { INTERNED_CATEGORY = 1, INTERNED_NAME = 2 };
enum clock_field { CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2 };

enum packet_flag { STATE_CLEARED = 1, NEEDS_STATE = 2 };
enum clock_id { CLOCK_ID_REAL = 1, CLOCK_ID_BOOT = 6 };
enum track_kind { KIND_PROCESS, KIND_THREAD, KIND_SPAN, KIND_COUNTER, KINDS };

#define SEQUENCE 1u
/* More counters, which only a hostile trace has, are instants. */
#define COUNTERS_MAX 65536u

/* A name and its category, which the file states once. */
struct perfetto_name {
	struct rp_shown_type shown;
	struct perfetto_name *next;
	uint64_t number;		/* of both */
};

struct perfetto_counter {
	uint64_t process;
	char *name;
	uint64_t track;
};

struct perfetto {
	struct rp_format_out *out;
	struct rp_format_out packet;
	struct rp_format_out text;	/* of the span that starts */
	struct rp_span_tracks tracks;
	struct perfetto_name *names;
	void *span_tree;		/* the names of spans: struct span_entry */
	void *counter_tree;
	uint64_t name_count, span_count, counter_count;
	uint64_t flow;			/* to the span that starts; 0: none */
	uint64_t start_ns;		/* the trace's clock at its start */
};

struct span_entry {
	const struct rp_span_name *key;
	struct perfetto_name *name;
};

static uint64_t track_of(enum track_kind kind, uint64_t number)
{
	return number * KINDS + kind;
}

static uint64_t process_track(const struct rp_process_track *process)
{
	return track_of(KIND_PROCESS, process->number);
}

/* Return: -ENOMEM if the packet is not whole. A failure to write is in out->error. */
static int write_packet(struct perfetto *perfetto)
{
	struct rp_format_out *packet = &perfetto->packet;
	char *to;

	if (packet->error)
		return packet->error;
	to = rp_out_reserve(perfetto->out, 16);
	if (!to)
		return 0;
	*to = 1 << 3 | 2;	/* Trace.packet, a message */
	perfetto->out->used++;
	rp_proto_number(perfetto->out, packet->used);
	rp_out_bytes(perfetto->out, packet->buffer, packet->used);
	return 0;
}

static struct rp_format_out *begin_packet(struct perfetto *perfetto)
{
	perfetto->packet.used = 0;
	rp_proto_varint(&perfetto->packet, PACKET_SEQUENCE, SEQUENCE);
	return &perfetto->packet;
}

/* Begin a packet with an event. Return: the place of the event. */
static size_t begin_event(struct perfetto *perfetto, enum event_type type, uint64_t track,
			  int64_t time_ns)
{
	struct rp_format_out *packet = begin_packet(perfetto);
	const uint64_t time = perfetto->start_ns + (uint64_t)time_ns;
	size_t place;

	rp_proto_varint(packet, PACKET_FLAGS, NEEDS_STATE);
	/* A time before the clock's zero is of a damaged trace. */
	rp_proto_varint(packet, PACKET_TIME, (int64_t)time < 0 ? 0 : time);
	place = rp_proto_begin(packet, PACKET_EVENT);
	rp_proto_varint(packet, EVENT_TYPE, type);
	rp_proto_varint(packet, EVENT_TRACK, track);
	return place;
}

static int end_event(struct perfetto *perfetto, size_t place)
{
	rp_proto_end(&perfetto->packet, place);
	return write_packet(perfetto);
}

static void put_interned(struct rp_format_out *packet, uint32_t field, uint64_t number,
			 const char *text)
{
	const size_t place = rp_proto_begin(packet, field);

	rp_proto_varint(packet, 1, number);
	rp_proto_text(packet, 2, text);
	rp_proto_end(packet, place);
}

/* Return: the name, which a packet has stated; NULL: no memory. */
static struct perfetto_name *make_name(struct perfetto *perfetto, const char *category,
				       const char *text)
{
	struct perfetto_name *name = malloc(sizeof(*name));
	struct rp_format_out *packet = begin_packet(perfetto);
	size_t place;

	if (!name)
		return NULL;
	*name = (struct perfetto_name){ .next = perfetto->names, .number = ++perfetto->name_count };
	perfetto->names = name;
	rp_proto_varint(packet, PACKET_FLAGS, NEEDS_STATE);
	place = rp_proto_begin(packet, PACKET_INTERNED);
	put_interned(packet, INTERNED_CATEGORY, name->number, category);
	put_interned(packet, INTERNED_NAME, name->number, text);
	rp_proto_end(packet, place);
	return write_packet(perfetto) < 0 ? NULL : name;
}

static struct rp_shown_type *make_event_name(void *perfetto, struct rp_reader_type *type,
					     const char *text)
{
	struct perfetto_name *made = make_name(perfetto, type->provider, text);

	return made ? &made->shown : NULL;
}

static int compare_spans(const void *left, const void *right)
{
	const struct span_entry *a = left, *b = right;

	return (a->key->index > b->key->index) - (a->key->index < b->key->index);
}

static struct perfetto_name *name_of_span(struct perfetto *perfetto,
					  const struct rp_span_name *key)
{
	struct span_entry wanted = { .key = key }, **found, *made;

	found = tfind(&wanted, &perfetto->span_tree, compare_spans);
	if (found)
		return (*found)->name;
	wanted.name = make_name(perfetto, key->provider, key->name);
	made = wanted.name ? malloc(sizeof(*made)) : NULL;
	if (!made)
		return NULL;
	*made = wanted;
	if (!tsearch(made, &perfetto->span_tree, compare_spans)) {
		free(made);
		return NULL;
	}
	return made->name;
}

static void put_name(struct perfetto *perfetto, const struct perfetto_name *name)
{
	rp_proto_varint(&perfetto->packet, EVENT_NAME, name->number);
	rp_proto_varint(&perfetto->packet, EVENT_CATEGORY, name->number);
}

static int put_process(struct rp_process_track *process, void *data)
{
	struct perfetto *perfetto = data;
	struct rp_format_out *packet = begin_packet(perfetto);
	const size_t place = rp_proto_begin(packet, PACKET_TRACK);
	size_t inner;

	rp_proto_varint(packet, TRACK_UUID, process_track(process));
	/* A process of another machine may have an id that Perfetto cannot hold. */
	if (process->process <= INT32_MAX) {
		inner = rp_proto_begin(packet, TRACK_PROCESS);
		rp_proto_varint(packet, PROCESS_PID, process->process);
		if (process->name)
			rp_proto_text(packet, PROCESS_NAME, process->name);
		rp_proto_end(packet, inner);
	} else {
		rp_proto_text(packet, TRACK_NAME, process->name ? process->name : "process");
	}
	rp_proto_end(packet, place);
	return write_packet(perfetto);
}

static int put_thread(struct rp_thread_track *track, void *data)
{
	struct perfetto *perfetto = data;
	struct rp_format_out *packet = begin_packet(perfetto);
	const size_t place = rp_proto_begin(packet, PACKET_TRACK);
	char name[32];
	size_t inner;

	rp_proto_varint(packet, TRACK_UUID, track_of(KIND_THREAD, track->number));
	rp_proto_varint(packet, TRACK_PARENT, process_track(track->owner));
	if (track->process <= INT32_MAX && track->thread <= INT32_MAX) {
		inner = rp_proto_begin(packet, TRACK_THREAD);
		rp_proto_varint(packet, THREAD_PID, track->process);
		rp_proto_varint(packet, THREAD_TID, track->thread);
		if (track->name)
			rp_proto_text(packet, THREAD_NAME, track->name);
		rp_proto_end(packet, inner);
	} else {
		snprintf(name, sizeof(name), "thread %llu", (unsigned long long)track->thread);
		rp_proto_text(packet, TRACK_NAME, track->name ? track->name : name);
	}
	rp_proto_end(packet, place);
	return write_packet(perfetto);
}

/* Describe a track of a process that is no thread. */
static int put_own_track(struct perfetto *perfetto, uint64_t uuid,
			 const struct rp_thread_track *thread, const char *name, bool is_counter)
{
	struct rp_format_out *packet = begin_packet(perfetto);
	const size_t place = rp_proto_begin(packet, PACKET_TRACK);

	rp_proto_varint(packet, TRACK_UUID, uuid);
	rp_proto_varint(packet, TRACK_PARENT, process_track(thread->owner));
	rp_proto_text(packet, TRACK_NAME, name);
	if (is_counter)
		rp_proto_end(packet, rp_proto_begin(packet, TRACK_COUNTER));
	rp_proto_end(packet, place);
	return write_packet(perfetto);
}

static int compare_counters(const void *left, const void *right)
{
	const struct perfetto_counter *a = left, *b = right;

	if (a->process != b->process)
		return (a->process > b->process) - (a->process < b->process);
	return strcmp(a->name, b->name);
}

/* Return: 0 with the counter's track; 0: there are too many counters; -ENOMEM. */
static int find_counter(struct perfetto *perfetto, const struct rp_thread_track *thread,
			char *name, uint64_t *ret_track)
{
	struct perfetto_counter key = { .process = thread->process, .name = name }, **found, *made;

	*ret_track = 0;
	found = tfind(&key, &perfetto->counter_tree, compare_counters);
	if (found) {
		*ret_track = (*found)->track;
		return 0;
	}
	if (perfetto->counter_count >= COUNTERS_MAX)
		return 0;
	made = malloc(sizeof(*made));
	if (!made)
		return -ENOMEM;
	*made = key;
	made->name = strdup(name);
	made->track = track_of(KIND_COUNTER, ++perfetto->counter_count);
	if (!made->name || !tsearch(made, &perfetto->counter_tree, compare_counters)) {
		free(made->name);
		free(made);
		return -ENOMEM;
	}
	*ret_track = made->track;
	return put_own_track(perfetto, made->track, thread, name, true);
}

/* Return: 1; 0: there are too many counters; -ENOMEM. */
static int put_value(struct perfetto *perfetto, const struct rp_thread_track *thread, char *name,
		     int64_t time_ns, double value)
{
	uint64_t track;
	size_t place;
	int ret = find_counter(perfetto, thread, name, &track);

	if (ret < 0 || track == 0)
		return ret;
	place = begin_event(perfetto, COUNTER, track, time_ns);
	rp_proto_double(&perfetto->packet, EVENT_DOUBLE, value);
	ret = end_event(perfetto, place);
	return ret ? ret : 1;
}

/* Return: 1: the event was a counter's; 0: it is not; -ENOMEM. */
static int put_counter(struct perfetto *perfetto, const struct rp_reader_event *event,
		       const struct rp_thread_track *thread)
{
	struct rp_counter_sample sample;
	char name[sizeof(sample.provider) + sizeof(sample.name) + sizeof(sample.tags) + 64];
	bool is_spread;
	int ret, length;

	if (rp_counter_decode(event, 0, &sample) != RP_COUNTER_SAMPLE)
		return 0;
	is_spread = sample.form == RP_COUNTER_SPREAD;
	length = snprintf(name, sizeof(name) - 32, "%s/%s%s%s", sample.provider, sample.name,
			  *sample.tags ? " " : "", sample.tags);
	if (is_spread)
		strcpy(name + length, " count");
	ret = put_value(perfetto, thread, name, event->time_ns,
			is_spread ? (double)sample.count : sample.value);
	for (uint32_t i = 0; ret == 1 && i < sample.quantile_count; i++) {
		snprintf(name + length, 32, " p%g", 100 * sample.quantiles[i].at);
		ret = put_value(perfetto, thread, name, event->time_ns, sample.quantiles[i].value);
	}
	return ret;
}

static void put_guid(struct rp_format_out *out, const char *name, const struct rp_guid *guid)
{
	static const struct rp_guid none;
	size_t place, inner;

	if (!memcmp(guid, &none, sizeof(none)))
		return;
	place = rp_proto_begin(out, EVENT_ANNOTATION);
	rp_proto_text(out, RP_PERFETTO_NAME, name);
	inner = rp_proto_begin(out, RP_PERFETTO_TEXT);
	rp_out_guid(out, guid->bytes);
	rp_proto_end(out, inner);
	rp_proto_end(out, place);
}

static void put_flag(struct rp_format_out *out, const char *name)
{
	const size_t place = rp_proto_begin(out, EVENT_ANNOTATION);

	rp_proto_text(out, RP_PERFETTO_NAME, name);
	rp_proto_varint(out, RP_PERFETTO_BOOL, true);
	rp_proto_end(out, place);
}

static void put_trace_id(struct rp_format_out *out, const uint8_t *trace_id)
{
	static const uint8_t none[16];
	size_t place, inner;

	if (!memcmp(trace_id, none, sizeof(none)))
		return;
	place = rp_proto_begin(out, EVENT_ANNOTATION);
	rp_proto_text(out, RP_PERFETTO_NAME, "trace_id");
	inner = rp_proto_begin(out, RP_PERFETTO_TEXT);
	rp_out_hex(out, trace_id, sizeof(none));
	rp_proto_end(out, inner);
	rp_proto_end(out, place);
}

static int put_instant(const struct rp_reader_event *event, struct rp_thread_track *track,
		       void *data)
{
	struct perfetto *perfetto = data;
	struct rp_format_out *packet = &perfetto->packet;
	const struct perfetto_name *name =
		(struct perfetto_name *)rp_shown_type_of(event->type, make_event_name, perfetto);
	size_t place;
	int ret = name ? 0 : -ENOMEM;

	if (ret == 0 && name->shown.is_omitted)
		return 0;
	if (ret == 0 && name->shown.is_counter)
		ret = put_counter(perfetto, event, track);
	if (ret)
		return ret < 0 ? ret : 0;
	place = begin_event(perfetto, INSTANT, track_of(KIND_THREAD, track->number),
			    event->time_ns);
	put_name(perfetto, name);
	rp_perfetto_put_fields(packet, EVENT_ANNOTATION, event);
	put_guid(packet, "activity", &event->activity);
	put_guid(packet, "related_activity", &event->related_activity);
	put_trace_id(packet, event->trace_id);
	return end_event(perfetto, place);
}

static int keep_start(const struct rp_reader_event *event, const char **ret_text,
		      size_t *ret_bytes, void *data)
{
	struct perfetto *perfetto = data;
	struct rp_format_out *text = &perfetto->text;

	text->used = 0;
	if (perfetto->flow)
		rp_proto_fixed64(text, EVENT_FLOW_END, perfetto->flow);
	perfetto->flow = 0;
	rp_perfetto_put_fields(text, EVENT_ANNOTATION, event);
	*ret_text = text->buffer;
	*ret_bytes = text->used;
	return text->error;
}

static int put_flow(const struct rp_track_flow *flow, void *data)
{
	struct perfetto *perfetto = data;
	const size_t place = begin_event(perfetto, INSTANT,
					 track_of(KIND_THREAD, flow->from->number), flow->time_ns);

	rp_proto_text(&perfetto->packet, EVENT_NAME_TEXT, "child");
	rp_proto_fixed64(&perfetto->packet, EVENT_FLOW, flow->number);
	perfetto->flow = flow->number;
	return end_event(perfetto, place);
}

static int put_span_begin(struct perfetto *perfetto, const struct rp_track_span *passed,
			  const struct perfetto_name *name, uint64_t track)
{
	const struct rp_trace_span *span = passed->span;
	struct rp_format_out *packet = &perfetto->packet;
	const size_t place = begin_event(perfetto, SLICE_BEGIN, track, span->start_ns);

	put_name(perfetto, name);
	if (passed->text)
		rp_out_bytes(packet, passed->text, passed->text_bytes);
	put_guid(packet, "activity", &span->activity);
	put_guid(packet, "parent_activity", &span->parent);
	put_trace_id(packet, span->trace_id);
	if (span->has_error)
		put_flag(packet, "error");
	if (!passed->stop)
		put_flag(packet, "never_stopped");
	return end_event(perfetto, place);
}

static int put_span(const struct rp_track_span *passed, void *data)
{
	struct perfetto *perfetto = data;
	const struct rp_trace_span *span = passed->span;
	const struct perfetto_name *name = name_of_span(perfetto, span->name);
	uint64_t track = track_of(KIND_THREAD, passed->track->number);
	size_t place;
	int ret = name ? 0 : -ENOMEM;

	if (ret == 0 && !passed->nests) {
		track = track_of(KIND_SPAN, ++perfetto->span_count);
		ret = put_own_track(perfetto, track, passed->track, span->name->name, false);
	}
	if (ret == 0)
		ret = put_span_begin(perfetto, passed, name, track);
	if (ret < 0)
		return ret;
	place = begin_event(perfetto, SLICE_END, track, span->stop_ns);
	if (passed->stop)
		rp_perfetto_put_fields(&perfetto->packet, EVENT_ANNOTATION, passed->stop);
	return end_event(perfetto, place);
}

static const struct rp_track_calls calls = {
	.process = put_process, .thread = put_thread, .start = keep_start, .span = put_span,
	.flow = put_flow, .instant = put_instant,
};

static void put_clock(struct rp_format_out *packet, enum clock_id id, uint64_t time_ns)
{
	const size_t place = rp_proto_begin(packet, CLOCK);

	rp_proto_varint(packet, CLOCK_ID, id);
	rp_proto_varint(packet, CLOCK_TIME, time_ns);
	rp_proto_end(packet, place);
}

static int put_beginning(struct perfetto *perfetto, const struct rp_reader_info *info)
{
	struct rp_format_out *packet = begin_packet(perfetto);
	size_t place;

	rp_proto_varint(packet, PACKET_FLAGS, STATE_CLEARED);
	place = rp_proto_begin(packet, PACKET_CLOCKS);
	put_clock(packet, CLOCK_ID_BOOT, perfetto->start_ns);
	put_clock(packet, CLOCK_ID_REAL, (uint64_t)info->start_utc_ns);
	rp_proto_end(packet, place);
	return write_packet(perfetto);
}

static void close_perfetto(void *state)
{
	struct perfetto *perfetto = state;

	while (perfetto->span_tree) {
		struct span_entry *entry = *(struct span_entry **)perfetto->span_tree;

		tdelete(entry, &perfetto->span_tree, compare_spans);
		free(entry);
	}
	while (perfetto->counter_tree) {
		struct perfetto_counter *counter =
			*(struct perfetto_counter **)perfetto->counter_tree;

		tdelete(counter, &perfetto->counter_tree, compare_counters);
		free(counter->name);
		free(counter);
	}
	while (perfetto->names) {
		struct perfetto_name *name = perfetto->names;

		perfetto->names = name->next;
		free(name);
	}
	/* The entries of span_tree point to names of the tracks. */
	rp_span_tracks_fini(&perfetto->tracks);
	rp_out_fini(&perfetto->packet);
	rp_out_fini(&perfetto->text);
	free(perfetto);
}

static int open_perfetto(const struct rp_format_source *source, struct rp_format_out *out,
			 void **ret_state)
{
	const struct rp_reader_info *info = &source->info;
	struct perfetto *perfetto = calloc(1, sizeof(*perfetto));
	const uint64_t rate = info->ticks_per_second ? info->ticks_per_second : 1;
	int ret;

	if (!perfetto)
		return -ENOMEM;
	perfetto->out = out;
	perfetto->start_ns = (uint64_t)((unsigned __int128)info->start_ticks * 1000000000 / rate);
	/* A damaged header leaves no more than the time since the start. */
	if (perfetto->start_ns > INT64_MAX / 2)
		perfetto->start_ns = 0;
	rp_span_tracks_init(&perfetto->tracks, &calls, perfetto);
	perfetto->tracks.starts_differ = true;
	ret = put_beginning(perfetto, info);
	if (ret < 0) {
		close_perfetto(perfetto);
		return ret;
	}
	*ret_state = perfetto;
	return 0;
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct perfetto *perfetto = state;

	return rp_span_tracks_take(&perfetto->tracks, event);
}

static int end_perfetto(void *state)
{
	struct perfetto *perfetto = state;

	return rp_span_tracks_end(&perfetto->tracks);
}

const struct rp_format_writer rp_format_perfetto = {
	.name = "perfetto", .open = open_perfetto, .event = take_event, .end = end_perfetto,
	.close = close_perfetto,
};
