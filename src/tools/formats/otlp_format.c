/* SPDX-License-Identifier: MIT */
/*
 * Writes spans in the format of OpenTelemetry's OTLP File Exporter: each line is a TracesData
 * message in JSON, with the spans of one process and one provider.
 *
 * A span is written when it stops. Until then, its attributes and the events in it are kept, in
 * bounded memory. Without a trace id, a span gets ids from its activity id; see choose_ids().
 *
 * Source: opentelemetry/proto/trace/v1/trace.proto of github.com/open-telemetry/opentelemetry-proto
 * and the page "OpenTelemetry Protocol File Exporter" of the OpenTelemetry specification.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/formats/format_writer.h"
#include "tools/formats/json_out.h"
#include "tools/formats/otlp_values.h"
#include "tools/formats/shown_event.h"
#include "tools/formats/span_tracks.h"
#include "tools/trace/attribute_table.h"

#define LINE_SPANS 256u
/* All open spans keep this much; further attributes and events are counted only. */
#define KEPT_BYTES_MAX (256u << 20)
#define SPAN_EVENTS_MAX 1000u		/* of one span */
#define IDS_SEEN 65536u			/* a power of two */

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };	/* of trace.proto */

struct otlp_ids {
	uint8_t trace[16];
	uint64_t span, parent;		/* parent: 0: none */
};

/* An open span. */
struct otlp_span {
	struct otlp_ids ids, link;	/* link.span: 0: none */
	bool is_server;			/* its parent is a span of another service */
	const struct rp_reader_type *type;
	struct rp_format_out attributes, events;
	uint32_t event_count, dropped_events;
	bool has_dropped;		/* its attributes */
};

struct otlp {
	const struct rp_format_source *source;
	struct rp_format_out *out;
	struct rp_span_tracks tracks;
	struct rp_format_out text;	/* that is being made */
	const struct rp_process_track *process;	/* of the line; NULL: no line is open */
	const struct rp_span_name *scope;
	unsigned int line_spans;
	size_t kept_bytes;
	uint64_t omitted;		/* events outside of spans */
	struct rp_attribute_table attributes;
	bool has_attributes;		/* of the whole trace */
	uint64_t ids_seen[IDS_SEEN];	/* span ids of the trace, at the place that each gives */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15u;
	return a ^ a >> 32;
}

static bool is_zero(const void *bytes, size_t size)
{
	static const uint8_t none[16];

	return memcmp(bytes, none, size) == 0;
}

/* Return: an id of a span that no other span has, except by chance. */
static uint64_t make_id(const struct rp_reader_event *event, uint64_t salt)
{
	uint64_t low, high, id;

	memcpy(&low, event->activity.bytes, sizeof(low));
	memcpy(&high, event->activity.bytes + sizeof(low), sizeof(high));
	id = mix(mix(mix(low, high), (uint64_t)event->time_ns), salt);
	id = mix(mix(id, event->thread), event->process);
	id = mix(id, (uint64_t)event->type->id << 32 | event->sequence);
	return id ? id : 1;
}

/* Return: whether the id is new, as far as the table shows. */
static bool note_id(struct otlp *otlp, uint64_t id)
{
	uint64_t *seen = &otlp->ids_seen[id & (IDS_SEEN - 1)];
	const bool is_new = *seen != id;

	*seen = id;
	return is_new;
}

/* The related id of an event with a trace id begins with the span id of the caller. */
static uint64_t caller_of(const struct rp_reader_event *event)
{
	uint64_t id;

	memcpy(&id, event->related_activity.bytes, sizeof(id));
	return be64toh(id);
}

/*
 * Choose the ids of a span that starts:
 *  - The trace id is that of the event, else of the enclosing span, else of the span with the
 *    related activity id, else the activity id, else a hash of the start event.
 *  - The first span whose event has a span id of a `traceparent` gets that id. All others get a
 *    hash of their start event.
 *  - The parent is the enclosing open span with the same activity id, else the open span with the
 *    related activity id, else the caller in a `traceparent`. A span without any activity id has
 *    the innermost span on its thread as the enclosing one.
 *  - A related span of another trace is a link.
 */
static void choose_ids(struct otlp *otlp, struct otlp_span *span,
		       const struct rp_reader_event *event)
{
	const bool has_trace = !is_zero(event->trace_id, sizeof(event->trace_id));
	const bool has_activity = !is_zero(&event->activity, sizeof(event->activity));
	const struct otlp_span *around = rp_span_tracks_find(&otlp->tracks, &event->activity);
	const struct otlp_span *related = has_trace ? NULL :
		rp_span_tracks_find(&otlp->tracks, &event->related_activity);

	if (!around && !has_activity)
		around = rp_span_tracks_innermost(&otlp->tracks);
	if (!around)
		around = related;
	if (has_trace)
		memcpy(span->ids.trace, event->trace_id, sizeof(event->trace_id));
	else if (around)
		memcpy(span->ids.trace, around->ids.trace, sizeof(around->ids.trace));
	else if (has_activity)
		memcpy(span->ids.trace, event->activity.bytes, sizeof(event->activity.bytes));
	else
		memcpy(span->ids.trace, (uint64_t[]){ make_id(event, 1), make_id(event, 2) },
		       sizeof(span->ids.trace));
	span->ids.span = has_trace && event->span_id && !around && note_id(otlp, event->span_id) ?
			 event->span_id : make_id(event, 0);
	if (around && !memcmp(around->ids.trace, span->ids.trace, sizeof(span->ids.trace))) {
		span->ids.parent = around->ids.span;
	} else if (has_trace && span->ids.span == event->span_id) {
		span->ids.parent = caller_of(event);
		span->is_server = span->ids.parent;
	} else if (has_trace) {
		span->ids.parent = event->span_id;
	}
	if (around && span->ids.parent != around->ids.span)
		span->link = around->ids;
	if (related && related != around)
		span->link = related->ids;
}

static void put_id(struct rp_format_out *out, const char *key, uint64_t id)
{
	const uint64_t bytes = htobe64(id);

	rp_out_text(out, key);
	rp_out_hex(out, &bytes, sizeof(bytes));
	rp_out_char(out, '"');
}

static void put_trace_id(struct rp_format_out *out, const struct otlp_ids *ids)
{
	rp_out_text(out, "\"traceId\":\"");
	rp_out_hex(out, ids->trace, sizeof(ids->trace));
	rp_out_char(out, '"');
}

static void put_time(const struct otlp *otlp, struct rp_format_out *out, const char *key,
		     int64_t time_ns)
{
	const uint64_t utc_ns = (uint64_t)otlp->source->info.start_utc_ns + (uint64_t)time_ns;

	rp_out_text(out, key);
	rp_out_u64(out, (int64_t)utc_ns < 0 ? 0 : utc_ns);
	rp_out_char(out, '"');
}

/*
 * Write the attributes of a process: those that it published, then others. Keys are unique, and the
 * pairs of the trace are not about a process.
 */
static void put_resource(struct otlp *otlp, const struct rp_process_track *process, size_t begin)
{
	const struct rp_attribute_table *table = &otlp->attributes;
	const struct rp_attribute_process *own = rp_attribute_table_find(table, process->process);
	struct rp_format_out *text = &otlp->text;
	const char *key, *value;

	if (!rp_attribute_table_value(table, process->process, "service.name"))
		rp_otlp_text(text, begin, "service.name",
			     process->name ? process->name : "unknown_service");
	rp_otlp_i64(text, begin, "process.pid", (int64_t)process->process);
	if (table->host && !rp_attribute_table_value(table, process->process, "host.name"))
		rp_otlp_text(text, begin, "host.name", table->host);
	for (size_t i = 0; own && i < own->count; i++) {
		if (strcmp(own->rows[i].key, "process.pid") != 0)
			rp_otlp_attribute(text, begin, &own->rows[i]);
	}
	for (uint32_t i = 0;
	     rp_reader_get_key_value(otlp->source->reader, i, &key, &value) == 0; i++) {
		if (strcmp(key, "service.name") != 0 && strcmp(key, "process.pid") != 0 &&
		    (strcmp(key, "host.name") != 0 || !table->host) &&
		    !rp_attribute_table_value(table, process->process, key))
			rp_otlp_text(text, begin, key, value);
	}
}

static int open_line(struct otlp *otlp, const struct rp_thread_track *track,
		     const struct rp_span_name *name)
{
	struct rp_format_out *text = &otlp->text;

	text->used = 0;
	rp_out_text(text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	put_resource(otlp, track->owner, text->used);
	rp_out_text(text, "]},\"scopeSpans\":[{\"scope\":{\"name\":");
	rp_json_out_text(text, name->provider);
	rp_out_text(text, "},\"spans\":[");
	rp_out_append(otlp->out, text);
	otlp->process = track->owner;
	otlp->scope = name;
	otlp->line_spans = 0;
	return text->error;
}

static void close_line(struct otlp *otlp)
{
	if (otlp->process)
		rp_out_text(otlp->out, "]}]}]}\n");
	otlp->process = NULL;
}

/* Keep what is in the text with the span. Return: whether it is kept. */
static bool keep(struct otlp *otlp, struct rp_format_out *kept)
{
	const size_t bytes = otlp->text.used;

	if (bytes > KEPT_BYTES_MAX - otlp->kept_bytes)
		return false;
	rp_out_append(kept, &otlp->text);
	otlp->kept_bytes += bytes;
	return true;
}

static void release_span(void *user, void *data)
{
	struct otlp_span *span = user;
	struct otlp *otlp = data;

	otlp->kept_bytes -= span->attributes.used + span->events.used;
	rp_out_fini(&span->attributes);
	rp_out_fini(&span->events);
	free(span);
}

static int start_span(const struct rp_reader_event *event, const char **ret_text,
		      size_t *ret_bytes, void *data)
{
	struct otlp *otlp = data;
	struct otlp_span *span = calloc(1, sizeof(*span));
	struct rp_format_out *text = &otlp->text;

	if (!span)
		return -ENOMEM;
	*ret_text = NULL;
	*ret_bytes = 0;
	choose_ids(otlp, span, event);
	span->type = event->type;
	text->used = 0;
	rp_otlp_fields(text, 0, event, NULL);
	if (text->used)
		span->has_dropped = !keep(otlp, &span->attributes);
	otlp->tracks.user = span;
	return text->error ? text->error : span->attributes.error;
}

static void put_attributes(struct otlp *otlp, const struct rp_track_span *passed,
			   const struct otlp_span *kept)
{
	const struct rp_trace_span *span = passed->span;
	struct rp_format_out *text = &otlp->text;
	size_t begin;

	rp_out_text(text, ",\"attributes\":[");
	begin = text->used;
	rp_out_append(text, &kept->attributes);
	if (passed->stop)
		rp_otlp_fields(text, begin, passed->stop, kept->type);
	else
		rp_otlp_true(text, begin, "ringpipe.never_stopped");
	rp_otlp_i64(text, begin, "thread.id", (int64_t)span->thread);
	if (passed->track->name)
		rp_otlp_text(text, begin, "thread.name", passed->track->name);
	if (span->stop_thread != span->thread)
		rp_otlp_i64(text, begin, "ringpipe.stop_thread_id", (int64_t)span->stop_thread);
	rp_otlp_guid(text, begin, "ringpipe.activity", &span->activity);
	rp_otlp_guid(text, begin, "ringpipe.related_activity", &span->parent);
	rp_out_char(text, ']');
	if (kept->has_dropped)
		rp_out_text(text, ",\"droppedAttributesCount\":1");
}

static void put_events_and_links(struct rp_format_out *text, const struct otlp_span *kept)
{
	if (kept->event_count) {
		rp_out_text(text, ",\"events\":[");
		rp_out_append(text, &kept->events);
		rp_out_char(text, ']');
	}
	if (kept->dropped_events) {
		rp_out_text(text, ",\"droppedEventsCount\":");
		rp_out_u64(text, kept->dropped_events);
	}
	if (kept->link.span) {
		rp_out_text(text, ",\"links\":[{");
		put_trace_id(text, &kept->link);
		put_id(text, ",\"spanId\":\"", kept->link.span);
		rp_out_text(text, "}]");
	}
}

static int put_span(const struct rp_track_span *passed, void *data)
{
	struct otlp *otlp = data;
	const struct otlp_span *kept = passed->user;
	const struct rp_trace_span *span = passed->span;
	struct rp_format_out *text = &otlp->text;
	int ret = 0;

	if (otlp->process != passed->track->owner || otlp->line_spans >= LINE_SPANS ||
	    strcmp(otlp->scope->provider, span->name->provider) != 0) {
		close_line(otlp);
		ret = open_line(otlp, passed->track, span->name);
	}
	text->used = 0;
	rp_out_text(text, otlp->line_spans++ ? ",{" : "{");
	put_trace_id(text, &kept->ids);
	put_id(text, ",\"spanId\":\"", kept->ids.span);
	if (kept->ids.parent)
		put_id(text, ",\"parentSpanId\":\"", kept->ids.parent);
	rp_out_text(text, ",\"name\":");
	rp_json_out_text(text, span->name->name);
	rp_out_text(text, ",\"kind\":");
	rp_out_u64(text, kept->is_server ? KIND_SERVER : KIND_INTERNAL);
	put_time(otlp, text, ",\"startTimeUnixNano\":\"", span->start_ns);
	put_time(otlp, text, ",\"endTimeUnixNano\":\"", span->stop_ns);
	put_attributes(otlp, passed, kept);
	put_events_and_links(text, kept);
	rp_out_text(text, ",\"status\":{");
	if (span->has_error) {
		rp_out_text(text, "\"code\":");
		rp_out_u64(text, STATUS_ERROR);
	}
	rp_out_text(text, "}}");
	rp_out_append(otlp->out, text);
	return ret ? ret : text->error;
}

/* An event belongs to the open span with its activity id, or without one to the innermost span. */
static int put_instant(const struct rp_reader_event *event, struct rp_thread_track *track,
		       void *data)
{
	struct otlp *otlp = data;
	struct otlp_span *span = is_zero(&event->activity, sizeof(event->activity)) ?
		rp_span_tracks_innermost(&otlp->tracks) :
		rp_span_tracks_find(&otlp->tracks, &event->activity);
	struct rp_format_out *text = &otlp->text;
	char name[RP_SHOWN_NAME];
	size_t begin;

	(void)track;
	if (!span || rp_shown_not_at_all(event->type)) {
		otlp->omitted++;
		return 0;
	}
	text->used = 0;
	rp_out_text(text, span->event_count ? ",{" : "{");
	put_time(otlp, text, "\"timeUnixNano\":\"", event->time_ns);
	rp_out_text(text, ",\"name\":");
	rp_json_out_text(text, rp_shown_event_name(event->type, name));
	rp_out_text(text, ",\"attributes\":[");
	begin = text->used;
	rp_otlp_fields(text, begin, event, NULL);
	rp_out_text(text, "]}");
	if (span->event_count < SPAN_EVENTS_MAX && keep(otlp, &span->events))
		span->event_count++;
	else
		span->dropped_events++;
	return text->error ? text->error : span->events.error;
}

static int note_process(struct rp_process_track *process, void *data)
{
	struct otlp *otlp = data;

	/* The line has the old name. */
	if (otlp->process == process)
		close_line(otlp);
	return 0;
}

static int note_thread(struct rp_thread_track *track, void *data)
{
	(void)track, (void)data;
	return 0;
}

static const struct rp_track_calls calls = {
	.process = note_process, .thread = note_thread, .start = start_span, .span = put_span,
	.release = release_span, .instant = put_instant,
};

static void close_otlp(void *state)
{
	struct otlp *otlp = state;

	rp_span_tracks_fini(&otlp->tracks);
	rp_attribute_table_fini(&otlp->attributes);
	rp_out_fini(&otlp->text);
	free(otlp);
}

/* Later events of the trace may have attributes, so a file is read for them before. */
static int read_attributes(struct otlp *otlp)
{
	otlp->has_attributes = otlp->source->file && otlp->source->info.version > 4;
	return otlp->has_attributes ?
	       rp_attribute_table_read(&otlp->attributes, otlp->source->file) : 0;
}

static int open_otlp(const struct rp_format_source *source, struct rp_format_out *out,
		     void **ret_state)
{
	struct otlp *otlp = calloc(1, sizeof(*otlp));

	if (!otlp)
		return -ENOMEM;
	otlp->source = source;
	otlp->out = out;
	rp_span_tracks_init(&otlp->tracks, &calls, otlp);
	if (read_attributes(otlp) < 0) {
		close_otlp(otlp);
		return -ENOMEM;
	}
	*ret_state = otlp;
	return 0;
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct otlp *otlp = state;
	int ret = otlp->has_attributes ? 0 : rp_attribute_table_take(&otlp->attributes, event);

	if (ret > 0)
		close_line(otlp);
	return ret < 0 ? ret : rp_span_tracks_take(&otlp->tracks, event);
}

static int end_otlp(void *state)
{
	struct otlp *otlp = state;
	const int ret = rp_span_tracks_end(&otlp->tracks);
	char count[RP_TEXT_MAX];

	close_line(otlp);
	if (otlp->omitted)
		rp_tool_say(stderr, "convert: OTLP has no place for %s outside of spans",
			    rp_text_counted(otlp->omitted, "event", count));
	return ret;
}

const struct rp_format_writer rp_format_otlp = {
	.name = "otlp", .open = open_otlp, .event = take_event, .end = end_otlp,
	.close = close_otlp,
};
