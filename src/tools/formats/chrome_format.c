/* SPDX-License-Identifier: MIT */
/*
 * Chrome's JSON trace event format, which Perfetto and chrome://tracing show. Its description is
 * the document "Trace Event Format". Times are microseconds.
 *
 * A span that nests in its thread is a complete event ("X"); any other one is an asynchronous pair
 * ("b" and "e") with an id of its own. Both are written when the span stops, so the events of the
 * file are not in the order of time, which the format permits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "tools/cli/display_text.h"
#include "tools/formats/format_writer.h"
#include "tools/formats/json_out.h"
#include "tools/formats/shown_event.h"
#include "tools/formats/span_tracks.h"
#include "tools/trace/counter_sample.h"

/* Members that all events of a type have: name and category. */
struct chrome_type {
	struct rp_shown_type shown;
	struct chrome_type *next;
	size_t bytes;
	char members[];
};

struct chrome {
	struct rp_format_out *out;
	struct rp_format_out text;	/* of the span that starts */
	struct rp_format_out members;
	struct rp_span_tracks tracks;
	struct chrome_type *types;
	struct chrome_type **span_names;	/* by the index of the name; NULL: not made */
	size_t span_name_count, span_name_capacity;
	uint64_t async_count;
	bool has_rows;
};

static void begin_row(struct chrome *chrome, const char *phase)
{
	rp_out_text(chrome->out, chrome->has_rows ? ",\n{\"ph\":\"" : "{\"ph\":\"");
	rp_out_text(chrome->out, phase);
	rp_out_char(chrome->out, '"');
	chrome->has_rows = true;
}

static void put_track(struct chrome *chrome, const struct rp_thread_track *track)
{
	rp_out_text(chrome->out, ",\"pid\":");
	rp_json_out_u64(chrome->out, track->process);
	rp_out_text(chrome->out, ",\"tid\":");
	rp_json_out_u64(chrome->out, track->thread);
}

static void put_time(struct chrome *chrome, int64_t time_ns)
{
	rp_out_text(chrome->out, ",\"ts\":");
	rp_out_us(chrome->out, time_ns);
}

static struct chrome_type *make_type(struct chrome *chrome, const char *provider, const char *name)
{
	struct rp_format_out *members = &chrome->members;
	struct chrome_type *made;

	members->used = 0;
	rp_out_text(members, ",\"name\":");
	rp_json_out_text(members, name);
	rp_out_text(members, ",\"cat\":");
	rp_json_out_text(members, provider);
	made = members->error ? NULL : malloc(sizeof(*made) + members->used);
	if (!made)
		return NULL;
	*made = (struct chrome_type){ .next = chrome->types, .bytes = members->used };
	memcpy(made->members, members->buffer, members->used);
	chrome->types = made;
	return made;
}

static struct rp_shown_type *make_event_type(void *chrome, struct rp_reader_type *type,
					     const char *name)
{
	struct chrome_type *made = make_type(chrome, type->provider, name);

	return made ? &made->shown : NULL;
}

/* Return: the members of a span's events; NULL: no memory. */
static const struct chrome_type *members_of_span(struct chrome *chrome,
						 const struct rp_span_name *name)
{
	struct chrome_type **grown;

	if (name->index >= chrome->span_name_count) {
		const size_t missing = name->index + 1 - chrome->span_name_count;

		grown = rp_array_reserve(chrome->span_names, chrome->span_name_count,
					 &chrome->span_name_capacity, missing,
					 sizeof(struct chrome_type *));
		if (!grown)
			return NULL;
		for (size_t i = 0; i < missing; i++)
			grown[chrome->span_name_count + i] = NULL;
		chrome->span_names = grown;
		chrome->span_name_count = name->index + 1;
	}
	if (!chrome->span_names[name->index])
		chrome->span_names[name->index] = make_type(chrome, name->provider, name->name);
	return chrome->span_names[name->index];
}

static void put_name_row(struct chrome *chrome, const char *kind, uint64_t process,
			 const uint64_t *thread, const char *name)
{
	begin_row(chrome, "M");
	rp_out_text(chrome->out, ",\"name\":\"");
	rp_out_text(chrome->out, kind);
	rp_out_text(chrome->out, "\",\"pid\":");
	rp_json_out_u64(chrome->out, process);
	if (thread) {
		rp_out_text(chrome->out, ",\"tid\":");
		rp_json_out_u64(chrome->out, *thread);
	}
	rp_out_text(chrome->out, ",\"args\":{\"name\":");
	rp_json_out_text(chrome->out, name);
	rp_out_text(chrome->out, "}}");
}

static int put_process(struct rp_process_track *process, void *data)
{
	if (process->name)
		put_name_row(data, "process_name", process->process, NULL, process->name);
	return 0;
}

static int put_thread(struct rp_thread_track *track, void *data)
{
	if (track->name)
		put_name_row(data, "thread_name", track->process, &track->thread, track->name);
	return 0;
}

/* Counters have one track each, by their process and name. */
static bool put_counter(struct chrome *chrome, const struct rp_reader_event *event,
			const struct rp_thread_track *track)
{
	struct rp_counter_sample sample;
	char name[sizeof(sample.provider) + sizeof(sample.name) + sizeof(sample.tags) + 4];

	if (rp_counter_decode(event, 0, &sample) != RP_COUNTER_SAMPLE)
		return false;
	snprintf(name, sizeof(name), "%s/%s%s%s", sample.provider, sample.name,
		 *sample.tags ? " " : "", sample.tags);
	begin_row(chrome, "C");
	rp_out_text(chrome->out, ",\"name\":");
	rp_json_out_text(chrome->out, name);
	put_track(chrome, track);
	put_time(chrome, event->time_ns);
	rp_out_text(chrome->out, ",\"args\":{");
	if (sample.form != RP_COUNTER_SPREAD) {
		rp_out_text(chrome->out, "\"value\":");
		rp_json_out_double(chrome->out, sample.value, false);
	} else {
		rp_out_text(chrome->out, "\"count\":");
		rp_json_out_u64(chrome->out, sample.count);
	}
	for (uint32_t i = 0; i < sample.quantile_count; i++) {
		rp_out_text(chrome->out, ",\"p");
		rp_json_out_double(chrome->out, 100 * sample.quantiles[i].at, true);
		rp_out_text(chrome->out, "\":");
		rp_json_out_double(chrome->out, sample.quantiles[i].value, false);
	}
	rp_out_text(chrome->out, "}}");
	return true;
}

static int put_instant(const struct rp_reader_event *event, struct rp_thread_track *track,
		       void *data)
{
	struct chrome *chrome = data;
	const struct chrome_type *type =
		(struct chrome_type *)rp_shown_type_of(event->type, make_event_type, chrome);

	if (!type)
		return -ENOMEM;
	if (type->shown.is_omitted || (type->shown.is_counter && put_counter(chrome, event, track)))
		return 0;
	begin_row(chrome, "i");
	rp_out_text(chrome->out, ",\"s\":\"t\"");
	rp_out_bytes(chrome->out, type->members, type->bytes);
	put_track(chrome, track);
	put_time(chrome, event->time_ns);
	rp_out_text(chrome->out, ",\"args\":{\"fields\":");
	rp_json_out_fields(chrome->out, event);
	rp_json_out_guid_member(chrome->out, ",\"activity\":", &event->activity);
	rp_json_out_guid_member(chrome->out, ",\"related_activity\":", &event->related_activity);
	rp_json_out_trace_ids(chrome->out, event->trace_id, event->span_id);
	rp_out_text(chrome->out, "}}");
	return 0;
}

static int keep_start(const struct rp_reader_event *event, const char **ret_text,
		      size_t *ret_bytes, void *data)
{
	struct chrome *chrome = data;

	chrome->text.used = 0;
	rp_json_out_fields(&chrome->text, event);
	*ret_text = chrome->text.buffer;
	*ret_bytes = chrome->text.used;
	return chrome->text.error;
}

static void put_span_args(struct chrome *chrome, const struct rp_track_span *passed)
{
	const struct rp_trace_span *span = passed->span;

	rp_out_text(chrome->out, ",\"args\":{\"fields\":");
	if (passed->text)
		rp_out_bytes(chrome->out, passed->text, passed->text_bytes);
	else
		rp_out_text(chrome->out, "{}");
	if (passed->stop && passed->stop->type->field_count) {
		rp_out_text(chrome->out, ",\"stop_fields\":");
		rp_json_out_fields(chrome->out, passed->stop);
	}
	if (!passed->stop)
		rp_out_text(chrome->out, ",\"never_stopped\":true");
	if (span->has_error)
		rp_out_text(chrome->out, ",\"error\":true");
	if (span->stop_thread != span->thread) {
		rp_out_text(chrome->out, ",\"stop_thread_id\":");
		rp_json_out_u64(chrome->out, span->stop_thread);
	}
	rp_json_out_guid_member(chrome->out, ",\"activity\":", &span->activity);
	rp_json_out_guid_member(chrome->out, ",\"parent_activity\":", &span->parent);
	rp_json_out_trace_ids(chrome->out, span->trace_id, span->span_id);
	rp_out_char(chrome->out, '}');
}

static void begin_async_row(struct chrome *chrome, const char *phase,
			    const struct chrome_type *type, const struct rp_track_span *passed,
			    int64_t time_ns)
{
	begin_row(chrome, phase);
	rp_out_bytes(chrome->out, type->members, type->bytes);
	rp_out_text(chrome->out, ",\"id\":\"");
	rp_out_u64(chrome->out, chrome->async_count);
	rp_out_char(chrome->out, '"');
	put_track(chrome, passed->track);
	put_time(chrome, time_ns);
}

static int put_span(const struct rp_track_span *passed, void *data)
{
	struct chrome *chrome = data;
	const struct rp_trace_span *span = passed->span;
	const struct chrome_type *type = members_of_span(chrome, span->name);
	const uint64_t duration = (uint64_t)span->stop_ns - (uint64_t)span->start_ns;

	if (!type)
		return -ENOMEM;
	if (passed->nests) {
		begin_row(chrome, "X");
		rp_out_bytes(chrome->out, type->members, type->bytes);
		put_track(chrome, passed->track);
		put_time(chrome, span->start_ns);
		rp_out_text(chrome->out, ",\"dur\":");
		rp_out_us(chrome->out, duration > INT64_MAX ? INT64_MAX : (int64_t)duration);
	} else {
		chrome->async_count++;
		begin_async_row(chrome, "b", type, passed, span->start_ns);
	}
	put_span_args(chrome, passed);
	rp_out_char(chrome->out, '}');
	if (!passed->nests) {
		begin_async_row(chrome, "e", type, passed, span->stop_ns);
		rp_out_char(chrome->out, '}');
	}
	return 0;
}

static void put_flow_row(struct chrome *chrome, const char *phase,
			 const struct rp_track_flow *flow, const struct rp_thread_track *track)
{
	begin_row(chrome, phase);
	rp_out_text(chrome->out, ",\"name\":\"child\",\"cat\":\"activity\",\"id\":");
	rp_out_u64(chrome->out, flow->number);
	put_track(chrome, track);
	put_time(chrome, flow->time_ns);
	rp_out_char(chrome->out, '}');
}

static int put_flow(const struct rp_track_flow *flow, void *data)
{
	put_flow_row(data, "s", flow, flow->from);
	/* "bp":"e" makes the flow end at the span that begins at this time. */
	put_flow_row(data, "f\",\"bp\":\"e", flow, flow->to);
	return 0;
}

static const struct rp_track_calls calls = {
	.process = put_process, .thread = put_thread, .start = keep_start, .span = put_span,
	.flow = put_flow, .instant = put_instant,
};

static void close_chrome(void *state)
{
	struct chrome *chrome = state;

	rp_span_tracks_fini(&chrome->tracks);
	while (chrome->types) {
		struct chrome_type *type = chrome->types;

		chrome->types = type->next;
		free(type);
	}
	free(chrome->span_names);
	rp_out_fini(&chrome->text);
	rp_out_fini(&chrome->members);
	free(chrome);
}

static int open_chrome(const struct rp_format_source *source, struct rp_format_out *out,
		       void **ret_state)
{
	struct chrome *chrome = calloc(1, sizeof(*chrome));
	char utc[RP_TEXT_MAX];

	if (!chrome)
		return -ENOMEM;
	chrome->out = out;
	rp_span_tracks_init(&chrome->tracks, &calls, chrome);
	rp_out_text(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"start_utc\":");
	rp_json_out_text(out, rp_text_utc_ns(source->info.start_utc_ns, utc));
	rp_out_text(out, "},\"traceEvents\":[\n");
	*ret_state = chrome;
	return 0;
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct chrome *chrome = state;

	return rp_span_tracks_take(&chrome->tracks, event);
}

static int end_chrome(void *state)
{
	struct chrome *chrome = state;
	int ret = rp_span_tracks_end(&chrome->tracks);

	rp_out_text(chrome->out, "\n]}\n");
	return ret;
}

const struct rp_format_writer rp_format_chrome = {
	.name = "chrome", .open = open_chrome, .event = take_event, .end = end_chrome,
	.close = close_chrome,
};
