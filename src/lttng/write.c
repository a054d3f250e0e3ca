/* SPDX-License-Identifier: MIT */
/*
 * An event on its way into LTTng's buffers, on the writer's thread: no lock, no allocation, any
 * signal handler.
 *
 * The payload is looked at once, since a reader of LTTng's trace cannot find the next event behind
 * one that does not have its fields. Then its parts go out as they are, unless a text has to be
 * converted or LTTng has another layout for it; these go out piece by piece, after the pieces were
 * counted.
 */
#include <string.h>

#include <lttng/ust-ringbuffer-context.h>
#include <lttng/urcu/urcu-ust.h>

#include "base/atomic.h"
#include "base/utf.h"
#include "lttng/event.h"

#define GUID_TEXT 37u		/* with the NUL */
#define TEXTS_ROOM 1024u	/* for filters that look at STRING16s */

/* Where in a payload one is: a part, and bytes of it. */
struct cursor {
	const struct rp_part *part, *end;
	size_t at;
};

struct record {
	const struct rp_lttng_event *event;
	const struct rp_part *parts;
	unsigned int part_count;
	bool convert;
	size_t bytes;			/* as LTTng gets it, all in all */
	char activity[2][GUID_TEXT];
	size_t activity_bytes[2];	/* with the NUL */
};

/* Pieces on their way out; without `channel` they are only counted. */
struct out {
	struct lttng_ust_ring_buffer_ctx *context;
	const struct lttng_ust_channel_buffer_ops *ops;
	size_t bytes, limit;
};

void (*rp_lttng_activity_get)(struct rp_activity *ret_activity);

static void begin(struct cursor *cursor, const struct record *record)
{
	cursor->part = record->parts;
	cursor->end = record->parts + record->part_count;
	cursor->at = 0;
}

/* The bytes that lie together from here on; 0 at the end. */
static size_t together(struct cursor *cursor, const uint8_t **ret_at)
{
	while (cursor->part < cursor->end && cursor->at == cursor->part->size_bytes) {
		cursor->part++;
		cursor->at = 0;
	}
	if (cursor->part == cursor->end)
		return 0;
	*ret_at = (const uint8_t *)cursor->part->base + cursor->at;
	return cursor->part->size_bytes - cursor->at;
}

/* Copies, or only skips where `to` is NULL. */
static bool take(struct cursor *cursor, void *to, size_t bytes)
{
	uint8_t *out = to;

	while (bytes) {
		const uint8_t *at;
		size_t some = together(cursor, &at);

		if (some == 0)
			return false;
		if (some > bytes)
			some = bytes;
		if (out)
			out = (uint8_t *)memcpy(out, at, some) + some;
		cursor->at += some;
		bytes -= some;
	}
	return true;
}

/* A text that lies in one part; `units` of it without the NUL. */
static const uint8_t *take_text(struct cursor *cursor, size_t unit, size_t *ret_units)
{
	const uint8_t *at, *end;
	size_t bytes = together(cursor, &at), units = 0;

	if (bytes == 0)
		return NULL;
	if (unit == 1) {
		end = memchr(at, 0, bytes);
		if (!end)
			return NULL;
		units = (size_t)(end - at);
	} else {
		while (2 * units + 1 < bytes && (at[2 * units] || at[2 * units + 1]))
			units++;
		if (2 * units + 1 >= bytes)
			return NULL;
	}
	cursor->at += (units + 1) * unit;
	*ret_units = units;
	return at;
}

/* Whether the payload is that of the event's fields; finds out whether a text is no UTF-8. */
static bool check(struct record *record)
{
	const struct rp_lttng_event *event = record->event;
	struct cursor cursor;
	const uint8_t *text;
	size_t units;

	begin(&cursor, record);
	for (size_t i = 0; i < event->step_count; i++) {
		const struct rp_step *step = &event->steps[i];
		uint16_t count;

		if (!take(&cursor, NULL, step->fixed_bytes))
			return false;
		if (step->kind == RP_LEAF_ARRAY) {
			if (!take(&cursor, &count, sizeof(count)) ||
			    !take(&cursor, NULL, (size_t)count * step->element_bytes))
				return false;
		} else if (step->kind != RP_LEAF_SIGNED) {
			text = take_text(&cursor, step->kind == RP_LEAF_STRING ? 1 : 2, &units);
			if (!text)
				return false;
			if (step->kind == RP_LEAF_STRING && !rp_utf8_is_valid(text, units))
				record->convert = true;
		}
	}
	return together(&cursor, &text) == 0;
}

/* What does not fit any more was changed by another thread after it was counted. */
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

static void put_bytes(struct out *out, struct cursor *cursor, size_t bytes)
{
	while (bytes) {
		const uint8_t *at;
		size_t some = together(cursor, &at);

		if (some == 0)
			return;
		if (some > bytes)
			some = bytes;
		put(out, at, some);
		cursor->at += some;
		bytes -= some;
	}
}

/* One member of each of the structs that the cursor is before; they are left for the next one. */
static void put_member(struct out *out, struct cursor from, uint16_t count, uint32_t struct_bytes,
		       const struct rp_leaf *member)
{
	uint32_t bytes = (uint32_t)count * member->size;

	if (member->kind == RP_LEAF_GUID_MEMBER)
		put(out, &bytes, sizeof(bytes));
	else
		put(out, &count, sizeof(count));
	for (uint16_t i = 0; i < count; i++) {
		take(&from, NULL, member->offset);
		put_bytes(out, &from, member->size);
		take(&from, NULL, struct_bytes - member->offset - member->size);
	}
}

static void put_array(struct out *out, struct cursor *cursor, const struct rp_leaf *leaf,
		      const struct rp_leaf *end)
{
	uint16_t count = 0;
	uint32_t bytes;

	take(cursor, &count, sizeof(count));
	bytes = (uint32_t)count * leaf->size;
	if (leaf->kind == RP_LEAF_STRUCTS) {
		for (const struct rp_leaf *member = leaf + 1;
		     member < end && member->kind >= RP_LEAF_MEMBER; member++)
			put_member(out, *cursor, count, leaf->size, member);
		take(cursor, NULL, bytes);
		return;
	}
	if (leaf->kind == RP_LEAF_GUIDS)
		put(out, &bytes, sizeof(bytes));
	else
		put(out, &count, sizeof(count));
	put_bytes(out, cursor, bytes);
}

static void put_leaf(struct out *out, struct cursor *cursor, const struct rp_leaf *leaf,
		     const struct rp_leaf *end)
{
	const uint8_t *text;
	size_t units;

	switch (leaf->kind) {
	case RP_LEAF_STRING:
		text = take_text(cursor, 1, &units);
		put_characters(out, text, text ? units : 0);
		break;
	case RP_LEAF_STRING16:
		text = take_text(cursor, 2, &units);
		put_units(out, text, text ? units : 0);
		break;
	case RP_LEAF_ARRAY:
	case RP_LEAF_GUIDS:
	case RP_LEAF_STRUCTS:
		put_array(out, cursor, leaf, end);
		break;
	case RP_LEAF_MEMBER:
	case RP_LEAF_GUID_MEMBER:
		break;	/* put with their array */
	default:
		put_bytes(out, cursor, leaf->size);
	}
}

static void put_payload(struct out *out, const struct record *record)
{
	const struct rp_leaf *leaves = record->event->leaves, *end;
	struct cursor cursor;

	end = leaves + record->event->leaf_count;
	begin(&cursor, record);
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

static void set_activity(struct record *record)
{
	static const struct rp_guid none;
	struct rp_activity activity;
	const struct rp_guid *ids[2] = { &activity.id, &activity.related };

	rp_lttng_activity_get(&activity);
	for (int i = 0; i < 2; i++) {
		memcpy(record->activity[i], RP_LTTNG_NO_ACTIVITY, sizeof(RP_LTTNG_NO_ACTIVITY));
		record->activity_bytes[i] = sizeof(RP_LTTNG_NO_ACTIVITY);
		if (memcmp(ids[i], &none, sizeof(none)) == 0)
			continue;
		put_guid(ids[i], record->activity[i]);
		record->activity_bytes[i] = GUID_TEXT;
	}
}

static char *push(char *stack, const void *value, size_t size)
{
	return (char *)memcpy(stack, value, size) + size;
}

static char *push_text(char *stack, const char *text)
{
	return push(stack, &text, sizeof(text));
}

/* Integers as 64 bits, floats as double: what LTTng's interpreter expects. */
static char *push_number(char *stack, const struct rp_leaf *leaf, struct cursor *cursor)
{
	uint64_t bits = 0;
	double number;
	float single;

	take(cursor, &bits, leaf->size);
	if (leaf->kind == RP_LEAF_FLOAT) {
		memcpy(&number, &bits, sizeof(number));
		if (leaf->size == sizeof(single)) {
			memcpy(&single, &bits, sizeof(single));
			number = (double)single;
		}
		return push(stack, &number, sizeof(number));
	}
	if (leaf->kind == RP_LEAF_SIGNED && leaf->size < 8) {
		unsigned int unused = 64 - 8 * leaf->size;

		bits = (uint64_t)((int64_t)(bits << unused) >> unused);
	}
	return push(stack, &bits, sizeof(bits));
}

/* What lies in several parts is not seen by filters: they find nothing there. */
static char *push_array(char *stack, struct cursor *cursor, uint32_t size, bool counted)
{
	const uint8_t *at = (const uint8_t *)"";
	unsigned long elements = size;
	uint64_t shown;
	uint16_t count = 1;

	if (counted) {
		take(cursor, &count, sizeof(count));
		shown = count;
		stack = push(stack, &shown, sizeof(shown));
		elements = count;
	}
	if (together(cursor, &at) < (size_t)count * size)
		elements = 0;
	take(cursor, NULL, (size_t)count * size);
	stack = push(stack, &elements, sizeof(elements));
	return push(stack, &at, sizeof(at));
}

/* Converted into what is left of a room; cut where that ends. */
static const char *show_units(const uint8_t *text, size_t units, char **room, const char *end)
{
	const char *shown = *room;

	while (units && end - *room > 6) {
		size_t step = rp_utf16_step(text, units);

		*room += rp_utf8_from_utf16(text, step, *room);
		text += 2 * step;
		units -= step;
	}
	if (*room == end)
		return "";
	*(*room)++ = '\0';
	return shown;
}

static char *push_leaf(char *stack, const struct rp_leaf *leaf, struct cursor *cursor, char **room,
		       const char *room_end)
{
	const uint8_t *text;
	size_t units;
	uint16_t count = 0;

	switch (leaf->kind) {
	case RP_LEAF_STRING:
		text = take_text(cursor, 1, &units);
		return push_text(stack, text ? (const char *)text : "");
	case RP_LEAF_STRING16:
		text = take_text(cursor, 2, &units);
		return push_text(stack, text ? show_units(text, units, room, room_end) : "");
	case RP_LEAF_BYTES:
		return push_array(stack, cursor, leaf->size, false);
	case RP_LEAF_ARRAY:
		return push_array(stack, cursor, leaf->size, true);
	case RP_LEAF_GUIDS:	/* these fields are not for filters */
	case RP_LEAF_STRUCTS:
		take(cursor, &count, sizeof(count));
		take(cursor, NULL, (size_t)count * leaf->size);
		return stack;
	case RP_LEAF_MEMBER:
	case RP_LEAF_GUID_MEMBER:
		return stack;
	default:
		return push_number(stack, leaf, cursor);
	}
}

static void fill_stack(const struct record *record, char *stack, char *room, size_t room_bytes)
{
	const struct rp_lttng_event *event = record->event;
	uint64_t own[3] = { event->keywords, event->id, event->opcode };
	struct cursor cursor;
	const char *room_end = room + room_bytes;

	begin(&cursor, record);
	for (size_t i = 0; i < event->leaf_count; i++)
		stack = push_leaf(stack, &event->leaves[i], &cursor, &room, room_end);
	stack = push_text(stack, record->activity[0]);
	stack = push_text(stack, record->activity[1]);
	push(stack, own, sizeof(own));
}

static void write_record(const struct record *record, struct lttng_ust_event_recorder *recorder,
			 struct lttng_ust_probe_ctx *probe)
{
	const struct lttng_ust_channel_buffer_ops *ops = recorder->chan->ops;
	struct lttng_ust_ring_buffer_ctx context;

	lttng_ust_ring_buffer_ctx_init(&context, recorder, record->bytes, 1, probe);
	if (ops->event_reserve(&context) < 0)
		return;	/* LTTng has counted it */
	if (record->convert) {
		struct out out = {
			.context = &context, .ops = ops,
			.limit = record->bytes - record->activity_bytes[0] -
				 record->activity_bytes[1],
		};

		put_payload(&out, record);
		while (out.bytes < out.limit)
			put(&out, "", 1);
	} else {
		for (unsigned int i = 0; i < record->part_count; i++)
			ops->event_write(&context, record->parts[i].base,
					 record->parts[i].size_bytes, 1);
	}
	ops->event_write(&context, record->activity[0], record->activity_bytes[0], 1);
	ops->event_write(&context, record->activity[1], record->activity_bytes[1], 1);
	ops->event_commit(&context);
}

static void notify(const struct record *record, struct lttng_ust_event_notifier *notifier,
		   struct lttng_ust_probe_ctx *probe, const char *stack)
{
	struct lttng_ust_notification_ctx context = {
		.struct_size = sizeof(context),
		.eval_capture = rp_load_relaxed(&notifier->eval_capture),
	};

	(void)record;
	notifier->notification_send(notifier, stack, probe, &context);
}

/* Out of line: an event that no filter looks at does not pay for the room. */
static __attribute__((noinline)) void probe_with_stack(struct lttng_ust_event_common *event,
						       const struct record *record,
						       struct lttng_ust_probe_ctx *probe)
{
	char *stack = __builtin_alloca(16 * record->event->field_count), room[TEXTS_ROOM];

	fill_stack(record, stack, room, sizeof(room));
	if (rp_load_relaxed(&event->eval_filter) &&
	    event->run_filter(event, stack, probe, NULL) != LTTNG_UST_EVENT_FILTER_ACCEPT)
		return;
	if (event->type == LTTNG_UST_EVENT_TYPE_RECORDER)
		write_record(record, event->child, probe);
	else
		notify(record, event->child, probe, stack);
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

/* Whether the payload can go to LTTng; sets what it will take there. */
static bool prepare(struct record *record, uint64_t payload_bytes)
{
	struct out out = { 0 };

	record->convert = record->event->convert;
	if (payload_bytes > RP_PAYLOAD_MAX)
		return false;
	if (record->event->step_count == 1) {	/* nothing but fixed bytes */
		if (payload_bytes != record->event->steps[0].fixed_bytes)
			return false;
	} else if (!check(record)) {
		return false;
	}
	if (record->convert) {
		put_payload(&out, record);
		payload_bytes = out.bytes;
	}
	set_activity(record);
	record->bytes = payload_bytes + record->activity_bytes[0] + record->activity_bytes[1];
	return true;
}

void rp_lttng_write(const struct rp_export *export, const struct rp_part *parts,
		    unsigned int part_count, uint64_t payload_bytes)
{
	const struct lttng_ust_tracepoint_probe *probe;
	struct record record;

	record.event = export->data;
	record.parts = parts;
	record.part_count = part_count;
	lttng_ust_urcu_read_lock();
	probe = __atomic_load_n(&record.event->tracepoint.probes, __ATOMIC_ACQUIRE);
	if (probe && prepare(&record, payload_bytes)) {
		for (; probe->func; probe++)
			((void (*)(void *, const void *))probe->func)(probe->data, &record);
	}
	lttng_ust_urcu_read_unlock();
}
