/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_writer.h"

#include <errno.h>
#include <string.h>

#include "nettrace/convert.h"
#include "nettrace/encoder_parts.h"

#define BLOCK_BYTES (96u << 10)
#define CONTENT_BYTES (512u << 10)	/* a block of stacks or labels is closed at this size */
#define WRITE_BYTES (1u << 20)
/* The next sequence point then removes all rows. */
#define ROWS_MAX (1u << 16)
/* The key in `captures` of the index that all events have while they are sorted. */
#define SORTED UINT64_MAX
/* As in points.c: losses of no thread, in version 4. */
#define LOST_THREAD (1ull << 63)
#define LOST_STEP 0x7fffffffull
/* In version 4, a capture thread that is not the event's thread. */
#define CAPTURE_INDEX (1ull << 62)

static int flush(struct rp_trace_writer *writer, size_t at_least)
{
	struct rp_object_stream *stream = &writer->stream;
	const size_t size = stream->output.size - stream->head;
	int ret;

	if (size < at_least || !size)
		return 0;
	ret = rp_output_write(writer->output, stream->output.bytes + stream->head, size);
	writer->bytes += size;
	stream->head = stream->output.size = 0;
	return ret;
}

static int put_row(struct rp_trace_writer *writer, uint64_t process, uint64_t thread,
		   const struct rp_thread_row *like)
{
	return rp_thread_row_put(&writer->thread_rows, writer->next_index++, process, thread, like);
}

/* The index of the losses, whose key no capture thread has: it is in no table. */
static int begin_rows(struct rp_trace_writer *writer)
{
	struct rp_thread_slot *slot;
	int ret = rp_thread_table_add(&writer->captures, SORTED, &slot);

	if (ret == 0)
		slot->index = INDEX_EVENTS;
	if (ret == 0)
		ret = put_row(writer, 0, 0, NULL);
	return ret ? ret : put_row(writer, 0, 0, NULL);
}

static void put_pair(struct rp_outbuf *out, uint32_t *count, const char *key, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	rp_outbuf_put_text8(out, key);
	rp_outbuf_put_text8(out, text);
	++*count;
}

/* Version 6 has them already; of version 4, what its head has as numbers. */
static void put_pairs(struct rp_outbuf *out, const struct rp_reader *reader,
		      const struct rp_outbuf *more, uint32_t more_count)
{
	const struct rp_reader_info *info = &reader->info;
	const size_t count_at = out->size;
	const char *key, *value;
	uint32_t count = 0;

	rp_outbuf_put_u32(out, 0);
	while (rp_reader_get_key_value(reader, count, &key, &value) == 0) {
		rp_outbuf_put_text8(out, key);
		rp_outbuf_put_text8(out, value);
		count++;
	}
	if (info->version != RP_NETTRACE_V6) {
		put_pair(out, &count, RP_TRACE_KEY_PROCESSORS, info->processors);
		put_pair(out, &count, RP_TRACE_KEY_PROCESS, info->process_id);
		if (reader->sample_interval_ns)
			put_pair(out, &count, RP_TRACE_KEY_SAMPLING, reader->sample_interval_ns);
	}
	rp_outbuf_put(out, more->bytes, more->size);
	count += more_count;
	rp_outbuf_patch_u32(out, count_at, count);
}

static void put_clock(struct rp_object_stream *stream, const struct rp_reader_info *info)
{
	rp_object_stream_put_utc(stream, info->start_utc_ns);
	rp_object_stream_put_u64(stream, info->start_ticks);
	rp_object_stream_put_u64(stream, info->ticks_per_second);
	rp_object_stream_put_u32(stream, info->pointer_bytes);
}

static int begin_v6(struct rp_trace_writer *writer, const struct rp_outbuf *more,
		    uint32_t more_count)
{
	static const uint32_t head[3] = { 0, RP_NETTRACE_V6, 0 };
	struct rp_object_stream *stream = &writer->stream;
	struct rp_outbuf pairs = { 0 };
	int ret = -ENOMEM;

	put_pairs(&pairs, writer->reader, more, more_count);
	if (!pairs.failed && rp_object_stream_reserve(stream, pairs.size + 128) == 0) {
		rp_object_stream_put(stream, RP_NETTRACE_MAGIC, strlen(RP_NETTRACE_MAGIC));
		rp_object_stream_put(stream, head, sizeof(head));
		rp_object_stream_begin_block(stream, RP_BLOCK_TRACE, (uint32_t)(pairs.size + 36));
		put_clock(stream, &writer->reader->info);
		rp_object_stream_put(stream, pairs.bytes, pairs.size);
		ret = begin_rows(writer);
	}
	rp_outbuf_fini(&pairs);
	return ret;
}

/* The value of a key of version 6 that the head of version 4 has as a number. */
static uint32_t sample_interval(const struct rp_reader *reader)
{
	const char *key, *value;

	for (uint32_t i = 0; rp_reader_get_key_value(reader, i, &key, &value) == 0; i++)
		if (!strcmp(key, RP_TRACE_KEY_SAMPLING))
			return (uint32_t)strtoul(value, NULL, 10);
	return reader->sample_interval_ns;
}

static int begin_v4(struct rp_trace_writer *writer)
{
	static const uint8_t object[] = "\5\5\1\4\0\0\0\4\0\0\0\5\0\0\0Trace\6";
	const struct rp_reader_info *info = &writer->reader->info;
	struct rp_object_stream *stream = &writer->stream;

	if (rp_object_stream_reserve(stream, 256) < 0)
		return -ENOMEM;
	rp_object_stream_put(stream, RP_NETTRACE_MAGIC, strlen(RP_NETTRACE_MAGIC));
	rp_object_stream_put_u32(stream, strlen(RP_NETTRACE_SERIALIZER));
	rp_object_stream_put(stream, RP_NETTRACE_SERIALIZER, strlen(RP_NETTRACE_SERIALIZER));
	rp_object_stream_put(stream, object, sizeof(object) - 1);
	put_clock(stream, info);
	rp_object_stream_put_u32(stream, info->process_id);
	rp_object_stream_put_u32(stream, info->processors);
	rp_object_stream_put_u32(stream, sample_interval(writer->reader));
	rp_object_stream_end_block(stream);
	return 0;
}

int rp_trace_writer_begin(struct rp_trace_writer *writer, const struct rp_reader *reader,
			  uint32_t version, struct rp_output *output,
			  const struct rp_outbuf *pairs, uint32_t pair_count)
{
	*writer = (struct rp_trace_writer){
		.reader = reader, .output = output, .is_v6 = version == RP_NETTRACE_V6,
		.last_time = reader->info.start_ticks,
	};
	writer->stream.is_v6 = writer->is_v6;
	rp_label_set_init(&writer->ids);
	return writer->is_v6 ? begin_v6(writer, pairs, pair_count) : begin_v4(writer);
}

uint32_t rp_trace_writer_take_id(struct rp_trace_writer *writer)
{
	return ++writer->metadata_ids;
}

int rp_trace_writer_put_definition(struct rp_trace_writer *writer, const struct rp_outbuf *blob)
{
	uint8_t header[32] = { RP_EVENT_SORTED | RP_EVENT_SIZE }, *p = header + 1;
	struct rp_outbuf *metadata = &writer->metadata;

	if (writer->is_v6) {
		if (!metadata->size)
			rp_outbuf_put(metadata, "\0", 2);
		rp_outbuf_put(metadata, blob->bytes, blob->size);
		return blob->failed || metadata->failed ? -ENOMEM : 0;
	}
	/* As in encoder.c: an event without a metadata id, at the time of the last event. */
	p = rp_wire_varint_put(p, metadata->size ? 0 : writer->last_time);
	p = rp_wire_varint_put(p, blob->size);
	if (!metadata->size && rp_outbuf_reserve(metadata, RP_BLOCK_HEADER_BYTES) == 0) {
		rp_wire_block_header_put(metadata->bytes, writer->last_time, writer->last_time);
		metadata->size = RP_BLOCK_HEADER_BYTES;
	}
	rp_outbuf_put(metadata, header, (size_t)(p - header));
	rp_outbuf_put(metadata, blob->bytes, blob->size);
	return blob->failed || metadata->failed ? -ENOMEM : 0;
}

static void put_content(struct rp_trace_writer *writer, enum rp_block_kind kind,
			struct rp_outbuf *content)
{
	if (content->size)
		rp_object_stream_put_block(&writer->stream, kind, content->bytes, content->size);
	content->size = 0;
}

static int close_block(struct rp_trace_writer *writer)
{
	struct rp_object_stream *stream = &writer->stream;
	struct rp_outbuf *events = &writer->events;

	if (rp_object_stream_reserve(stream, writer->metadata.size + writer->thread_rows.size +
				     writer->stacks.size + writer->lists.size +
				     writer->ids.content.size + events->size +
				     6 * RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	put_content(writer, RP_BLOCK_METADATA, &writer->metadata);
	put_content(writer, RP_BLOCK_THREAD, &writer->thread_rows);
	put_content(writer, RP_BLOCK_STACK, &writer->stacks);
	put_content(writer, RP_BLOCK_LABEL_LIST, &writer->lists);
	put_content(writer, RP_BLOCK_LABEL_LIST, &writer->ids.content);
	rp_label_set_next(&writer->ids, false);
	if (events->size)
		rp_wire_block_header_put(events->bytes, writer->first_time, writer->last_time);
	put_content(writer, RP_BLOCK_EVENT, events);
	memset(&writer->state, 0, sizeof(writer->state));
	return flush(writer, WRITE_BYTES);
}

/*
 * Copy a stack or a label list into the block under construction, unless it was copied since the
 * last sequence point. `ret_id` is its id in the new trace.
 */
static int intern(struct rp_outbuf *block, struct rp_thread_table *ids, uint32_t id,
		  const void *bytes, size_t size, bool has_size, uint32_t *ret_id)
{
	struct rp_thread_slot *slot;
	uint32_t count = 0, row_bytes = (uint32_t)size;
	int ret = rp_thread_table_add(ids, id, &slot);

	if (ret)
		return ret;
	if (!slot->sequence) {
		slot->sequence = (uint32_t)ids->count;
		if (!block->size) {
			rp_outbuf_put_u32(block, slot->sequence);
			rp_outbuf_put_u32(block, 0);
		}
		if (has_size)
			rp_outbuf_put_u32(block, row_bytes);
		rp_outbuf_put(block, bytes, size);
		if (block->failed)
			return -ENOMEM;
		memcpy(&count, block->bytes + 4, sizeof(count));
		count++;
		memcpy(block->bytes + 4, &count, sizeof(count));
	}
	*ret_id = slot->sequence;
	return 0;
}

/* The row of the current event in the other trace. Return: NULL: version 4 has none. */
static const struct rp_thread_row *row_of(const struct rp_trace_writer *writer)
{
	return rp_thread_rows_find(&writer->reader->thread_rows, writer->reader->event.thread);
}

static uint64_t hash_thread(uint64_t process, uint64_t thread, const struct rp_thread_row *like)
{
	return (process ^ rp_thread_row_hash(like) * 0x100000001b3ull) * 0x9e3779b97f4a7c15ull +
	       thread;
}

/* Version 6: find or declare the row of a thread. */
static int find_thread(struct rp_trace_writer *writer, uint64_t process, uint64_t thread,
		       const struct rp_thread_row *like, uint64_t *ret_index)
{
	struct rp_thread_slot *slot;
	int ret = rp_thread_table_add(&writer->threads, hash_thread(process, thread, like), &slot);

	if (ret)
		return ret;
	if (!slot->index) {
		slot->index = (uint32_t)writer->next_index & 0x3fffffff;
		ret = put_row(writer, process, thread, like);
	}
	*ret_index = slot->index;
	return ret;
}

/* The capture thread of an event, as the new trace has it. */
static uint64_t capture_of(const struct rp_trace_writer *writer,
			   const struct rp_trace_writer_event *event)
{
	const struct rp_wire_event *wire = &writer->reader->event;
	const bool from_v6 = writer->reader->info.version == RP_NETTRACE_V6;

	if (writer->is_v6)
		return writer->is_unsorted ? wire->capture_thread : SORTED;
	if (!from_v6)
		return wire->capture_thread;
	return !writer->is_unsorted || wire->capture_thread == wire->thread ?
	       event->from->thread : CAPTURE_INDEX | wire->capture_thread;
}

/* The number of an event. In version 4, a thread's first number is the base of its losses. */
static int number(struct rp_trace_writer *writer, const struct rp_trace_writer_event *event,
		  struct rp_wire_event *wire)
{
	struct rp_thread_slot *slot;
	const uint64_t key = capture_of(writer, event);
	const size_t known = writer->captures.count;
	int ret = rp_thread_table_add(&writer->captures, key, &slot);
	uint64_t lost = event->lost_before;

	if (ret == 0 && writer->is_v6 && writer->captures.count != known) {
		slot->index = (uint32_t)writer->next_index & 0x3fffffff;
		ret = put_row(writer, 0, 0, NULL);
	}
	if (ret)
		return ret;
	if (lost >= LOST_STEP || (!writer->is_v6 && !slot->sequence)) {
		writer->lost_pending += lost;
		lost = 0;
	}
	/* In version 4, 0 is no number, and 1 begins a new thread. */
	if (!writer->is_v6 && slot->sequence + lost + 1 > UINT32_MAX)
		slot->sequence = 0;
	slot->sequence += (uint32_t)lost + 1;
	writer->captures.marked += !slot->marked;
	slot->marked = 1;
	wire->sequence = slot->sequence;
	wire->capture_thread = writer->is_v6 ? slot->index : key;
	return 0;
}

static int find_labels(struct rp_trace_writer *writer, const struct rp_trace_writer_event *event,
		       uint32_t *ret_labels)
{
	const uint32_t id = writer->reader->event.labels;
	const void *bytes;
	size_t size;

	if (event->labels)
		return rp_label_set_intern_list(&writer->ids, event->labels->bytes,
						event->labels->size, ret_labels);
	if (writer->reader->info.version != RP_NETTRACE_V6)
		return rp_label_set_intern(&writer->ids, &event->from->activity,
					   &event->from->related_activity, ret_labels);
	bytes = rp_point_index_find(&writer->reader->labels.index, id, &size);
	return bytes ? intern(&writer->lists, &writer->list_ids, id, bytes, size, false,
			      ret_labels) : 0;
}

/* The parts of an event's header that refer to rows. */
static int resolve(struct rp_trace_writer *writer, const struct rp_trace_writer_event *event,
		   struct rp_wire_event *wire)
{
	const struct rp_reader *reader = writer->reader;
	const struct rp_reader_event *from = event->from;
	size_t frame_bytes = (size_t)from->frame_count * reader->info.pointer_bytes;
	int ret = number(writer, event, wire);

	wire->thread = from->thread;
	if (ret == 0 && writer->is_v6)
		ret = find_thread(writer, event->process, from->thread,
				  event->is_added ? NULL : event->row ? event->row :
				  row_of(writer), &wire->thread);
	if (ret || event->is_added)
		return ret;
	if (frame_bytes)
		ret = intern(&writer->stacks, &writer->stack_ids, reader->event.stack,
			     from->frames, frame_bytes, true, &wire->stack);
	if (ret == 0 && writer->is_v6)
		ret = find_labels(writer, event, &wire->labels);
	rp_guid_swap(from->activity.bytes, wire->activity);
	rp_guid_swap(from->related_activity.bytes, wire->related);
	return ret;
}

static int put_event(struct rp_trace_writer *writer, struct rp_wire_event *wire,
		     const void *payload)
{
	struct rp_outbuf *events = &writer->events;

	if (rp_outbuf_reserve(events, RP_BLOCK_HEADER_BYTES + RP_WIRE_HEADER_MAX +
			      wire->payload_bytes) < 0)
		return -ENOMEM;
	if (!events->size) {
		events->size = RP_BLOCK_HEADER_BYTES;
		writer->first_time = wire->time;
	}
	events->size += rp_wire_event_put(&writer->state, wire, writer->is_v6,
					  events->bytes + events->size);
	rp_outbuf_put(events, payload, wire->payload_bytes);
	writer->last_time = wire->time;
	return 0;
}

int rp_trace_writer_event(struct rp_trace_writer *writer,
			  const struct rp_trace_writer_event *event)
{
	const struct rp_reader *reader = writer->reader;
	struct rp_wire_event wire = {
		.time = reader->event.time, .metadata_id = event->metadata_id,
		.processor = event->from->processor, .sorted = reader->event.sorted,
		.payload_bytes = (uint32_t)event->payload_bytes,
	};
	int ret = 0;

	if (event->payload_bytes > RP_BLOCK_SIZE_MAX / 2)
		return -EMSGSIZE;
	writer->is_unsorted |= !wire.sorted;
	if (writer->events.size + event->payload_bytes > BLOCK_BYTES ||
	    (writer->is_unsorted && writer->block_offset != reader->block_offset) ||
	    writer->stacks.size > CONTENT_BYTES || writer->lists.size > CONTENT_BYTES ||
	    rp_label_set_full(&writer->ids, event->labels ? event->labels->size : 0))
		ret = close_block(writer);
	writer->block_offset = reader->block_offset;
	if (ret == 0)
		ret = resolve(writer, event, &wire);
	/* Readers take a block's unsorted events for those of the capture thread before them. */
	if (ret == 0 && !wire.sorted && writer->events.size &&
	    wire.capture_thread != writer->state.capture_thread)
		ret = close_block(writer);
	return ret ? ret : put_event(writer, &wire, event->payload);
}

static void put_number(struct rp_trace_writer *writer, struct rp_outbuf *content, uint64_t thread,
		       uint32_t last, uint32_t *count)
{
	uint8_t entry[20], *p = entry;

	if (writer->is_v6) {
		p = rp_wire_varint_put(p, thread);
		p = rp_wire_varint_put(p, last);
	} else {
		memcpy(p, &thread, sizeof(thread));
		memcpy(p + sizeof(thread), &last, sizeof(last));
		p += sizeof(thread) + sizeof(last);
	}
	rp_outbuf_put(content, entry, (size_t)(p - entry));
	++*count;
}

/* points.c explains the steps, and why version 4 has each number twice. */
static void put_lost(struct rp_trace_writer *writer, struct rp_outbuf *content, uint32_t *count)
{
	uint64_t *left = &writer->lost_pending;

	do {
		const uint64_t reported = writer->lost % LOST_STEP;
		const uint64_t thread = LOST_THREAD + writer->lost / LOST_STEP;
		const uint64_t step = *left < LOST_STEP - reported ? *left : LOST_STEP - reported;

		writer->lost += step;
		*left -= step;
		if (!writer->is_v6)
			put_number(writer, content, thread, (uint32_t)(1 + reported), count);
		if (step)
			put_number(writer, content, writer->is_v6 ? INDEX_LOST : thread,
				   (uint32_t)(writer->is_v6 ? writer->lost : 1 + reported + step),
				   count);
	} while (*left);
}

static void put_marked(struct rp_trace_writer *writer, struct rp_outbuf *content, uint32_t *count)
{
	struct rp_thread_table *captures = &writer->captures;

	for (size_t i = 0; captures->marked; i++) {
		struct rp_thread_slot *slot = &captures->slots[i];

		if (!slot->marked)
			continue;
		slot->marked = 0;
		captures->marked--;
		put_number(writer, content, writer->is_v6 ? slot->index : slot->thread,
			   slot->sequence, count);
	}
}

static void put_point(struct rp_trace_writer *writer, struct rp_outbuf *content, uint32_t flags)
{
	uint32_t count = 0;
	size_t count_at;

	rp_outbuf_put_u64(content, writer->last_time);
	if (writer->is_v6)
		rp_outbuf_put_u32(content, flags);
	count_at = content->size;
	rp_outbuf_put_u32(content, 0);
	put_marked(writer, content, &count);
	put_lost(writer, content, &count);
	rp_outbuf_patch_u32(content, count_at, count);
}

/* The ids of stacks and labels start over, and if there are many rows, so do these. */
static int forget(struct rp_trace_writer *writer, bool rows_too)
{
	rp_thread_table_fini(&writer->stack_ids);
	rp_thread_table_fini(&writer->list_ids);
	rp_label_set_next(&writer->ids, true);
	if (!rows_too)
		return 0;
	rp_thread_table_fini(&writer->threads);
	rp_thread_table_fini(&writer->captures);
	writer->next_index = 0;
	writer->lost = 0;
	return begin_rows(writer);
}

int rp_trace_writer_point(struct rp_trace_writer *writer, uint64_t lost)
{
	const bool flush_rows = writer->is_v6 && writer->next_index > ROWS_MAX;
	struct rp_outbuf content = { 0 };
	int ret = close_block(writer);

	writer->lost_pending += lost;
	if (ret == 0)
		put_point(writer, &content, flush_rows ? RP_POINT_FLUSH_THREADS : 0);
	if (ret == 0 && (content.failed || rp_object_stream_reserve(&writer->stream,
								      content.size +
								      RP_OBJECT_BYTES) < 0))
		ret = -ENOMEM;
	if (ret == 0) {
		rp_object_stream_put_block(&writer->stream, RP_BLOCK_SEQUENCE_POINT, content.bytes,
					   content.size);
		ret = forget(writer, flush_rows);
	}
	rp_outbuf_fini(&content);
	return ret;
}

int rp_trace_writer_end(struct rp_trace_writer *writer)
{
	int ret = writer->lost_pending || writer->captures.marked ?
		  rp_trace_writer_point(writer, 0) : close_block(writer);

	if (ret == 0)
		ret = rp_object_stream_put_end(&writer->stream);
	return ret ? ret : flush(writer, 0);
}

void rp_trace_writer_fini(struct rp_trace_writer *writer)
{
	rp_outbuf_fini(&writer->stream.output);
	rp_outbuf_fini(&writer->metadata);
	rp_outbuf_fini(&writer->thread_rows);
	rp_outbuf_fini(&writer->stacks);
	rp_outbuf_fini(&writer->lists);
	rp_outbuf_fini(&writer->events);
	rp_thread_table_fini(&writer->captures);
	rp_thread_table_fini(&writer->threads);
	rp_thread_table_fini(&writer->stack_ids);
	rp_thread_table_fini(&writer->list_ids);
	rp_label_set_fini(&writer->ids);
}
