/* SPDX-License-Identifier: MIT */
/*
 * Writes an event into LTTng's buffers on the writer's thread: no lock, no allocation, any signal
 * handler.
 *
 * The writer checks the payload once, since a reader of LTTng's trace cannot find the next event
 * after an event without its fields. It copies a small payload first, and then checks and writes
 * the copy, so a text that another thread changes meanwhile cannot damage the trace. It writes the
 * parts unchanged, unless a text needs conversion or LTTng has another layout. In these cases it
 * first counts the pieces and then writes piece by piece.
 */
#include <string.h>

#include <lttng/ust-ringbuffer-context.h>
#include <lttng/urcu/urcu-ust.h>

#include "base/atomic.h"
#include "base/utf.h"
#include "modules/lttng/record.h"

#define TEXTS_CAPACITY 1024u	/* for filters on STRING16 fields */

/* The destination of pieces. Without `context` they are only counted. */
struct out {
	struct lttng_ust_ring_buffer_ctx *context;
	const struct lttng_ust_channel_buffer_ops *ops;
	size_t bytes, limit;
};

bool (*rp_lttng_activity_get)(struct rp_activity *ret_activity);

/* Return: whether there is a text. Sets `convert` if it is not valid UTF-8. */
static bool check_text(struct rp_lttng_record *record, struct rp_lttng_cursor *cursor, uint8_t kind)
{
	const uint8_t *text;
	size_t units;

	text = rp_lttng_cursor_take_text(cursor, kind == RP_LEAF_STRING ? 1 : 2, &units);
	if (text && kind == RP_LEAF_STRING && !rp_utf8_is_valid(text, units))
		record->convert = true;
	return text != NULL;
}

/* Return: whether the payload has the event's fields. Sets `convert` for invalid UTF-8. */
static bool check(struct rp_lttng_record *record)
{
	const struct rp_lttng_event *event = record->event;
	struct rp_lttng_cursor cursor;
	const uint8_t *end;

	rp_lttng_cursor_begin(&cursor, record);
	for (size_t i = 0; i < event->step_count; i++) {
		const struct rp_step *step = &event->steps[i];
		uint16_t count;

		if (!rp_lttng_cursor_take(&cursor, NULL, step->fixed_bytes))
			return false;
		if (step->kind == RP_LEAF_ARRAY) {
			if (!rp_lttng_cursor_take(&cursor, &count, sizeof(count)) ||
			    !rp_lttng_cursor_take(&cursor, NULL,
						  (size_t)count * step->element_bytes))
				return false;
		} else if (step->kind != RP_LEAF_SIGNED) {
			if (!check_text(record, &cursor, step->kind))
				return false;
		}
	}
	return rp_lttng_cursor_together(&cursor, &end) == 0;
}

/* Copy without a call if the piece is short, as most pieces are. */
static inline void copy_piece(uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (bytes > 32 || bytes < 4) {
		memcpy(to, from, bytes);
	} else if (bytes > 16) {
		memcpy(to, from, 16);
		memcpy(to + bytes - 16, from + bytes - 16, 16);
	} else if (bytes >= 8) {
		memcpy(to, from, 8);
		memcpy(to + bytes - 8, from + bytes - 8, 8);
	} else {
		memcpy(to, from, 4);
		memcpy(to + bytes - 4, from + bytes - 4, 4);
	}
}

/*
 * Makes the copy the payload. Eight NULs follow it, in the place of the ids: the search for the end
 * of a text stops there.
 */
static inline void copy_payload(struct rp_lttng_record *record)
{
	const struct rp_part *part = record->parts, *end = part + record->part_count;
	uint8_t *at = record->space;

	for (; part < end; part++) {
		size_t bytes = part->size_bytes;

		copy_piece(at, part->base, bytes);
		at += bytes;
	}
	memset(at, 0, 8);
	record->copy = (struct rp_part){ record->space, (size_t)(at - record->space) };
	record->parts = &record->copy;
	record->part_count = 1;
	record->is_copied = true;
	/* The check must read the copy: the compiler may not substitute the original. */
	rp_compiler_barrier();
}

/* Return the end of the text after its NUL, which may be one of those after the copy. */
static inline const uint8_t *skip_text(struct rp_lttng_record *record, const uint8_t *text)
{
	const uint64_t ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
	const uint8_t *end = text;
	uint64_t eight;

	/* The lowest set bit belongs to the first byte that is NUL or not ASCII. */
	for (;; end += 8) {
		memcpy(&eight, end, sizeof(eight));
		eight = ((eight - ones) | eight) & tops;
		if (eight)
			break;
	}
	end += __builtin_ctzll(eight) / 8;
	if (*end) {
		end += strlen((const char *)end);
		if (!rp_utf8_is_valid(text, (size_t)(end - text)))
			record->convert = true;
	}
	return end + 1;
}

static const uint8_t *skip_units(const uint8_t *text)
{
	while (text[0] || text[1])
		text += 2;
	return text + 2;
}

/* Return: the bytes of an array, whose count may lie beyond the copy. */
static inline size_t array_bytes(const uint8_t *at, uint32_t element_bytes)
{
	uint16_t count;

	memcpy(&count, at, sizeof(count));
	return sizeof(count) + (size_t)count * element_bytes;
}

/* Does the same as check(), on the copy. */
static inline bool check_copy(struct rp_lttng_record *record)
{
	const struct rp_step *step = record->event->steps, *last;
	const uint8_t *at = record->space, *end = at + record->copy.size_bytes;
	size_t bytes;

	for (last = step + record->event->step_count - 1;; step++) {
		if ((size_t)(end - at) < step->fixed_bytes)
			return false;
		at += step->fixed_bytes;
		if (step == last)
			return at == end;
		if (step->kind == RP_LEAF_STRING)
			bytes = (size_t)(skip_text(record, at) - at);
		else if (step->kind == RP_LEAF_STRING16)
			bytes = (size_t)(skip_units(at) - at);
		else
			bytes = array_bytes(at, step->element_bytes);
		if ((size_t)(end - at) < bytes)
			return false;
		at += bytes;
	}
}

/* Cuts bytes beyond the counted size: another thread changed a text after the count. */
static void put(struct out *out, const void *bytes, size_t size)
{
	if (out->context) {
		if (size > out->limit - out->bytes)
			size = out->limit - out->bytes;
		out->ops->event_write(out->context, bytes, size, 1);
	}
	out->bytes += size;
}

static void put_characters(struct out *out, const uint8_t *text, size_t bytes)
{
	const uint8_t *at = text, *end = text + bytes;

	while (at < end) {
		char encoded[4];

		put(out, encoded, rp_utf8_put(rp_utf8_next(&at, end), encoded));
	}
	put(out, "", 1);
}

static void put_units(struct out *out, const uint8_t *text, size_t units)
{
	while (units) {
		size_t step = rp_utf16_step(text, units);
		char encoded[6];

		put(out, encoded, rp_utf8_from_utf16(text, step, encoded));
		text += 2 * step;
		units -= step;
	}
	put(out, "", 1);
}

static void put_bytes(struct out *out, struct rp_lttng_cursor *cursor, size_t bytes)
{
	while (bytes) {
		const uint8_t *at;
		size_t some = rp_lttng_cursor_together(cursor, &at);

		if (some == 0)
			return;
		if (some > bytes)
			some = bytes;
		put(out, at, some);
		cursor->at += some;
		bytes -= some;
	}
}

/*
 * Writes one member of each struct after the cursor, whose copy here leaves the caller's unmoved.
 */
static void put_member(struct out *out, struct rp_lttng_cursor from, uint16_t count,
		       uint32_t struct_bytes, const struct rp_leaf *member)
{
	uint32_t bytes = (uint32_t)count * member->size;

	if (member->kind == RP_LEAF_GUID_MEMBER)
		put(out, &bytes, sizeof(bytes));
	else
		put(out, &count, sizeof(count));
	for (uint16_t i = 0; i < count; i++) {
		rp_lttng_cursor_take(&from, NULL, member->offset);
		put_bytes(out, &from, member->size);
		rp_lttng_cursor_take(&from, NULL, struct_bytes - member->offset - member->size);
	}
}

static void put_array(struct out *out, struct rp_lttng_cursor *cursor, const struct rp_leaf *leaf,
		      const struct rp_leaf *end)
{
	uint16_t count = 0;
	uint32_t bytes;

	rp_lttng_cursor_take(cursor, &count, sizeof(count));
	bytes = (uint32_t)count * leaf->size;
	if (leaf->kind == RP_LEAF_STRUCTS) {
		for (const struct rp_leaf *member = leaf + 1;
		     member < end && member->kind >= RP_LEAF_MEMBER; member++)
			put_member(out, *cursor, count, leaf->size, member);
		rp_lttng_cursor_take(cursor, NULL, bytes);
		return;
	}
	if (leaf->kind == RP_LEAF_GUIDS)
		put(out, &bytes, sizeof(bytes));
	else
		put(out, &count, sizeof(count));
	put_bytes(out, cursor, bytes);
}

static void put_leaf(struct out *out, struct rp_lttng_cursor *cursor, const struct rp_leaf *leaf,
		     const struct rp_leaf *end)
{
	const uint8_t *text;
	size_t units;

	switch (leaf->kind) {
	case RP_LEAF_STRING:
		text = rp_lttng_cursor_take_text(cursor, 1, &units);
		put_characters(out, text, text ? units : 0);
		break;
	case RP_LEAF_STRING16:
		text = rp_lttng_cursor_take_text(cursor, 2, &units);
		put_units(out, text, text ? units : 0);
		break;
	case RP_LEAF_ARRAY:
	case RP_LEAF_GUIDS:
	case RP_LEAF_STRUCTS:
		put_array(out, cursor, leaf, end);
		break;
	case RP_LEAF_MEMBER:
	case RP_LEAF_GUID_MEMBER:
		break;	/* written with their array */
	default:
		put_bytes(out, cursor, leaf->size);
	}
}

static void put_payload(struct out *out, const struct rp_lttng_record *record)
{
	const struct rp_leaf *leaves = record->event->leaves, *end;
	struct rp_lttng_cursor cursor;

	end = leaves + record->event->leaf_count;
	rp_lttng_cursor_begin(&cursor, record);
	for (const struct rp_leaf *leaf = leaves; leaf < end; leaf++)
		put_leaf(out, &cursor, leaf, end);
}

static void put_guid(const struct rp_guid *guid, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned int i = 0; i < sizeof(guid->bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*text++ = '-';
		*text++ = digits[guid->bytes[i] >> 4];
		*text++ = digits[guid->bytes[i] & 15];
	}
	*text = '\0';
}

/* Writes the ids after the payload's copy. */
static void set_activity(struct rp_lttng_record *record)
{
	static const struct rp_guid none;
	static const char neither[] = RP_LTTNG_NO_ACTIVITY "\0" RP_LTTNG_NO_ACTIVITY;
	struct rp_activity activity;
	const struct rp_guid *ids[2] = { &activity.id, &activity.related };
	char *at = (char *)record->space + record->copy.size_bytes;

	record->activity = at;
	if (!rp_lttng_activity_get(&activity)) {
		memcpy(at, neither, sizeof(neither));
		record->activity_bytes = sizeof(neither);
		record->related = at + sizeof(neither) / 2;
		return;
	}
	for (int i = 0; i < 2; i++) {
		record->related = at;
		if (memcmp(ids[i], &none, sizeof(none)) == 0) {
			memcpy(at, neither, sizeof(neither) / 2);
			at += sizeof(neither) / 2;
		} else {
			put_guid(ids[i], at);
			at += RP_GUID_TEXT;
		}
	}
	record->activity_bytes = (size_t)(at - record->activity);
}

static void write_record(const struct rp_lttng_record *record,
			 struct lttng_ust_event_recorder *recorder,
			 struct lttng_ust_probe_ctx *probe)
{
	const struct lttng_ust_channel_buffer_ops *ops = recorder->chan->ops;
	struct lttng_ust_ring_buffer_ctx context;

	lttng_ust_ring_buffer_ctx_init(&context, recorder, record->bytes, 1, probe);
	if (ops->event_reserve(&context) < 0)
		return;	/* LTTng counted the loss */
	/* One copy costs less than a call of LTTng for each piece. */
	if (record->is_copied && !record->convert) {
		ops->event_write(&context, record->space, record->bytes, 1);
		ops->event_commit(&context);
		return;
	}
	if (record->convert) {
		struct out out = {
			.context = &context, .ops = ops,
			.limit = record->bytes - record->activity_bytes,
		};

		put_payload(&out, record);
		while (out.bytes < out.limit)
			put(&out, "", 1);
	} else {
		for (unsigned int i = 0; i < record->part_count; i++)
			ops->event_write(&context, record->parts[i].base,
					 record->parts[i].size_bytes, 1);
	}
	ops->event_write(&context, record->activity, record->activity_bytes, 1);
	ops->event_commit(&context);
}

static void notify(struct lttng_ust_event_notifier *notifier, struct lttng_ust_probe_ctx *probe,
		   const char *stack)
{
	struct lttng_ust_notification_ctx context = {
		.struct_size = sizeof(context),
		.eval_capture = rp_load_relaxed(&notifier->eval_capture),
	};

	notifier->notification_send(notifier, stack, probe, &context);
}

/* Out of line, so that events without filters do not need this stack space. */
static __attribute__((noinline)) void probe_with_stack(struct lttng_ust_event_common *event,
						       const struct rp_lttng_record *record,
						       struct lttng_ust_probe_ctx *probe)
{
	char *stack = __builtin_alloca(16 * record->event->field_count), space[TEXTS_CAPACITY];

	rp_lttng_fill_stack(record, stack, space, sizeof(space));
	if (rp_load_relaxed(&event->eval_filter) &&
	    event->run_filter(event, stack, probe, NULL) != LTTNG_UST_EVENT_FILTER_ACCEPT)
		return;
	if (event->type == LTTNG_UST_EVENT_TYPE_RECORDER)
		write_record(record, event->child, probe);
	else
		notify(event->child, probe, stack);
}

void rp_lttng_probe(void *data, const void *argument)
{
	struct lttng_ust_event_common *event = data;
	struct lttng_ust_probe_ctx probe = { .struct_size = sizeof(probe) };

	if (event->type == LTTNG_UST_EVENT_TYPE_RECORDER) {
		struct lttng_ust_event_recorder *recorder = event->child;
		struct lttng_ust_channel_common *channel = recorder->chan->parent;

		if (!rp_load_relaxed(&channel->session->active) ||
		    !rp_load_relaxed(&channel->enabled))
			return;
	}
	if (!rp_load_relaxed(&event->enabled))
		return;
	if (event->type == LTTNG_UST_EVENT_TYPE_RECORDER && !rp_load_relaxed(&event->eval_filter))
		write_record(argument, event->child, &probe);
	else
		probe_with_stack(event, argument, &probe);
}

/* Return: whether the payload can go to LTTng. Sets the size that LTTng reserves. */
static bool prepare(struct rp_lttng_record *record, uint64_t payload_bytes)
{
	struct out out = { 0 };

	record->convert = record->event->convert;
	record->is_copied = false;
	record->copy.size_bytes = 0;
	if (payload_bytes > RP_PAYLOAD_MAX)
		return false;
	if (payload_bytes <= RP_COPIED_MAX)
		copy_payload(record);
	if (!(record->is_copied ? check_copy(record) : check(record)))
		return false;
	if (record->convert) {
		put_payload(&out, record);
		payload_bytes = out.bytes;
	}
	set_activity(record);
	record->bytes = payload_bytes + record->activity_bytes;
	return true;
}

void rp_lttng_write(struct rp_export *export, const struct rp_part *parts,
		    unsigned int part_count, uint64_t payload_bytes)
{
	const struct lttng_ust_tracepoint_probe *probe;
	struct rp_lttng_record record;

	record.event = export->data;
	record.parts = parts;
	record.part_count = part_count;
	lttng_ust_urcu_read_lock();
	probe = __atomic_load_n(&record.event->tracepoint.probes, __ATOMIC_ACQUIRE);
	if (probe && !prepare(&record, payload_bytes)) {
		rp_add_relaxed(&export->lost, 1);
	} else if (probe) {
		for (; probe->func; probe++)
			((void (*)(void *, const void *))probe->func)(probe->data, &record);
	}
	lttng_ust_urcu_read_unlock();
}
