/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_convert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nettrace/metadata.h"
#include "tools/cli/display_text.h"
#include "tools/trace/system_event.h"
#include "tools/trace/trace_merge.h"
#include "tools/trace/trace_restore.h"
#include "tools/trace/trace_writer.h"

#define TICK_EVENTS 4096u

/* Fits a block of version 6. */
#define PAYLOAD_MAX (4u << 20)

/* A type of the other trace, with the attributes that labels gave some of its events. */
struct kind {
	struct kind *next;
	struct kind *all;		/* for free() */
	struct rp_trace_attributes attributes;
	uint32_t metadata_id;
	bool is_rewritten;
};

struct rp_trace_convert {
	struct rp_reader *reader;
	struct rp_reader_event event;
	struct rp_trace_writer writer;
	enum rp_trace_form form;
	bool adds;			/* from version 6 to 4 */
	bool restores;			/* from version 4 to 6 */
	bool holds;			/* from version 4 to 4: the labels of an event */
	bool is_begun;			/* the head is written */
	struct rp_trace_restore restore;
	struct kind *kinds;
	struct rp_outbuf payload, text;
	uint32_t added_ids[RP_TRACE_ADDED_COUNT];
	struct rp_thread_table processes; /* processes that ProcessTraced states */
	struct rp_thread_table threads;	/* thread -> its process, unless that is the trace's */
	struct rp_thread_table names;	/* threads whose name is stated -> its hash */
	uint64_t lost, points;		/* of the stats, as far as written */
	uint64_t lost_before;		/* of `lost`, the events lost just before the event */
	uint32_t function_id;		/* of the functions that were added; 0: none was */
	struct rp_trace_convert_result *result;
};

static int define_added(struct rp_trace_convert *convert, enum rp_trace_added kind)
{
	struct rp_outbuf blob = { 0 };
	int ret;

	if (convert->added_ids[kind])
		return 0;
	convert->added_ids[kind] = rp_trace_writer_take_id(&convert->writer);
	rp_metadata_write(&blob, convert->added_ids[kind], &rp_trace_added_definitions[kind]);
	ret = rp_trace_writer_put_definition(&convert->writer, &blob);
	rp_outbuf_fini(&blob);
	return ret;
}

/* Write an event, whose payload is in convert->text, on the thread of the current event. */
static int put_added(struct rp_trace_convert *convert, enum rp_trace_added kind)
{
	int ret = define_added(convert, kind);
	const struct rp_trace_writer_event added = {
		.from = &convert->event, .metadata_id = convert->added_ids[kind],
		.is_added = true, .payload = convert->text.bytes,
		.payload_bytes = convert->text.size,
	};

	if (ret == 0)
		ret = convert->text.failed ? -ENOMEM :
		      rp_trace_writer_event(&convert->writer, &added);
	convert->result->added += !ret;
	convert->text.size = 0;
	return ret;
}

static int add_label(struct rp_trace_convert *convert, uint8_t kind, const char *key,
		     const char *value)
{
	rp_outbuf_put_text16(&convert->text, key);
	rp_outbuf_put_text16(&convert->text, value);
	rp_outbuf_put_u8(&convert->text, kind);
	return put_added(convert, RP_TRACE_ADDED_LABEL);
}

/* Whether the header of version 4 has the value, or its readers assume it. */
static bool is_in_header(const char *key, const char *value)
{
	if (!strcmp(key, RP_TRACE_KEY_PAGE_SIZE))
		return !strcmp(value, "4096");
	return !strcmp(key, RP_TRACE_KEY_PROCESSORS) || !strcmp(key, RP_TRACE_KEY_PROCESS) ||
	       !strcmp(key, RP_TRACE_KEY_SAMPLING);
}

static int add_key_values(struct rp_trace_convert *convert)
{
	const char *key, *value;
	int ret = 0;

	for (uint32_t i = 0; !ret && !rp_reader_get_key_value(convert->reader, i, &key, &value);
	     i++) {
		if (is_in_header(key, value))
			continue;
		rp_outbuf_put_text16(&convert->text, key);
		rp_outbuf_put_text16(&convert->text, value);
		ret = put_added(convert, RP_TRACE_ADDED_KEY_VALUE);
	}
	return ret;
}

/* Return: whether the ids of the event also have its trace id and span id. */
static bool has_ids_of_trace(const struct rp_reader_event *event)
{
	static const uint8_t none[16];
	const uint64_t span = __builtin_bswap64(event->span_id);

	return (!memcmp(event->trace_id, none, 16) ||
		!memcmp(event->trace_id, event->activity.bytes, 16)) &&
	       (!span || !memcmp(event->related_activity.bytes + 8, &span, 8));
}

static int add_labels(struct rp_trace_convert *convert)
{
	const struct rp_reader_event *event = &convert->event;
	char text[40];
	int ret = 0;

	if (!has_ids_of_trace(event)) {
		rp_text_hex(event->trace_id, 16, text);
		ret = add_label(convert, RP_LABEL_TRACE_ID, "trace_id", text);
		snprintf(text, sizeof(text), "%016" PRIx64, event->span_id);
		if (!ret && event->span_id)
			ret = add_label(convert, RP_LABEL_SPAN_ID, "span_id", text);
	}
	for (uint32_t i = 0; !ret && i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];

		snprintf(text, sizeof(text), "%" PRId64, label->number);
		ret = add_label(convert, label->text ? RP_LABEL_TEXT : RP_LABEL_NUMBER, label->key,
				label->text ? label->text : text);
	}
	return ret;
}

static int add_name(struct rp_trace_convert *convert)
{
	const char *name = convert->event.thread_name;
	struct rp_thread_slot *slot;
	uint32_t hash = 1;
	int ret;

	if (!*name)
		return 0;
	for (const char *at = name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x01000193u;
	ret = rp_thread_table_add(&convert->names, convert->event.thread, &slot);
	if (ret || slot->sequence == (hash | 1))
		return ret;
	slot->sequence = hash | 1;
	rp_outbuf_put_u64(&convert->text, convert->event.thread);
	rp_outbuf_put_text16(&convert->text, name);
	return put_added(convert, RP_TRACE_ADDED_THREAD_NAME);
}

static bool is_event(const struct rp_reader_event *event, const char *provider, uint32_t id)
{
	return event->type->id == id && !strcmp(event->type->provider, provider);
}

/* The name that an event ExistingProcess or ProcessCreate has for its process, or "". */
static void find_name(const struct rp_reader_event *event, char *name, size_t size)
{
	struct rp_cursor c = rp_cursor_over(event->payload, event->payload_bytes);
	const uint8_t *text;
	uint64_t number;
	uint16_t bytes;

	*name = '\0';
	if ((is_event(event, RP_SYSTEM_PROVIDER, RP_SYSTEM_EXISTING_PROCESS) ||
	     is_event(event, RP_SYSTEM_PROVIDER, RP_SYSTEM_PROCESS_CREATE)) &&
	    rp_cursor_varint(&c, &number) == 0 && rp_cursor_u16(&c, &bytes) == 0 &&
	    rp_cursor_take(&c, bytes, &text) == 0)
		snprintf(name, size, "%.*s", (int)bytes, (const char *)text);
}

/* ProcessTraced of the event's process, unless the trace has it or has one process only. */
static int add_process(struct rp_trace_convert *convert, uint32_t process)
{
	struct rp_thread_slot *slot;
	char name[256];
	int ret = rp_thread_table_add(&convert->processes, process, &slot);

	if (ret || slot->marked)
		return ret;
	slot->marked = 1;
	find_name(&convert->event, name, sizeof(name));
	rp_outbuf_put_u32(&convert->text, process);
	rp_outbuf_put_u32(&convert->text, 0);
	rp_outbuf_put_text16(&convert->text, name);
	rp_outbuf_put_text16(&convert->text, "");
	return put_added(convert, RP_TRACE_ADDED_PROCESS);
}

static uint32_t *process_of(struct rp_trace_convert *convert, uint64_t thread)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&convert->threads, thread);

	if (slot)
		return &slot->sequence;
	if (rp_thread_table_add(&convert->threads, thread, &slot) < 0)
		return NULL;
	slot->sequence = convert->reader->info.process_id;
	return &slot->sequence;
}

/*
 * The other trace may have these events, for example because it was converted before. Sets
 * `*ret_process` for a ProcessTraced, which comes before the process of its thread is known.
 */
static int follow_added(struct rp_trace_convert *convert, uint64_t *ret_process)
{
	const struct rp_reader_event *event = &convert->event;
	struct rp_cursor c = rp_cursor_over(event->payload, event->payload_bytes);
	struct rp_thread_slot *slot;
	uint64_t thread = 0;
	uint32_t process, *known;
	int ret = 0;

	if (!event->payload_bytes)
		return 0;
	if (is_event(event, RP_TRACE_MERGE_PROVIDER, RP_TRACE_MERGE_PROCESS) &&
	    rp_cursor_u32(&c, &process) == 0) {
		ret = rp_thread_table_add(&convert->processes, process, &slot);
		if (ret == 0)
			slot->marked = 1;
		*ret_process = process;
	} else if (is_event(event, RP_TRACE_MERGE_PROVIDER, RP_TRACE_MERGE_THREAD) &&
		   rp_cursor_u64(&c, &thread) == 0 && rp_cursor_u32(&c, &process) == 0) {
		known = process_of(convert, thread);
		if (!known)
			return -ENOMEM;
		*known = process;
	}
	return ret;
}

static int add_thread(struct rp_trace_convert *convert, uint32_t process)
{
	uint32_t *known = process_of(convert, convert->event.thread);
	int ret;

	if (!known)
		return -ENOMEM;
	if (*known == process)
		return 0;
	*known = process;
	ret = add_process(convert, process);
	if (ret)
		return ret;
	rp_outbuf_put_u64(&convert->text, convert->event.thread);
	rp_outbuf_put_u32(&convert->text, process);
	return put_added(convert, RP_TRACE_ADDED_THREAD);
}

/* Find the process of the event, and in version 4 state what only version 6 has. */
static int state_context(struct rp_trace_convert *convert, uint64_t *ret_process)
{
	const bool from_v6 = convert->reader->info.version == RP_NETTRACE_V6;
	const uint32_t *known;
	int ret;

	*ret_process = convert->event.process;
	ret = follow_added(convert, ret_process);
	if (ret)
		return ret;
	if (!from_v6 && convert->threads.count &&
	    !is_event(&convert->event, RP_TRACE_MERGE_PROVIDER, RP_TRACE_MERGE_PROCESS)) {
		known = process_of(convert, convert->event.thread);
		*ret_process = known ? *known : 0;
		return known ? 0 : -ENOMEM;
	}
	if (!convert->adds)
		return 0;
	/* Readers know a process from its ProcessTraced on. */
	if (!is_event(&convert->event, RP_TRACE_MERGE_PROVIDER, RP_TRACE_MERGE_PROCESS))
		ret = add_thread(convert, (uint32_t)convert->event.process);
	if (ret == 0)
		ret = add_name(convert);
	return ret ? ret : add_labels(convert);
}

static int create_kind(struct rp_trace_convert *convert,
		       const struct rp_trace_attributes *attributes, struct kind **ret_kind)
{
	struct rp_reader_type *type = convert->event.type;
	struct kind *kind = calloc(1, sizeof(*kind));
	struct rp_outbuf blob = { 0 };
	int ret;

	if (!kind)
		return -ENOMEM;
	*kind = (struct kind){
		.next = type->user, .all = convert->kinds, .attributes = *attributes,
		.metadata_id = rp_trace_writer_take_id(&convert->writer),
		.is_rewritten = rp_trace_is_rewritten(type, convert->form),
	};
	convert->kinds = kind;
	type->user = kind;
	ret = rp_trace_put_definition(&blob, convert->form, kind->metadata_id, type, attributes);
	if (ret == 0)
		ret = rp_trace_writer_put_definition(&convert->writer, &blob);
	rp_outbuf_fini(&blob);
	*ret_kind = kind;
	return ret;
}

/* Labels may replace attributes of a type. Version 4 has no labels, but a type for each. */
static int find_kind(struct rp_trace_convert *convert, struct kind **ret_kind)
{
	const struct rp_reader_event *event = &convert->event;
	const struct rp_reader_type *type = event->type;
	struct rp_trace_attributes attributes = {
		.keywords = type->keywords, .level = type->level, .opcode = type->opcode,
		.version = type->version,
	};

	if (convert->adds)
		attributes = (struct rp_trace_attributes){
			.keywords = event->keywords, .level = event->level,
			.opcode = event->opcode, .version = event->event_version,
		};
	for (struct kind *kind = type->user; kind; kind = kind->next) {
		if (kind->attributes.keywords == attributes.keywords &&
		    kind->attributes.level == attributes.level &&
		    kind->attributes.opcode == attributes.opcode &&
		    kind->attributes.version == attributes.version) {
			*ret_kind = kind;
			return 0;
		}
	}
	return create_kind(convert, &attributes, ret_kind);
}

static int put_event(struct rp_trace_convert *convert)
{
	struct rp_trace_writer_event event = {
		.from = &convert->event, .lost_before = convert->lost_before,
		.payload = convert->event.payload, .payload_bytes = convert->event.payload_bytes,
	};
	bool is_whole = true;
	struct kind *kind = NULL;
	int ret = state_context(convert, &event.process);

	if (ret == 0)
		ret = find_kind(convert, &kind);
	if (ret)
		return ret;
	while (!ret && convert->holds &&
	       rp_trace_restore_next_held(&convert->restore, &convert->text))
		ret = put_added(convert, RP_TRACE_ADDED_LABEL);
	if (convert->restores) {
		event.row = rp_trace_restore_row(&convert->restore, event.from->thread);
		ret = rp_trace_restore_labels(&convert->restore, event.from, &event.labels);
	}
	if (ret)
		return ret;
	event.metadata_id = kind->metadata_id;
	if (kind->is_rewritten) {
		convert->payload.size = 0;
		is_whole = rp_trace_put_payload(&convert->payload, convert->form, &convert->event);
		event.payload = convert->payload.bytes;
		event.payload_bytes = convert->payload.size;
	}
	if (event.payload_bytes > PAYLOAD_MAX) {
		event.payload_bytes = PAYLOAD_MAX;
		is_whole = false;
	}
	convert->result->labels_dropped += convert->restore.dropped;
	convert->restore.dropped = 0;
	convert->result->cut += !is_whole;
	ret = convert->payload.failed ? -ENOMEM : rp_trace_writer_event(&convert->writer, &event);
	convert->result->events += !ret;
	return ret;
}

/* Write the losses and sequence points that the reader has passed, before the event. */
static int follow_points(struct rp_trace_convert *convert, bool has_event)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t total, lost = 0;
	bool is_point;

	rp_reader_get_stats(convert->reader, &stats);
	/* A gap in numbers may show that fewer events than counted so far were lost to damage. */
	total = stats.lost + stats.lost_to_damage;
	if (total > convert->lost)
		lost = total - convert->lost;
	convert->lost += lost;
	convert->lost_before = has_event ? convert->reader->lost_before : 0;
	if (convert->lost_before > lost)
		convert->lost_before = lost;
	lost -= convert->lost_before;
	is_point = stats.sequence_points != convert->points;
	convert->points = stats.sequence_points;
	return lost || is_point ? rp_trace_writer_point(&convert->writer, lost) : 0;
}

/* Whether the event describes the trace, so that others can be understood. */
static bool is_description(const struct rp_reader_event *event)
{
	static const char *const providers[] = {
		RP_TRACE_MERGE_PROVIDER, RP_SYSTEM_PROVIDER, "Microsoft-DotNETCore-EventPipe",
		"Microsoft-Windows-DotNETRuntimeRundown",
	};
	static const char *const names[] = {
		RP_MACHINE_EVENT_DESCRIPTION, RP_MACHINE_EVENT_CLOCK, RP_MACHINE_EVENT_GROUPS,
		"Suspend", "Loss",
	};

	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
		if (!strcmp(event->type->provider, providers[i]))
			return true;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(event->type->provider, RP_MACHINE_PROVIDER) &&
		    !strcmp(event->type->name, names[i]))
			return true;
	}
	return false;
}

static bool is_omitted(struct rp_trace_convert *convert, struct rp_expression *where)
{
	const struct rp_reader_event *event = &convert->event;
	const bool from_v6 = convert->reader->info.version == RP_NETTRACE_V6;
	const struct rp_thread_slot *slot = from_v6 ? NULL :
		rp_thread_table_find(&convert->threads, event->thread);

	return where && !rp_expression_matches(where, event, slot ? slot->sequence :
					       event->process) && !is_description(event);
}

static int begin(struct rp_trace_convert *convert, struct rp_output *output)
{
	if (convert->is_begun)
		return 0;
	convert->is_begun = true;
	return rp_trace_writer_begin(&convert->writer, convert->reader,
				     convert->form == RP_TRACE_FORM_V4 ? RP_TRACE_VERSION :
				     RP_NETTRACE_V6, output, &convert->restore.pairs,
				     convert->restore.pair_count);
}

/* Return: whether the event states what version 6 has itself, or the next event may need it. */
static bool is_taken(struct rp_trace_convert *convert, int *ret_error)
{
	uint64_t process;
	int ret = 0;

	/* The head has the pairs, so a later one remains an event. */
	if (convert->restores && !(convert->is_begun && is_event(&convert->event,
					RP_TRACE_MERGE_PROVIDER, RP_TRACE_MERGE_KEY_VALUE)))
		ret = rp_trace_restore_take(&convert->restore, &convert->event);
	else if (convert->holds)
		ret = rp_trace_restore_hold(&convert->restore, &convert->event);
	*ret_error = ret == 1 ? follow_added(convert, &process) : ret;
	return ret == 1;
}

/* Return: the reader's result; a failure of the output is in `*ret_output_error`. */
static int convert_events(struct rp_trace_convert *convert,
			  const struct rp_trace_convert_plan *plan, int *ret_output_error)
{
	uint64_t count = 0;
	int read = 0;
	bool omits;

	while (!*ret_output_error) {
		if (count++ % TICK_EVENTS == 0 && plan->tick && !plan->tick(plan->data)) {
			convert->result->stopped = true;
			return 0;
		}
		read = rp_reader_next(convert->reader, &convert->event);
		if (read == 1 && is_taken(convert, ret_output_error))
			continue;
		if (!*ret_output_error)
			*ret_output_error = begin(convert, plan->output);
		if (*ret_output_error)
			break;
		omits = read == 1 && (is_omitted(convert, plan->where) ||
				      (plan->omits && plan->omits(plan->data, &convert->event)));
		/* The events that were lost before an omitted one are lost all the same. */
		*ret_output_error = follow_points(convert, read == 1 && !omits);
		if (read != 1 || *ret_output_error)
			break;
		if (omits) {
			convert->restore.labels.size = convert->restore.dropped = 0;
			continue;
		}
		if (convert->adds && convert->result->events == 0)
			*ret_output_error = add_key_values(convert);
		if (!*ret_output_error)
			*ret_output_error = put_event(convert);
	}
	return read < 0 ? read : 0;
}

static void fini(struct rp_trace_convert *convert)
{
	struct kind *kind;

	while ((kind = convert->kinds)) {
		convert->kinds = kind->all;
		free(kind);
	}
	rp_trace_writer_fini(&convert->writer);
	rp_trace_restore_fini(&convert->restore);
	rp_outbuf_fini(&convert->payload);
	rp_outbuf_fini(&convert->text);
	rp_thread_table_fini(&convert->processes);
	rp_thread_table_fini(&convert->threads);
	rp_thread_table_fini(&convert->names);
}

int rp_trace_convert(struct rp_reader *reader, const struct rp_trace_convert_plan *plan,
		     struct rp_trace_convert_result *ret_result, int *ret_output_error)
{
	struct rp_trace_convert convert = {
		.reader = reader, .event = RP_READER_EVENT_INIT, .form = plan->form,
		.adds = plan->form == RP_TRACE_FORM_V4 && reader->info.version == RP_NETTRACE_V6,
		.restores = plan->form != RP_TRACE_FORM_V4 &&
			    reader->info.version != RP_NETTRACE_V6,
		.holds = plan->form == RP_TRACE_FORM_V4 && reader->info.version != RP_NETTRACE_V6,
		.result = ret_result,
	};
	int ret;

	memset(ret_result, 0, sizeof(*ret_result));
	*ret_output_error = 0;
	ret = convert_events(&convert, plan, ret_output_error);
	if (!*ret_output_error)
		*ret_output_error = begin(&convert, plan->output);
	if (!*ret_output_error && plan->add && ret_result->events)
		*ret_output_error = plan->add(plan->data, &convert);
	if (!*ret_output_error)
		*ret_output_error = rp_trace_writer_end(&convert.writer);
	ret_result->lost = convert.lost;
	ret_result->bytes = convert.writer.bytes;
	fini(&convert);
	return *ret_output_error ? 1 : ret;
}

/* Define the functions that are added, which are of none of the other trace's types. */
static int define_functions(struct rp_trace_convert *convert)
{
	const struct rp_reader_type type = {
		.provider = RP_SYSTEM_PROVIDER, .name = RP_SYSTEM_FUNCTION_NAME,
		.id = RP_SYSTEM_FUNCTION,
	};
	const struct rp_trace_attributes attributes = { .level = RP_LEVEL_INFORMATIONAL };
	struct rp_outbuf definition = { 0 };
	int ret;

	if (convert->function_id)
		return 0;
	convert->function_id = rp_trace_writer_take_id(&convert->writer);
	ret = rp_trace_put_definition(&definition, convert->form, convert->function_id, &type,
				      &attributes);
	if (ret == 0)
		ret = rp_trace_writer_put_definition(&convert->writer, &definition);
	rp_outbuf_fini(&definition);
	return ret;
}

int rp_trace_convert_add_function(struct rp_trace_convert *convert, uint64_t process,
				  const void *payload, size_t payload_bytes)
{
	const struct rp_reader_event from = {
		.thread = process, .thread_name = "", .process = process,
	};
	int ret = define_functions(convert);
	const struct rp_trace_writer_event event = {
		.from = &from, .metadata_id = convert->function_id, .process = process,
		.is_added = true, .payload = payload, .payload_bytes = payload_bytes,
	};

	if (ret == 0)
		ret = rp_trace_writer_event(&convert->writer, &event);
	convert->result->added += !ret;
	return ret;
}
