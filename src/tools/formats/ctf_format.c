/* SPDX-License-Identifier: MIT */
/*
 * The Common Trace Format (CTF) 1.8: a folder, which babeltrace2 and Trace Compass read.
 *
 * The component sink.ctf.fs of libbabeltrace2 writes the folder. Its messages come from a source
 * component in this file: each event is queued as a message, and the graph of the two components
 * runs whenever the queue has as many messages as the sink takes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/formats/ctf_context.h"
#include "tools/formats/ctf_fields.h"
#include "tools/formats/ctf_streams.h"
#include "tools/formats/format_folder.h"
#include "tools/formats/format_writer.h"
#include "tools/formats/shown_event.h"

#define NS_PER_S 1000000000
#define BATCH 15u		/* messages that a component takes from another in one call */
#define GROWTH_BYTES 32768u	/* by which the sink extends its files */
#define METADATA_BYTES 65536u	/* more than the metadata has without its types */
#define METADATA_TYPE_BYTES 4096u	/* more than the metadata has of most types */

struct ctf {
	const struct rp_format_source *source;
	struct rp_format_out *out;
	struct rp_format_out text;
	struct rp_ctf_streams streams;
	bt_graph *graph;
	bt_trace_class *trace_class;
	bt_clock_class *clock;
	uint64_t lost;			/* events, up to the last event */
	uint64_t types;			/* that the metadata describes */
	bool has_failed;		/* the sink could not write */
	bool is_ended;			/* the queue gets no further messages */
};

static bt_message_iterator_class_next_method_status take_messages(
	bt_self_message_iterator *iterator, bt_message_array_const messages, uint64_t capacity,
	uint64_t *count)
{
	struct ctf *ctf = bt_self_component_get_data(
		bt_self_message_iterator_borrow_component(iterator));

	*count = rp_ctf_streams_take(&ctf->streams, messages, capacity);
	if (*count)
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	return ctf->is_ended ? BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END :
			       BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_AGAIN;
}

static bt_message_iterator_class_initialize_method_status begin_messages(
	bt_self_message_iterator *iterator, bt_self_message_iterator_configuration *configuration,
	bt_self_component_port_output *port)
{
	struct ctf *ctf = bt_self_component_get_data(
		bt_self_message_iterator_borrow_component(iterator));

	(void)configuration, (void)port;
	ctf->streams.iterator = iterator;
	return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

/* The clock counts nanoseconds since the start of the recording. */
static bt_clock_class *make_clock(const struct ctf *ctf, bt_self_component *component)
{
	const int64_t start_ns = ctf->source->info.start_utc_ns;
	const int64_t seconds = start_ns / NS_PER_S - (start_ns % NS_PER_S < 0);
	bt_clock_class *clock = bt_clock_class_create(component);

	if (!clock || bt_clock_class_set_name(clock, "trace")) {
		bt_clock_class_put_ref(clock);
		return NULL;
	}
	bt_clock_class_set_frequency(clock, NS_PER_S);
	bt_clock_class_set_offset(clock, seconds, (uint64_t)(start_ns - seconds * NS_PER_S));
	return clock;
}

/* Make the class of the streams. Return: 0; -ENOMEM. */
static int make_stream_class(struct ctf *ctf, bool has_context)
{
	bt_stream_class *class = bt_stream_class_create(ctf->trace_class);
	bt_field_class *context = has_context ? rp_ctf_context_class(ctf->trace_class) : NULL;
	int ret = !class || (has_context && !context) ||
		  bt_stream_class_set_default_clock_class(class, ctf->clock) ? -ENOMEM : 0;

	if (ret == 0 && context &&
	    bt_stream_class_set_event_common_context_field_class(class, context))
		ret = -ENOMEM;
	if (ret == 0) {
		bt_stream_class_set_supports_packets(class, true, true, true);
		bt_stream_class_set_supports_discarded_events(class, true, true);
	}
	bt_field_class_put_ref(context);
	bt_stream_class_put_ref(ctf->streams.class);
	ctf->streams.class = class;
	return ret;
}

static bt_component_class_initialize_method_status begin_source(
	bt_self_component_source *self, bt_self_component_source_configuration *configuration,
	const bt_value *parameters, void *data)
{
	bt_self_component *component = bt_self_component_source_as_self_component(self);
	struct ctf *ctf = data;

	(void)configuration, (void)parameters;
	bt_self_component_set_data(component, ctf);
	ctf->trace_class = bt_trace_class_create(component);
	ctf->clock = make_clock(ctf, component);
	if (!ctf->trace_class || !ctf->clock || make_stream_class(ctf, true) < 0)
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
	ctf->streams.trace = bt_trace_create(ctf->trace_class);
	if (!ctf->streams.trace ||
	    bt_trace_set_environment_entry_string(ctf->streams.trace, "tracer_name", "ringpipe") ||
	    bt_trace_set_environment_entry_integer(ctf->streams.trace, "process_id",
						   ctf->source->info.process_id) ||
	    bt_self_component_source_add_output_port(self, "out", NULL, NULL))
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static const bt_component_source *add_source(struct ctf *ctf)
{
	bt_message_iterator_class *iterator = bt_message_iterator_class_create(take_messages);
	bt_component_class_source *class = NULL;
	const bt_component_source *source = NULL;

	if (iterator && !bt_message_iterator_class_set_initialize_method(iterator, begin_messages))
		class = bt_component_class_source_create("ringpipe", iterator);
	if (class && !bt_component_class_source_set_initialize_method(class, begin_source))
		(void)bt_graph_add_source_component_with_initialize_method_data(
			ctf->graph, class, "events", NULL, ctf, BT_LOGGING_LEVEL_NONE, &source);
	bt_component_class_source_put_ref(class);
	bt_message_iterator_class_put_ref(iterator);
	return source;
}

/* Version 2.1 of the library writes CTF 2 by default, which needs another protocol of messages. */
static bool has_versions(void)
{
	return bt_version_get_major() > 2 || bt_version_get_minor() > 0;
}

/* Return: 0; -EOPNOTSUPP: the library's plugin is not installed; -ENOMEM. */
static int add_sink(struct ctf *ctf, const bt_component_sink **ret_sink)
{
	const bt_component_class_sink *class;
	bt_value *parameters = bt_value_map_create();
	const bt_plugin *plugin = NULL;
	int ret = -EOPNOTSUPP;

	if (!parameters ||
	    bt_value_map_insert_string_entry(parameters, "path", ctf->source->folder) ||
	    bt_value_map_insert_bool_entry(parameters, "assume-single-trace", true) ||
	    bt_value_map_insert_bool_entry(parameters, "quiet", true) ||
	    (has_versions() &&
	     bt_value_map_insert_string_entry(parameters, "ctf-version", "1.8"))) {
		bt_value_put_ref(parameters);
		return -ENOMEM;
	}
	if (!bt_plugin_find("ctf", true, true, true, false, false, &plugin)) {
		class = bt_plugin_borrow_sink_component_class_by_name_const(plugin, "fs");
		ret = class && !bt_graph_add_sink_component(ctf->graph, class, "folder",
							    parameters, BT_LOGGING_LEVEL_NONE,
							    ret_sink) ? 0 : -EOPNOTSUPP;
	}
	bt_plugin_put_ref(plugin);
	bt_value_put_ref(parameters);
	return ret;
}

/*
 * The library does not report the cause of a failure. Its calls of posix_fallocate(3) do not set
 * errno; other system calls do. Return: -errno.
 */
static int find_cause(const struct ctf *ctf, int last_errno)
{
	const int ret = rp_format_folder_extend(ctf->source->folder, GROWTH_BYTES);

	if (ret && ret != -ENOENT)
		return ret;
	return last_errno ? -last_errno : -EIO;
}

static void fail(struct ctf *ctf, int error)
{
	ctf->out->error = error;
	ctf->has_failed = true;
}

/* Let the sink take the messages of the queue. A failure to write is in out->error. */
static void run_graph(struct ctf *ctf)
{
	bt_graph_run_once_status status;

	do {
		errno = 0;
		status = bt_graph_run_once(ctf->graph);
	} while (status == BT_GRAPH_RUN_ONCE_STATUS_OK &&
		 (ctf->is_ended || ctf->streams.first < ctf->streams.queued));
	if (status < 0) {
		fail(ctf, find_cause(ctf, errno));
		bt_current_thread_clear_error();
	}
}

static int connect_components(struct ctf *ctf)
{
	const bt_component_source *source = add_source(ctf);
	const bt_component_sink *sink = NULL;
	int ret = source ? add_sink(ctf, &sink) : -ENOMEM;

	if (ret)
		return ret;
	return bt_graph_connect_ports(
		ctf->graph, bt_component_source_borrow_output_port_by_index_const(source, 0),
		bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL) ? -ENOMEM : 0;
}

/* The reference shows the leak checker that the memory is kept. */
static struct ctf *failed __attribute__((used));

static void close_ctf(void *state)
{
	struct ctf *ctf = state;
	bt_stream_class *class = ctf->streams.class;
	bt_trace *trace = ctf->streams.trace;

	/* The sink of version 2.0.4 crashes when it is destroyed after a failure to write. */
	if (ctf->has_failed) {
		failed = ctf;
		return;
	}
	/* The sink writes the metadata when nothing uses the trace any longer. */
	rp_ctf_streams_fini(&ctf->streams);
	bt_trace_put_ref(trace);
	bt_stream_class_put_ref(class);
	bt_clock_class_put_ref(ctf->clock);
	bt_trace_class_put_ref(ctf->trace_class);
	bt_graph_put_ref(ctf->graph);
	bt_current_thread_clear_error();
	rp_out_fini(&ctf->text);
	if (!ctf->out->error)
		ctf->out->written = rp_format_folder_bytes(ctf->source->folder);
	free(ctf);
}

static int open_ctf(const struct rp_format_source *source, struct rp_format_out *out,
		    void **ret_state)
{
	struct ctf *ctf = calloc(1, sizeof(*ctf));
	int ret;

	if (!ctf)
		return -ENOMEM;
	ctf->source = source;
	ctf->out = out;
	ctf->graph = bt_graph_create(0);
	ret = ctf->graph ? connect_components(ctf) : -ENOMEM;
	if (ret == 0)
		run_graph(ctf);
	else if (ret == -EOPNOTSUPP)
		rp_tool_error("convert: the plugin ctf of libbabeltrace2 is missing");
	if (ret == 0 && !ctf->streams.iterator)
		ret = -ENOMEM;
	if (ret) {
		out->error = ret;
		close_ctf(ctf);
		return ret;
	}
	*ret_state = ctf;
	return 0;
}

static bt_event_class_log_level log_level_of(uint32_t level)
{
	static const bt_event_class_log_level levels[] = {
		[RP_LEVEL_LOG_ALWAYS] = BT_EVENT_CLASS_LOG_LEVEL_NOTICE,
		[RP_LEVEL_CRITICAL] = BT_EVENT_CLASS_LOG_LEVEL_CRITICAL,
		[RP_LEVEL_ERROR] = BT_EVENT_CLASS_LOG_LEVEL_ERROR,
		[RP_LEVEL_WARNING] = BT_EVENT_CLASS_LOG_LEVEL_WARNING,
		[RP_LEVEL_INFORMATIONAL] = BT_EVENT_CLASS_LOG_LEVEL_INFO,
		[RP_LEVEL_VERBOSE] = BT_EVENT_CLASS_LOG_LEVEL_DEBUG,
	};

	return level < sizeof(levels) / sizeof(levels[0]) ? levels[level] :
							    BT_EVENT_CLASS_LOG_LEVEL_DEBUG;
}

/* Name the class PROVIDER:EVENT, without control characters. Return: 0; -ENOMEM. */
static int name_class(bt_event_class *class, const struct rp_reader_type *type)
{
	char *clean, *name, buffer[RP_SHOWN_NAME];
	int ret;

	if (asprintf(&name, "%s:%s", type->provider, rp_shown_event_name(type, buffer)) < 0)
		return -ENOMEM;
	clean = rp_text_clean(name, true);
	free(name);
	ret = !clean || bt_event_class_set_name(class, clean) ? -ENOMEM : 0;
	free(clean);
	return ret;
}

/* Return: the class of the type's events; NULL: no memory. */
static const bt_event_class *class_of(struct ctf *ctf, struct rp_reader_type *type)
{
	bt_event_class *class = type->user;
	bt_field_class *payload;
	int ret = -ENOMEM;

	if (class)
		return class;
	class = bt_event_class_create(ctf->streams.class);
	payload = rp_ctf_event_class(ctf->trace_class, type);
	if (class && payload)
		ret = name_class(class, type);
	if (ret == 0 && bt_event_class_set_payload_field_class(class, payload))
		ret = -ENOMEM;
	if (ret == 0)
		bt_event_class_set_log_level(class, log_level_of(type->level));
	bt_field_class_put_ref(payload);
	/* The class of the streams has a reference, too. */
	bt_event_class_put_ref(class);
	if (ret == 0) {
		type->user = class;
		ctf->types++;
	}
	return type->user;
}

/* Return: the time of the event on the trace's clock, which the clock of CTF can have. */
static uint64_t time_of(struct ctf *ctf, const struct rp_reader_event *event)
{
	const int64_t start_ns = ctf->source->info.start_utc_ns;
	const int64_t most = start_ns > 0 ? INT64_MAX - start_ns : INT64_MAX;

	if (event->time_ns >= 0 && event->time_ns <= most)
		return (uint64_t)event->time_ns;
	ctf->streams.changed_times++;
	return event->time_ns < 0 ? 0 : (uint64_t)most;
}

static uint64_t count_lost(struct ctf *ctf)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t lost;

	rp_reader_get_stats(ctf->source->reader, &stats);
	lost = stats.lost - ctf->lost;
	ctf->lost = stats.lost;
	return lost;
}

static int set_event(struct ctf *ctf, bt_event *made, const struct rp_reader_event *event)
{
	struct rp_ctf_about about = {
		.process = event->process, .pointer_bytes = ctf->source->info.pointer_bytes,
	};
	int ret = rp_ctf_fields_set(bt_event_borrow_payload_field(made), event, &ctf->text,
				    &about.is_truncated);

	return ret ? ret : rp_ctf_context_set(bt_event_borrow_common_context_field(made), event,
					      &about, &ctf->text);
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct ctf *ctf = state;
	const bt_event_class *class;
	bt_event *made;
	int ret;

	class = class_of(ctf, event->type);
	made = class ? rp_ctf_streams_add(&ctf->streams, class, event->processor,
					  time_of(ctf, event), count_lost(ctf)) : NULL;
	if (!made)
		return -ENOMEM;
	ret = set_event(ctf, made, event);
	if (ret == 0 && ctf->streams.queued - ctf->streams.first >= BATCH)
		run_graph(ctf);
	return ret;
}

/* The sink of version 2.0.4 aborts the process if it cannot write the metadata, which is last. */
static void check_space(struct ctf *ctf)
{
	const int ret = rp_format_folder_check_space(
		ctf->source->folder, METADATA_BYTES + METADATA_TYPE_BYTES * ctf->types);

	if (ret)
		fail(ctf, ret);
}

static int end_ctf(void *state)
{
	struct ctf *ctf = state;
	char count[RP_TEXT_MAX];

	if (ctf->out->error)
		return 0;
	/* babeltrace2 reads no class of streams that has a context and no events. */
	if (!ctf->streams.count && make_stream_class(ctf, false) < 0)
		return -ENOMEM;
	rp_ctf_streams_end(&ctf->streams, count_lost(ctf));
	ctf->is_ended = true;
	if (!ctf->streams.error)
		run_graph(ctf);
	if (!ctf->out->error)
		check_space(ctf);
	if (ctf->streams.changed_times)
		rp_tool_error("convert: %s of the events have another time in the CTF trace, "
			      "which cannot have theirs",
			      rp_text_count(ctf->streams.changed_times, count));
	return ctf->streams.error;
}

const struct rp_format_writer rp_format_ctf = {
	.name = "ctf", .is_folder = true, .open = open_ctf, .event = take_event, .end = end_ctf,
	.close = close_ctf,
};
