/* SPDX-License-Identifier: MIT */
/* A pull parser: it reads one object or block after another, and returns one event per call. */
#include "nettrace/reader_parts.h"

#include "base/sized.h"
#include "nettrace/convert.h"
#include "nettrace/reader_repeat.h"

/* Count an event: the losses before it, its thread, and whether its time is in order. */
static void count_event(struct rp_reader *reader, uint32_t last, bool is_first, bool *wrote)
{
	const struct rp_wire_event *wire = &reader->event;
	const uint64_t lost = reader->stats.lost;

	if (!is_first)
		rp_reader_count_lost(reader, last, wire->sequence - 1);
	reader->lost_before = reader->stats.lost - lost;
	reader->stats.threads += !*wrote;
	*wrote = true;
	if (reader->has_last_time && (int64_t)(wire->time - reader->last_time) < 0)
		reader->stats.unordered++;
	reader->has_last_time = true;
	reader->last_time = wire->time;
	reader->stats.events++;
}

/*
 * In V4, losses are counted from a thread's first number. A last number of 0 means an unknown
 * thread, and a number 1 again means that another thread uses the thread id.
 */
static int count_event_v4(struct rp_reader *reader, uint64_t at)
{
	const struct rp_wire_event *wire = &reader->event;
	const uint32_t gap = reader->gap & RP_READER_GAP_MASK;
	struct rp_thread_slot *slot;
	size_t known = reader->threads.count;
	bool wrote, is_first;

	if (rp_thread_table_add(&reader->threads, wire->capture_thread, &slot) < 0)
		return rp_reader_fail(reader, -ENOMEM, at, "no memory for threads");
	wrote = slot->marked;
	is_first = reader->threads.count != known || !slot->sequence || wire->sequence == 1 ||
		   slot->index != gap;
	if (is_first && slot->sequence && slot->index != gap && reader->resume.missed_event_bytes)
		rp_reader_check_missed(reader, slot->sequence);
	if (is_first && slot->sequence && slot->index != gap)
		rp_reader_count_missing(reader, slot->sequence, wire->sequence - 1, false);
	count_event(reader, slot->sequence, is_first, &wrote);
	slot->marked = wrote;
	slot->index = gap;
	slot->sequence = wire->sequence;
	reader->sequence = &slot->sequence;
	return 0;
}

static int apply_labels(struct rp_reader *reader, uint64_t at, struct rp_reader_event *event)
{
	const struct rp_labels *labels;
	int ret = rp_label_lists_find(&reader->labels, reader->event.labels, &labels,
				      &event->labels);

	if (ret < 0 && ret != -ENOMEM && reader->resume.is_enabled)
		return -EBADMSG;
	if (ret == -E2BIG)
		return rp_reader_fail(reader, -EBADMSG, at, "too much in label lists");
	if (ret < 0)
		return rp_reader_fail(reader, ret, at, ret == -ENOMEM ? "no memory for labels" :
				      "an event with an unknown label list");
	event->activity = labels->activity;
	event->related_activity = labels->related;
	memcpy(event->trace_id, labels->trace_id, sizeof(event->trace_id));
	event->span_id = labels->span_id;
	event->label_count = labels->count;
	if (labels->replaces & 1 << RP_LABEL_OPCODE)
		event->opcode = labels->opcode;
	if (labels->replaces & 1 << RP_LABEL_KEYWORDS)
		event->keywords = labels->keywords;
	if (labels->replaces & 1 << RP_LABEL_LEVEL)
		event->level = labels->level;
	if (labels->replaces & 1 << RP_LABEL_VERSION)
		event->event_version = labels->version;
	return 0;
}

/*
 * Drop an event whose type, thread or label list is unknown because of damage. Its number is not
 * missing then. Return: -ESTALE.
 */
__attribute__((cold, noinline))
static int lose(struct rp_reader *reader, uint64_t at, const char *reason)
{
	const struct rp_wire_event *wire = &reader->event;
	struct rp_thread_row *capture;
	struct rp_thread_slot *slot;

	rp_reader_lose_event(reader, at, reason);
	if (!reader->layout.has_labels) {
		slot = rp_thread_table_find(&reader->threads, wire->capture_thread);
		if (!slot || !slot->sequence)
			return -ESTALE;
		rp_reader_count_missing(reader, slot->sequence, wire->sequence - 1,
					slot->index == (reader->gap & RP_READER_GAP_MASK));
		slot->sequence = wire->sequence;
		slot->index = reader->gap & RP_READER_GAP_MASK;
		return -ESTALE;
	}
	capture = rp_thread_rows_find(&reader->thread_rows, wire->capture_thread);
	if (capture && capture->declared < reader->resume.suspect_gap) {
		reader->resume.suspect_lost++;
	} else if (capture) {
		rp_reader_count_missing(reader, capture->sequence, wire->sequence - 1,
					capture->gap == reader->gap);
		capture->sequence = wire->sequence;
		capture->gap = reader->gap;
	}
	return -ESTALE;
}

/* In V6, all numbers start at 0, and the row of an index contains the thread id of the system. */
static int identify_v6(struct rp_reader *reader, uint64_t at, struct rp_reader_event *event)
{
	const struct rp_wire_event *wire = &reader->event;
	struct rp_thread_row *thread = rp_thread_rows_find(&reader->thread_rows, wire->thread);
	struct rp_thread_row *capture = thread;
	int ret;

	if (wire->capture_thread != wire->thread)
		capture = rp_thread_rows_find(&reader->thread_rows, wire->capture_thread);
	if ((!thread || !capture) && reader->resume.is_enabled)
		return lose(reader, at, "an event of an unknown thread");
	if (!thread || !capture)
		return rp_reader_fail(reader, -EBADMSG, at, "an event of an unknown thread");
	if (reader->resume.missed_event_bytes && capture->gap != reader->gap)
		rp_reader_check_missed(reader, capture->sequence);
	if (reader->resume.suspect_gap && !rp_reader_are_rows_right(reader))
		return lose(reader, at, "an event of an unknown thread");
	event->thread = thread->thread;
	if (thread->process != RP_THREAD_NO_PROCESS)
		event->process = thread->process;
	if (thread->name)
		event->thread_name = thread->name;
	ret = apply_labels(reader, at, event);
	if (ret == -EBADMSG && reader->resume.is_enabled)
		return lose(reader, at, "an event with an unknown label list");
	if (ret < 0)
		return ret;
	if (capture->gap != reader->gap)
		rp_reader_count_missing(reader, capture->sequence, wire->sequence - 1, false);
	count_event(reader, capture->sequence, capture->gap != reader->gap, &thread->wrote);
	capture->sequence = wire->sequence;
	capture->gap = reader->gap;
	reader->sequence = &capture->sequence;
	return 0;
}

/* Set the thread, process and ids of an event, which V4 and V6 have in different places. */
static int identify(struct rp_reader *reader, uint64_t at, struct rp_reader_event *event)
{
	const struct rp_wire_event *wire = &reader->event;

	event->process = reader->info.process_id;
	if (reader->layout.has_labels)
		return identify_v6(reader, at, event);
	event->thread = wire->thread;
	rp_guid_swap(wire->activity, event->activity.bytes);
	rp_guid_swap(wire->related, event->related_activity.bytes);
	return count_event_v4(reader, at);
}

static int give(struct rp_reader *reader, uint64_t at, struct rp_reader_type *type,
		struct rp_cursor payload)
{
	const struct rp_wire_event *wire = &reader->event;
	struct rp_reader_event *event = &reader->returned;
	size_t frame_bytes;
	int ret;

	*event = (struct rp_reader_event){
		.size = sizeof(*event),
		.sequence = wire->sequence,
		.type = type,
		.time_ns = rp_reader_relative_ns(&reader->info, wire->time),
		.capture_thread = wire->capture_thread,
		.processor = wire->processor,
		.payload = payload.at,
		.payload_bytes = rp_cursor_left(&payload),
		.thread_name = "",
		.keywords = type->keywords,
		.level = type->level,
		.opcode = type->opcode,
		.event_version = type->version,
	};
	reader->sequence = NULL;
	ret = identify(reader, at, event);
	if (ret < 0)
		return ret;
	/* Only compressed headers repeat others. */
	if (!reader->layout.compressed || reader->is_plain)
		reader->sequence = NULL;
	event->frames = rp_point_index_find(&reader->frames, wire->stack, &frame_bytes);
	event->frame_count = frame_bytes / reader->info.pointer_bytes;
	return 1;
}

/* Return: 1 with an event; -ESTALE: the event was dropped; other errors are recorded. */
static int take_event(struct rp_reader *reader)
{
	uint64_t at = reader->block_offset + (reader->events.at - reader->layout.start);
	struct rp_reader_type *type;
	struct rp_cursor payload;

	if (rp_wire_event_take(&reader->events, &reader->layout, &reader->event, &payload) < 0) {
		if (reader->truncated)
			return rp_reader_fail(reader, -ENODATA, at,
					      "the file stops before its end");
		return rp_reader_fail(reader, -EBADMSG, at, "a damaged event");
	}
	type = rp_type_table_find(&reader->types, reader->event.metadata_id);
	if (!type && reader->resume.is_enabled)
		return lose(reader, at, "an event of unknown type");
	if (!type)
		return rp_reader_fail(reader, -EBADMSG, at, "an event of unknown type %u",
				      reader->event.metadata_id);
	return give(reader, at, type, payload);
}

/*
 * Return: 1 with an event; 0: the block is at its end. The function is separate so that the common
 * path of next_of_stream() needs fewer registers.
 */
__attribute__((noinline))
static int next_of_block(struct rp_reader *reader)
{
	int ret;

	while (reader->events.at != reader->events.end || reader->truncated) {
		ret = take_event(reader);
		if (ret != -ESTALE)
			return ret;
	}
	return 0;
}

/* Take the bytes after a block of events. */
static void end_block(struct rp_reader *reader)
{
	if (reader->layout.has_labels || rp_reader_end_events_v4(reader) == 0) {
		reader->layout.start = NULL;
		reader->sequence = NULL;
		rp_reader_end_block(reader);
	}
}

static void take_block(struct rp_reader *reader)
{
	int ret;

	if (reader->spans && !rp_reader_enter_span(reader))
		return;
	if (reader->resume.is_enabled && !rp_reader_find_block(reader))
		return;
	rp_reader_begin_block(reader);
	ret = reader->layout.has_labels ? rp_reader_take_block_v6(reader) :
					  rp_reader_take_object_v4(reader);
	if (!ret)
		reader->ended = true;
	else if (ret > 0 && !reader->layout.start)
		rp_reader_end_block(reader);
}

/* It is not part of next_of_stream(), whose common path needs fewer registers then. */
__attribute__((noinline))
static int next_slow(struct rp_reader *reader)
{
	int ret;

	while (!reader->error && !reader->ended) {
		rp_byte_source_mark(&reader->source);
		if (reader->layout.start) {
			ret = next_of_block(reader);
			if (ret)
				return ret;
			end_block(reader);
		} else {
			take_block(reader);
		}
	}
	if (reader->is_growing && reader->error == -ENODATA) {
		rp_byte_source_rewind(&reader->source);
		reader->error = 0;
		reader->message[0] = '\0';
		return -EAGAIN;
	}
	return reader->error;
}

static inline int next_of_stream(struct rp_reader *reader)
{
	return rp_reader_next_repeat(reader) ? 1 : next_slow(reader);
}

/* Return: the next event that is inside of the range. */
static int next_of_range(struct rp_reader *reader)
{
	int ret;

	do
		ret = next_of_stream(reader);
	while (ret == 1 && rp_reader_is_outside(reader));
	return ret;
}

int rp_reader_next_ref(struct rp_reader *reader, const struct rp_reader_event **ret_event)
{
	*ret_event = &reader->returned;
	return reader->has_range ? next_of_range(reader) : next_of_stream(reader);
}

/* Copy the members from `first` on and before the offset `end`. */
#define COPY_MEMBERS(to, from, first, end) \
	memcpy(&(to)->first, &(from)->first, (end) - offsetof(struct rp_reader_event, first))

/*
 * Return the next event if its header repeats the previous one, in a struct of the library's size.
 *
 * A load of several members that were just stored waits until the processor has written them all.
 * The members that rp_reader_next_repeat() sets are therefore copied one by one, from registers.
 */
static inline bool copy_repeat(struct rp_reader *reader, struct rp_reader_event *ret_event)
{
	const struct rp_reader_event *event = &reader->returned;
	struct rp_reader_event changed;

	if (!rp_reader_next_repeat(reader))
		return false;
	changed.sequence = event->sequence;
	changed.type = event->type;
	changed.time_ns = event->time_ns;
	changed.payload = event->payload;
	changed.payload_bytes = event->payload_bytes;
	changed.keywords = event->keywords;
	changed.level = event->level;
	changed.opcode = event->opcode;
	changed.event_version = event->event_version;
	ret_event->sequence = changed.sequence;
	ret_event->type = changed.type;
	ret_event->time_ns = changed.time_ns;
	COPY_MEMBERS(ret_event, event, thread, offsetof(struct rp_reader_event, payload));
	ret_event->payload = changed.payload;
	ret_event->payload_bytes = changed.payload_bytes;
	COPY_MEMBERS(ret_event, event, process, offsetof(struct rp_reader_event, keywords));
	ret_event->keywords = changed.keywords;
	ret_event->level = changed.level;
	ret_event->opcode = changed.opcode;
	ret_event->event_version = changed.event_version;
	COPY_MEMBERS(ret_event, event, label_count, sizeof(*event));
	return true;
}

int rp_reader_next(struct rp_reader *reader, struct rp_reader_event *ret_event)
{
	const struct rp_reader_event *event;
	int ret;

	if (ret_event && ret_event->size == sizeof(*event) && !reader->has_range &&
	    copy_repeat(reader, ret_event))
		return 1;
	if (!ret_event || !rp_sized_fits(ret_event, RP_READER_EVENT_SIZE_V1))
		return -EINVAL;
	ret = rp_reader_next_ref(reader, &event);
	if (ret == 1)
		rp_sized_write(ret_event, event, sizeof(*event));
	return ret;
}

int rp_reader_get_key_value(const struct rp_reader *reader, uint32_t index, const char **ret_key,
			    const char **ret_value)
{
	const struct rp_key_value *pairs = (const void *)reader->key_values.bytes;

	if (index >= reader->info.key_value_count)
		return -ENOENT;
	*ret_key = pairs[index].key;
	*ret_value = pairs[index].value;
	return 0;
}

int rp_reader_get_info(const struct rp_reader *reader, struct rp_reader_info *ret_info)
{
	if (!ret_info || !rp_sized_fits(ret_info, RP_READER_INFO_SIZE_V1))
		return -EINVAL;
	rp_sized_write(ret_info, &reader->info, sizeof(reader->info));
	return 0;
}

int rp_reader_get_stats(const struct rp_reader *reader, struct rp_reader_stats *ret_stats)
{
	struct rp_reader_stats stats = reader->stats;

	if (!ret_stats || !rp_sized_fits(ret_stats, RP_READER_STATS_SIZE_V1))
		return -EINVAL;
	stats.ended = reader->ended;
	stats.bytes = reader->source.offset;
	stats.damaged_ranges = reader->resume.range_count;
	stats.damaged_bytes = reader->resume.damaged_bytes;
	stats.lost_to_damage = reader->resume.lost_events;
	rp_sized_write(ret_stats, &stats, sizeof(stats));
	return 0;
}

const char *rp_reader_error(const struct rp_reader *reader)
{
	return reader->message;
}
