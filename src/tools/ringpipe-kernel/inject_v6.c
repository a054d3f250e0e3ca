/* SPDX-License-Identifier: MIT */
/*
 * The outer layer of version 6. Kernel events have a capture index of their own, and threads that
 * have no row yet get one with an index that no stream of ringpipe uses. The ids of label lists
 * ascend in the output, so those of the stream are changed.
 */
#include <stdlib.h>

#include "nettrace/describe.h"
#include "tools/ringpipe-kernel/inject_parts.h"

#define HEADER_BYTES 20u	/* magic, 0, version, minor version */

struct label_range {
	uint32_t first, count;	/* ids in the stream */
	uint32_t ours;		/* the first id in the output */
};

static int put_row(struct rp_kernel_inject *inject, uint64_t index, uint64_t process,
		   uint64_t thread)
{
	struct rp_outbuf row = { 0 };
	int ret = rp_thread_row_put(&row, index, process, thread, NULL);

	if (ret == 0)
		ret = rp_inject_put_object(inject, RP_BLOCK_THREAD, row.bytes, row.size);
	rp_outbuf_fini(&row);
	return ret;
}

/* Put the row of the artificial capture thread, whose numbers begin at 0. */
static int begin_rows(struct rp_kernel_inject *inject)
{
	inject->sequence = 0;
	return put_row(inject, RP_KERNEL_INJECT_THREAD, 0, 0);
}

static int put_definitions(struct rp_kernel_inject *inject)
{
	return rp_inject_put_object(inject, RP_BLOCK_METADATA, inject->rows.bytes,
				    inject->rows.size);
}

/*
 * Find the index of a thread's row, or put a row. A slot of the table has the index of the stream's
 * row, or 0 without one, and is marked if this function put a row, whose index follows from the
 * thread.
 */
static int find_index(struct rp_kernel_inject *inject, uint64_t thread, uint64_t *ret_index)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&inject->indexes, thread);
	int ret;

	*ret_index = slot && slot->sequence ? slot->sequence : RP_KERNEL_INJECT_THREAD + thread;
	if (slot)
		return 0;
	ret = rp_thread_table_add(&inject->indexes, thread, &slot);
	if (ret)
		return ret;
	slot->marked = 1;
	return put_row(inject, *ret_index, inject->process, thread);
}

static struct rp_inject_list *list_of(struct rp_kernel_inject *inject,
				      const struct rp_guid *activity)
{
	uint64_t words[2];

	memcpy(words, activity, sizeof(words));
	words[0] = (words[0] ^ words[1]) * 0x9e3779b97f4a7c15ull;
	return &inject->lists[words[0] >> 32 & (RP_INJECT_LISTS - 1)];
}

static void note_list(struct rp_kernel_inject *inject, const struct rp_guid *activity, uint32_t id)
{
	*list_of(inject, activity) = (struct rp_inject_list){ *activity, id };
}

/*
 * Find or make the label list of a kernel event. A list of the process's events is used again if it
 * contains only this activity id.
 */
static int find_list(struct rp_kernel_inject *inject, const struct rp_guid *activity,
		     uint32_t *ret_id)
{
	const struct rp_inject_list *list = list_of(inject, activity);
	int ret;

	if (list->id && !memcmp(&list->activity, activity, sizeof(*activity))) {
		*ret_id = list->id;
		return 0;
	}
	ret = rp_label_set_intern(&inject->label_set, activity, NULL, ret_id);
	if (!ret && *ret_id)
		note_list(inject, activity, *ret_id);
	return ret;
}

int rp_inject_identify_v6(struct rp_kernel_inject *inject, uint64_t thread,
			  struct rp_wire_event *event)
{
	struct rp_guid activity;
	int ret = 0;

	/* EventsLost belongs to no thread, so the main thread gets it. */
	if (thread == RP_KERNEL_INJECT_THREAD)
		thread = inject->process;
	memcpy(activity.bytes, rp_current_activity(&inject->current, thread), 16);
	if (rp_label_set_full(&inject->label_set, 0))
		ret = rp_inject_close_block(inject);
	if (!ret)
		ret = find_index(inject, thread, &event->thread);
	return ret ? ret : find_list(inject, &activity, &event->labels);
}

int rp_inject_put_labels(struct rp_kernel_inject *inject)
{
	struct rp_label_set *set = &inject->label_set;
	int ret = set->count ? rp_inject_put_object(inject, RP_BLOCK_LABEL_LIST, set->content.bytes,
						    set->content.size) : 0;

	if (!ret)
		rp_label_set_next(set, false);
	return ret;
}

/* Put the stream's rows. Each thread has one row, so a later row of a thread is the same row. */
static int pass_threads(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	const struct rp_cursor whole = content;
	struct rp_thread_slot *slot;
	struct rp_cursor row;
	uint16_t size;
	int ret = 0;

	while (!ret && content.at < content.end) {
		const struct rp_thread_row *added;

		if (rp_cursor_u16(&content, &size) < 0 || rp_cursor_sub(&content, size, &row) < 0 ||
		    rp_thread_rows_add(&inject->threads, row) < 0)
			return -EBADMSG;
		added = &inject->threads.rows[inject->threads.count - 1];
		if (added->index >= RP_KERNEL_INJECT_THREAD)
			return -EPROTONOSUPPORT;
		if (!added->process)
			continue;
		ret = rp_thread_table_add(&inject->indexes, added->thread, &slot);
		if (!ret)
			slot->sequence = (uint32_t)added->index;
	}
	return ret ? ret : rp_inject_put_object(inject, RP_BLOCK_THREAD, whole.at,
						rp_cursor_left(&whole));
}

/* From here on, a removed row's thread has the row that find_index() put, or gets one from it. */
static void remove_row(struct rp_kernel_inject *inject, struct rp_thread_row *row)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&inject->indexes, row->thread);

	if (slot && slot->sequence == row->index) {
		slot->sequence = 0;
		if (!slot->marked)
			rp_thread_table_remove(&inject->indexes, row->thread);
	}
	rp_thread_rows_remove(&inject->threads, row);
}

static int pass_removals(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	const struct rp_cursor whole = content;
	uint64_t index;
	uint32_t number;
	/* The events before the block refer to the rows. */
	int ret = rp_inject_close_block(inject);

	while (!ret && content.at < content.end) {
		struct rp_thread_row *row;

		if (rp_cursor_varint(&content, &index) < 0 ||
		    rp_cursor_varint32(&content, &number) < 0)
			return -EBADMSG;
		row = rp_thread_rows_find(&inject->threads, index);
		if (!row)
			return -EBADMSG;
		remove_row(inject, row);
	}
	return ret ? ret : rp_inject_put_object(inject, RP_BLOCK_REMOVE_THREAD, whole.at,
						rp_cursor_left(&whole));
}

/* Each row begins with its size and id; an id that grows may make the row longer. */
static int put_moved_row(struct rp_outbuf *out, struct rp_cursor row, uint32_t step)
{
	uint8_t head[2 + 10], *p;
	uint16_t size;
	uint32_t id;

	if (rp_cursor_varint32(&row, &id) < 0)
		return -EBADMSG;
	p = rp_wire_varint_put(head + 2, (uint64_t)id + step);
	if ((size_t)(p - head - 2) + rp_cursor_left(&row) > UINT16_MAX)
		return -EBADMSG;
	size = (uint16_t)((size_t)(p - head - 2) + rp_cursor_left(&row));
	memcpy(head, &size, sizeof(size));
	rp_outbuf_put(out, head, (size_t)(p - head));
	rp_outbuf_put(out, row.at, rp_cursor_left(&row));
	return out->failed ? -ENOMEM : 0;
}

static int pass_metadata(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	static const uint8_t header[2];
	struct rp_outbuf moved = { 0 };
	const uint8_t *skipped;
	struct rp_cursor row;
	uint16_t size;
	int ret = rp_cursor_u16(&content, &size);

	if (!ret)
		ret = rp_cursor_take(&content, size, &skipped);
	rp_outbuf_put(&moved, header, sizeof(header));
	while (!ret && content.at < content.end) {
		if (rp_cursor_u16(&content, &size) < 0 || rp_cursor_sub(&content, size, &row) < 0)
			ret = -EBADMSG;
		if (!ret)
			ret = rp_describe_row(&inject->types, row);
		if (!ret)
			ret = put_moved_row(&moved, row, (uint32_t)inject->definition_count);
	}
	if (!ret)
		ret = rp_inject_put_object(inject, RP_BLOCK_METADATA, moved.bytes, moved.size);
	rp_outbuf_fini(&moved);
	return ret == -EEXIST ? -EBADMSG : ret;
}

static int pass_labels(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	struct label_range range = { 0 };
	const size_t size = rp_cursor_left(&content);
	struct rp_cursor c = content;
	uint8_t *copy;
	int ret = rp_label_lists_add(&inject->labels, content);

	if (!ret)
		ret = rp_inject_put_labels(inject);
	if (ret)
		return ret == -ENOMEM ? ret : -EBADMSG;
	(void)rp_cursor_u32(&c, &range.first);
	(void)rp_cursor_u32(&c, &range.count);
	range.ours = inject->label_set.first_id;
	copy = malloc(size);
	rp_outbuf_put(&inject->label_ranges, &range, sizeof(range));
	if (!copy || inject->label_ranges.failed) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, content.at, size);
	memcpy(copy, &range.ours, sizeof(range.ours));
	inject->label_set.first_id += range.count;
	ret = rp_inject_put_object(inject, RP_BLOCK_LABEL_LIST, copy, size);
	free(copy);
	return ret;
}

/* Return the id that a label list of the stream has in the output; 0: none. Ranges ascend. */
static uint32_t find_labels(const struct rp_kernel_inject *inject, uint32_t id)
{
	const struct label_range *ranges = (const void *)inject->label_ranges.bytes;
	size_t i = inject->label_ranges.size / sizeof(*ranges);

	while (i && ranges[i - 1].first > id)
		i--;
	return i && id - ranges[i - 1].first < ranges[i - 1].count ?
	       ranges[i - 1].ours + (id - ranges[i - 1].first) : 0;
}

/* Put an event of the stream, and follow its thread's activity. */
static int pass_event(struct rp_kernel_inject *inject, struct rp_wire_event event,
		      struct rp_cursor payload, uint32_t opcode)
{
	const struct rp_thread_row *row = rp_thread_rows_find(&inject->threads, event.thread);
	const struct rp_reader_label *others;
	const struct rp_labels *labels;
	struct rp_wire_event moved = event;
	int ret = rp_label_lists_find(&inject->labels, event.labels, &labels, &others);

	if (ret || !row)
		return ret ? ret : -EBADMSG;
	if (event.sorted)
		ret = rp_inject_put_until(inject, event.time, SIZE_MAX);
	moved.metadata_id += (uint32_t)inject->definition_count;
	moved.payload_bytes = (uint32_t)rp_cursor_left(&payload);
	moved.labels = find_labels(inject, event.labels);
	if (!ret)
		ret = rp_inject_put_event(inject, &moved, payload.at);
	if (moved.labels && labels->replaces == 1 << RP_LABEL_ACTIVITY && !labels->count)
		note_list(inject, &labels->activity, moved.labels);
	event.thread = row->thread;
	memcpy(event.activity, labels->activity.bytes, sizeof(event.activity));
	return ret ? ret : rp_current_follow(&inject->current, &event, opcode);
}

static int pass_events(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	struct rp_wire_layout layout = { .has_labels = true };
	struct rp_wire_event event = { 0 };
	struct rp_cursor payload;
	int ret = rp_wire_block_header(&content, &layout);

	while (!ret && content.at < content.end) {
		const struct rp_reader_type *type;

		ret = rp_wire_event_take(&content, &layout, &event, &payload);
		if (ret)
			break;
		type = rp_type_table_find(&inject->types, event.metadata_id);
		ret = type ? pass_event(inject, event, payload, type->opcode) : -EBADMSG;
	}
	return ret ? ret : rp_inject_close_block(inject);
}

/* Put a sequence point: the stream's `entries`, then that of the artificial capture thread. */
static int put_point(struct rp_kernel_inject *inject, uint64_t time, uint32_t flags,
		     uint32_t count, struct rp_cursor entries)
{
	struct rp_outbuf content = { 0 };
	uint8_t last[20], *p = rp_wire_varint_put(last, RP_KERNEL_INJECT_THREAD);
	int ret = -ENOMEM;

	p = rp_wire_varint_put(p, inject->sequence);
	rp_outbuf_put_u64(&content, time);
	rp_outbuf_put_u32(&content, flags);
	rp_outbuf_put_u32(&content, count + 1);
	if (rp_cursor_left(&entries))
		rp_outbuf_put(&content, entries.at, rp_cursor_left(&entries));
	rp_outbuf_put(&content, last, (size_t)(p - last));
	if (!content.failed)
		ret = rp_inject_put_object(inject, RP_BLOCK_SEQUENCE_POINT, content.bytes,
					   content.size);
	rp_outbuf_fini(&content);
	return ret;
}

/* Put the rows and definitions of kernel events again, which the sequence point removed. */
static int flush(struct rp_kernel_inject *inject, uint32_t flags)
{
	int ret = 0;

	if (flags & RP_POINT_FLUSH_METADATA) {
		rp_type_table_clear(&inject->types);
		ret = put_definitions(inject);
	}
	if (ret || !(flags & RP_POINT_FLUSH_THREADS))
		return ret;
	rp_thread_rows_clear(&inject->threads);
	rp_thread_table_fini(&inject->indexes);
	return begin_rows(inject);
}

static int pass_sequence_point(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	uint64_t time;
	uint32_t flags, count;
	int ret;

	if (rp_cursor_u64(&content, &time) < 0 || rp_cursor_u32(&content, &flags) < 0 ||
	    rp_cursor_u32(&content, &count) < 0 || count == UINT32_MAX)
		return -EBADMSG;
	ret = rp_inject_put_until(inject, time, SIZE_MAX);
	if (!ret)
		ret = rp_inject_close_block(inject);
	if (!ret)
		ret = put_point(inject, time, flags, count, content);
	rp_label_lists_clear(&inject->labels);
	rp_label_set_next(&inject->label_set, true);
	inject->label_ranges.size = 0;
	memset(inject->lists, 0, sizeof(inject->lists));
	return ret ? ret : flush(inject, flags);
}

int rp_inject_put_last_point_v6(struct rp_kernel_inject *inject)
{
	const struct rp_cursor none = { NULL, NULL };
	int ret = put_point(inject, inject->last, 0, 0, none);

	return ret ? ret : rp_object_stream_put_end(&inject->output);
}

/* Return: 1 with a block; 0: it is incomplete. */
static int take_block(struct rp_cursor *c, uint8_t *ret_kind, struct rp_cursor *ret_content)
{
	uint32_t word;

	if (rp_cursor_u32(c, &word) < 0)
		return 0;
	*ret_kind = (uint8_t)(word >> 24);
	return rp_cursor_sub(c, word & RP_BLOCK_SIZE_MAX, ret_content) < 0 ? 0 : 1;
}

int rp_inject_step_v6(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	struct rp_cursor content;
	uint8_t kind;
	int ret = take_block(c, &kind, &content);

	if (ret <= 0)
		return ret;
	switch (kind) {
	case RP_BLOCK_END:
		inject->ended = true;
		break;
	case RP_BLOCK_EVENT:
		ret = pass_events(inject, content);
		break;
	case RP_BLOCK_METADATA:
		ret = pass_metadata(inject, content);
		break;
	case RP_BLOCK_SEQUENCE_POINT:
		ret = pass_sequence_point(inject, content);
		break;
	case RP_BLOCK_STACK:
		ret = rp_inject_put_object(inject, RP_BLOCK_STACK, content.at,
					   rp_cursor_left(&content));
		break;
	case RP_BLOCK_THREAD:
		ret = pass_threads(inject, content);
		break;
	case RP_BLOCK_REMOVE_THREAD:
		ret = pass_removals(inject, content);
		break;
	case RP_BLOCK_LABEL_LIST:
		ret = pass_labels(inject, content);
		break;
	default:
		ret = -EPROTONOSUPPORT;
	}
	return ret < 0 ? ret : 1;
}

static int take_text(struct rp_cursor *c, const uint8_t **ret_text, uint32_t *ret_bytes)
{
	return rp_cursor_varint32(c, ret_bytes) < 0 ? -EBADMSG :
	       rp_cursor_take(c, *ret_bytes, ret_text);
}

static bool is_process_key(const uint8_t *key, uint32_t bytes)
{
	return bytes == strlen(RP_TRACE_KEY_PROCESS) && !memcmp(key, RP_TRACE_KEY_PROCESS, bytes);
}

/* Read the time base and the process from the Trace block. */
static int read_trace(struct rp_kernel_inject *inject, struct rp_cursor trace)
{
	const uint8_t *utc, *key, *value;
	uint32_t pointer, count, key_bytes, value_bytes;
	uint64_t rate;

	if (rp_cursor_take(&trace, 16, &utc) < 0 || rp_cursor_u64(&trace, &inject->start) < 0 ||
	    rp_cursor_u64(&trace, &rate) < 0 || rp_cursor_u32(&trace, &pointer) < 0 ||
	    rp_cursor_u32(&trace, &count) < 0)
		return -EBADMSG;
	while (count--) {
		if (take_text(&trace, &key, &key_bytes) < 0 ||
		    take_text(&trace, &value, &value_bytes) < 0)
			return -EBADMSG;
		if (!is_process_key(key, key_bytes))
			continue;
		for (uint32_t i = 0; i < value_bytes && value[i] >= '0' && value[i] <= '9'; i++)
			inject->process = inject->process * 10 + (value[i] - '0');
	}
	return rate == 1000000000 && inject->process ? 0 : -EPROTONOSUPPORT;
}

int rp_inject_take_header_v6(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	const struct rp_cursor whole = *c;
	const uint8_t *header;
	struct rp_cursor trace;
	uint32_t major;
	uint8_t kind;
	int ret;

	if (rp_cursor_take(c, HEADER_BYTES, &header) < 0 || !take_block(c, &kind, &trace))
		return 0;
	memcpy(&major, header + 12, sizeof(major));
	if (major != RP_NETTRACE_V6)
		return -EPROTONOSUPPORT;
	ret = kind == RP_BLOCK_TRACE ? read_trace(inject, trace) : -EBADMSG;
	if (ret)
		return ret;
	if (rp_object_stream_reserve(&inject->output, (size_t)(c->at - whole.at)) < 0)
		return -ENOMEM;
	rp_object_stream_put(&inject->output, whole.at, (size_t)(c->at - whole.at));
	inject->has_header = inject->output.is_v6 = true;
	inject->last = inject->start;
	ret = put_definitions(inject);
	if (!ret)
		ret = begin_rows(inject);
	return ret ? ret : 1;
}
