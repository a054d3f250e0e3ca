/* SPDX-License-Identifier: MIT */
/*
 * Keeps a reader that resumes after damage from giving events with a wrong type, thread, stack or
 * label list. Each of them is declared once and has an id that the stream may use again later, so
 * a damaged part may have changed what an id means:
 *
 *  - stacks and label lists: a sequence point removes them. The reader forgets them at damage.
 *  - types of V6: a sequence point may remove them. The reader forgets them at damage if the
 *    stream did that before.
 *  - threads of V6: a sequence point may remove them, or a block may remove one. The reader uses a
 *    row from before the damage only if rp_reader_are_rows_right().
 *  - types and threads of V4 are never removed.
 *
 * If a block declares an id again without a removal, the removal was in a damaged part, or one of
 * the two declarations is wrong.
 */
#include "nettrace/reader_parts.h"

#define GAPS_MAX 2

static void note_missed_declarations(struct rp_reader *reader, enum rp_damage_scope scope)
{
	struct rp_reader_resume *resume = &reader->resume;

	resume->missed_event_bytes = 0;
	resume->missed_declarations = true;
	rp_point_index_clear(&reader->frames);
	rp_label_lists_clear(&reader->labels);
	if (resume->flushed_types)
		rp_type_table_clear(&reader->types);
	/* One block alone cannot both remove a thread and declare another with its index. */
	if (scope == RP_DAMAGE_BLOCK && !resume->missed_block) {
		resume->missed_block = true;
		return;
	}
	if (!resume->suspect_gap)
		resume->suspect_lost = 0;
	resume->suspect_gap = reader->gap;
}

void rp_reader_note_missed(struct rp_reader *reader, enum rp_damage_scope scope, uint64_t bytes)
{
	rp_reader_add_gap(reader);
	reader->sequence = NULL;
	if (scope == RP_DAMAGE_EVENTS)
		reader->resume.missed_event_bytes = bytes;
	else
		note_missed_declarations(reader, scope);
}

/* The smallest event has a byte of flags and one of time. */
void rp_reader_check_missed(struct rp_reader *reader, uint32_t last)
{
	const uint32_t missing = reader->event.sequence - 1 - last;

	if (missing > reader->resume.missed_event_bytes / 2)
		note_missed_declarations(reader, RP_DAMAGE_BLOCKS);
}

void rp_reader_note_flush(struct rp_reader *reader, uint32_t flags)
{
	struct rp_reader_resume *resume = &reader->resume;

	resume->stack_ids.ignores = resume->label_ids.ignores = false;
	resume->stack_ids.missed = resume->label_ids.missed = false;
	if (flags & RP_POINT_FLUSH_METADATA)
		resume->flushed_types = true;
	if (!(flags & RP_POINT_FLUSH_THREADS))
		return;
	resume->flushed_threads = true;
	resume->missed_event_bytes = 0;
	resume->missed_block = false;
	resume->suspect_gap = 0;
}

/*
 * The size of a damaged part does not limit what it contained, because bytes may have been cut out
 * of it. The rows are right if the stream has never used an index again so far, and if the numbers
 * of the capture thread continue: those of a new thread would begin again.
 */
bool rp_reader_are_rows_right(struct rp_reader *reader)
{
	struct rp_reader_resume *resume = &reader->resume;
	const struct rp_wire_event *wire = &reader->event;
	const struct rp_thread_row *thread, *capture;

	if (!resume->suspect_gap)
		return true;
	thread = rp_thread_rows_find(&reader->thread_rows, wire->thread);
	capture = rp_thread_rows_find(&reader->thread_rows, wire->capture_thread);
	if (thread->declared >= resume->suspect_gap && capture->declared >= resume->suspect_gap)
		return true;
	if (capture->declared < resume->suspect_gap && wire->sequence <= capture->sequence)
		resume->flushed_threads = true;
	if (resume->flushed_threads || reader->thread_rows.reuses_indexes ||
	    capture->declared >= resume->suspect_gap)
		return false;
	resume->suspect_gap = 0;
	/* The gap in the numbers counts the same events again. */
	resume->lost_events -= resume->suspect_lost;
	return true;
}

const char *rp_reader_find_unknown(const void *data, const struct rp_wire_event *event)
{
	const struct rp_reader *reader = data;
	size_t unused;

	if (!rp_type_table_find(&reader->types, event->metadata_id))
		return "an event of unknown type";
	if (!reader->layout.has_labels)
		return NULL;
	if (!rp_thread_rows_find(&reader->thread_rows, event->thread) ||
	    !rp_thread_rows_find(&reader->thread_rows, event->capture_thread))
		return "an event of an unknown thread";
	if (event->labels &&
	    !rp_point_index_find(&reader->labels.index, event->labels, &unused))
		return "an event with an unknown label list";
	return NULL;
}

void rp_reader_lose_event(struct rp_reader *reader, uint64_t at, const char *reason)
{
	const uint64_t end = reader->block_offset +
			     (uint64_t)(reader->events.at - reader->layout.start);

	/* An unknown id that no damage explains is damage itself. */
	if (!reader->resume.missed_declarations) {
		rp_reader_add_damage(reader, at, end - at, reason);
		reader->resume.missed_declarations = true;
	}
	reader->resume.lost_events++;
	reader->sequence = NULL;
}

/* Check the rows of a Thread block. */
static const char *check_threads(struct rp_reader *reader, struct rp_cursor c)
{
	const char *reason = NULL;
	struct rp_cursor row;
	uint64_t index;
	uint16_t size;

	while (rp_cursor_u16(&c, &size) == 0 && rp_cursor_sub(&c, size, &row) == 0 &&
	       rp_cursor_varint(&row, &index) == 0) {
		struct rp_thread_row *known = rp_thread_rows_find(&reader->thread_rows, index);

		if (!known)
			continue;
		rp_thread_rows_remove(&reader->thread_rows, known);
		reader->resume.flushed_threads = true;
		if (reader->resume.missed_event_bytes)
			note_missed_declarations(reader, RP_DAMAGE_BLOCKS);
		if (!reader->resume.missed_declarations)
			reason = "a thread declared twice";
	}
	return reason;
}

static const char *check_type(struct rp_reader *reader, uint32_t id)
{
	if (!rp_type_table_find(&reader->types, id))
		return NULL;
	rp_type_table_remove(&reader->types, id);
	/* In V4, an id has one definition for ever. */
	if (reader->layout.has_labels && reader->resume.missed_declarations)
		return NULL;
	return "an event defined twice";
}

static const char *check_types_v4(struct rp_reader *reader, struct rp_cursor c)
{
	struct rp_wire_layout layout = { .has_labels = false };
	struct rp_wire_event event = { 0 };
	const char *reason = NULL, *found;
	struct rp_cursor blob;
	uint32_t id;

	if (rp_wire_block_header(&c, &layout) < 0)
		return NULL;
	while (c.at < c.end && rp_wire_event_take(&c, &layout, &event, &blob) == 0 &&
	       rp_cursor_u32(&blob, &id) == 0) {
		found = check_type(reader, id);
		reason = found ? found : reason;
	}
	return reason;
}

static const char *check_types_v6(struct rp_reader *reader, struct rp_cursor c)
{
	const char *reason = NULL, *found;
	struct rp_cursor row;
	uint16_t size;
	uint32_t id;

	if (rp_cursor_u16(&c, &size) < 0 || rp_cursor_sub(&c, size, &row) < 0)
		return NULL;
	while (rp_cursor_u16(&c, &size) == 0 && rp_cursor_sub(&c, size, &row) == 0 &&
	       rp_cursor_varint32(&row, &id) == 0) {
		found = check_type(reader, id);
		reason = found ? found : reason;
	}
	return reason;
}

/*
 * Check the ids of stacks or label lists. Writers number them from 1 after a sequence point, or
 * continue their numbers. A writer that left ids out GAPS_MAX times may do so again.
 */
static const char *check_ids(struct rp_reader *reader, struct rp_cursor c,
			     const struct rp_point_index *index, struct rp_id_order *order)
{
	const uint32_t last = rp_point_index_last(index);
	uint32_t first, count;
	bool is_right;

	if (order->ignores)
		return "ids after others that contradict them";
	if (rp_cursor_u32(&c, &first) < 0 || rp_cursor_u32(&c, &count) < 0 || !count)
		return NULL;
	is_right = first == last + 1 || (!last && first == order->last + 1);
	if (!is_right && first > last)
		is_right = order->missed || order->gaps++ >= GAPS_MAX;
	if (is_right) {
		order->last = first + count - 1;
		return NULL;
	}
	/* The reader cannot know which of the two declarations is right. */
	rp_point_index_clear(&reader->frames);
	rp_label_lists_clear(&reader->labels);
	order->ignores = true;
	return "ids of another order";
}

/* Check that the threads whose last numbers a block states are known. */
static const char *check_numbers(struct rp_reader *reader, struct rp_cursor c)
{
	uint64_t index;
	uint32_t sequence;

	while (c.at < c.end && !reader->resume.missed_declarations) {
		if (rp_cursor_varint(&c, &index) < 0 || rp_cursor_varint32(&c, &sequence) < 0)
			break;
		if (!rp_thread_rows_find(&reader->thread_rows, index))
			return "the number of an unknown thread";
	}
	return NULL;
}

const char *rp_reader_check_declared(struct rp_reader *reader, enum rp_block_kind kind,
				     struct rp_cursor content)
{
	struct rp_reader_resume *resume = &reader->resume;
	const bool is_v6 = reader->layout.has_labels;
	const uint8_t *unused;

	switch (kind) {
	case RP_BLOCK_METADATA:
		return is_v6 ? check_types_v6(reader, content) : check_types_v4(reader, content);
	case RP_BLOCK_STACK:
		return check_ids(reader, content, &reader->frames, &resume->stack_ids);
	case RP_BLOCK_LABEL_LIST:
		return check_ids(reader, content, &reader->labels.index, &resume->label_ids);
	case RP_BLOCK_THREAD:
		return check_threads(reader, content);
	case RP_BLOCK_REMOVE_THREAD:
		return check_numbers(reader, content);
	case RP_BLOCK_SEQUENCE_POINT:
		if (!is_v6 || rp_cursor_take(&content, 16, &unused) < 0)
			return NULL;
		return check_numbers(reader, content);
	default:
		return NULL;
	}
}
