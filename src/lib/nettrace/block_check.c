/* SPDX-License-Identifier: MIT */
#include "nettrace/block_check.h"

#include "nettrace/describe.h"
#include "nettrace/event_header.h"
#include "nettrace/label_lists.h"
#include "nettrace/thread_rows.h"

/* The times that the header of an event block states, and those of its events. */
struct block_times {
	uint64_t stated_first, stated_last;
	uint64_t first, last, least, greatest;
	uint64_t events;
};

static void read_times(struct rp_cursor content, struct block_times *times)
{
	memcpy(&times->stated_first, content.at + 4, 8);
	memcpy(&times->stated_last, content.at + 12, 8);
}

bool rp_block_has_times(struct rp_cursor content)
{
	struct block_times times = { 0 };
	uint16_t header[2];

	if (rp_cursor_left(&content) < RP_BLOCK_HEADER_BYTES)
		return false;
	memcpy(header, content.at, sizeof(header));
	read_times(content, &times);
	return header[0] == RP_BLOCK_HEADER_BYTES && header[1] <= RP_BLOCK_COMPRESSED &&
	       times.stated_first && times.stated_first <= times.stated_last;
}

static void note_time(struct block_times *times, uint64_t time)
{
	if (!times->events++)
		times->first = times->least = times->greatest = time;
	if (time < times->least)
		times->least = time;
	if (time > times->greatest)
		times->greatest = time;
	times->last = time;
}

/* Some writers state the first and the last event, others the earliest and the latest. */
static bool are_times_right(const struct block_times *times)
{
	return (times->stated_first == times->first || times->stated_first == times->least) &&
	       (times->stated_last == times->last || times->stated_last == times->greatest);
}

static bool may_be_loose(const struct rp_block_check *check, const struct block_times *times)
{
	return (check->has_loose_times || !check->has_exact_times) &&
	       times->stated_first <= times->least && times->greatest <= times->stated_last;
}

/* Whether an event refers to other declarations than the previous one of its block. */
static bool has_other_ids(const struct rp_wire_event *event, const struct rp_wire_event *previous)
{
	return event->metadata_id != previous->metadata_id || event->thread != previous->thread ||
	       event->capture_thread != previous->capture_thread ||
	       event->labels != previous->labels;
}

/* Return what is wrong with the ids of an event, or NULL. */
static const char *check_ids(const struct rp_block_check *check, const struct rp_wire_event *event)
{
	if (!event->metadata_id)
		return "an event without a type";
	return check->find_unknown ? check->find_unknown(check->data, event) : NULL;
}

/* The bit of a metadata id in a set of the ids that are below 64; 0: the id is not below. */
static inline uint64_t id_bit(uint32_t metadata_id)
{
	return metadata_id < 64 ? 1ull << metadata_id : 0;
}

/*
 * Take the events that repeat the header of the previous event, except for their types.
 * @known_ids: the metadata ids that were checked in this block, below 64
 *
 * Return: NULL, or what is wrong.
 */
static const char *take_repeats(const struct rp_block_check *check, struct rp_cursor *c,
				struct rp_wire_event *event, struct block_times *times,
				uint64_t *known_ids)
{
	struct rp_wire_repeat repeat;

	while (rp_wire_event_find_repeat(c, event, &repeat)) {
		const bool is_known = repeat.metadata_id == event->metadata_id ||
				      (*known_ids & id_bit(repeat.metadata_id));

		rp_wire_event_take_repeat(c, event, &repeat);
		note_time(times, event->time);
		if (!is_known) {
			const char *reason = check_ids(check, event);

			if (reason)
				return reason;
			*known_ids |= id_bit(event->metadata_id);
		}
	}
	return NULL;
}

/* Return: NULL, or what is wrong. */
static const char *take_events(const struct rp_block_check *check, struct rp_cursor *c,
			       struct block_times *times)
{
	struct rp_wire_layout layout = { .has_labels = check->is_v6 };
	struct rp_wire_event event = { 0 }, previous = { 0 };
	const char *reason = NULL;
	struct rp_cursor payload;
	uint64_t known_ids = 0;

	if (rp_wire_block_header(c, &layout) < 0)
		return "a damaged event block";
	while (!reason && c->at < c->end) {
		if (rp_wire_event_take(c, &layout, &event, &payload) < 0)
			return "a damaged event";
		note_time(times, event.time);
		if (times->events == 1 || has_other_ids(&event, &previous))
			reason = check_ids(check, &event);
		if (!reason && layout.compressed)
			reason = take_repeats(check, c, &event, times, &known_ids);
		previous = event;
	}
	return reason;
}

static const char *check_events(struct rp_block_check *check, struct rp_cursor *c,
				enum rp_block_proof *ret_proof)
{
	struct block_times times = { 0 };
	const char *reason;
	uint16_t flags;

	if (rp_cursor_left(c) < RP_BLOCK_HEADER_BYTES)
		return "a damaged event block";
	read_times(*c, &times);
	memcpy(&flags, c->at + 2, sizeof(flags));
	if (flags > RP_BLOCK_COMPRESSED)
		return "a damaged event block";
	reason = take_events(check, c, &times);
	if (reason)
		return reason;
	*ret_proof = times.events ? RP_BLOCK_LIKELY : RP_BLOCK_PLAUSIBLE;
	if (!times.events || (!times.stated_first && !times.stated_last))
		return NULL;
	if (!are_times_right(&times))
		return may_be_loose(check, &times) ? NULL :
		       "events with other times than their block states";
	*ret_proof = RP_BLOCK_PROVEN;
	check->has_exact_times = true;
	return NULL;
}

bool rp_block_check_cut(const struct rp_block_check *check, struct rp_cursor c)
{
	struct rp_wire_layout layout = { .has_labels = check->is_v6 };
	struct rp_wire_event event = { 0 };
	struct block_times times = { 0 };
	struct rp_cursor payload;

	if (!rp_block_has_times(c))
		return rp_cursor_left(&c) < RP_BLOCK_HEADER_BYTES;
	read_times(c, &times);
	if (rp_wire_block_header(&c, &layout) < 0)
		return false;
	while (rp_wire_event_take(&c, &layout, &event, &payload) == 0) {
		if (event.time < times.stated_first || event.time > times.stated_last ||
		    check->find_unknown(check->data, &event))
			return false;
	}
	return true;
}

/* Describe the types of a block in a table that is used for nothing else, to find errors. */
static int describe_v4(struct rp_type_table *types, struct rp_cursor *c)
{
	struct rp_wire_layout layout = { .has_labels = false };
	struct rp_wire_event event = { 0 };
	struct rp_cursor blob;
	int ret = rp_wire_block_header(c, &layout);

	while (ret == 0 && c->at < c->end) {
		ret = rp_wire_event_take(c, &layout, &event, &blob);
		if (ret == 0)
			ret = rp_describe(types, blob);
	}
	return ret;
}

static int describe_v6(struct rp_type_table *types, struct rp_cursor *c)
{
	struct rp_cursor row;
	uint16_t size;
	int ret = rp_cursor_u16(c, &size);

	if (ret == 0)
		ret = rp_cursor_sub(c, size, &row);
	while (ret == 0 && c->at < c->end) {
		ret = rp_cursor_u16(c, &size);
		if (ret == 0)
			ret = rp_cursor_sub(c, size, &row);
		if (ret == 0)
			ret = rp_describe_row(types, row);
	}
	return ret;
}

static int check_metadata(const struct rp_block_check *check, struct rp_cursor *c)
{
	struct rp_type_table types = { 0 };
	int ret = check->is_v6 ? describe_v6(&types, c) : describe_v4(&types, c);

	if (ret == 0 && types.has_unknown && !check->has_extensions)
		ret = -EBADMSG;
	rp_type_table_fini(&types);
	return ret == -ENOMEM ? 0 : ret;
}

static int check_threads(const struct rp_block_check *check, struct rp_cursor *c)
{
	struct rp_thread_rows rows = { 0 };
	struct rp_cursor row;
	uint16_t size;
	int ret = 0;

	while (ret == 0 && c->at < c->end) {
		ret = rp_cursor_u16(c, &size);
		if (ret == 0)
			ret = rp_cursor_sub(c, size, &row);
		if (ret == 0)
			ret = rp_thread_rows_add(&rows, row);
	}
	if (ret == 0 && rows.has_unknown && !check->has_extensions)
		ret = -EBADMSG;
	rp_thread_rows_fini(&rows);
	return ret == -ENOMEM ? 0 : ret;
}

static int check_stacks(const struct rp_block_check *check, struct rp_cursor *c)
{
	uint32_t first, count, bytes;
	const uint8_t *frames;

	/* Events have stack 0 if they have none. */
	if (rp_cursor_u32(c, &first) < 0 || rp_cursor_u32(c, &count) < 0 || !first ||
	    (uint64_t)first + count > UINT32_MAX)
		return -EBADMSG;
	while (count--) {
		if (rp_cursor_u32(c, &bytes) < 0 || bytes % check->pointer_bytes ||
		    rp_cursor_take(c, bytes, &frames) < 0)
			return -EBADMSG;
	}
	return rp_cursor_end(c);
}

/* Removed threads, with their last numbers. */
static int check_removals(struct rp_cursor *c)
{
	uint64_t index;
	uint32_t sequence;

	while (c->at < c->end) {
		if (rp_cursor_varint(c, &index) < 0 || rp_cursor_varint32(c, &sequence) < 0)
			return -EBADMSG;
	}
	return 0;
}

static int check_point(const struct rp_block_check *check, struct rp_cursor *c)
{
	const uint32_t known = RP_POINT_FLUSH_THREADS | RP_POINT_FLUSH_METADATA;
	uint32_t flags, count;
	uint64_t time;

	if (rp_cursor_u64(c, &time) < 0)
		return -EBADMSG;
	if (!check->is_v6)
		return rp_cursor_u32(c, &count) < 0 ||
		       rp_cursor_left(c) != (uint64_t)count * 12 ? -EBADMSG : 0;
	if (rp_cursor_u32(c, &flags) < 0 || flags & ~known || rp_cursor_u32(c, &count) < 0 ||
	    count > rp_cursor_left(c) / 2)
		return -EBADMSG;
	while (count--) {
		uint64_t index;

		if (rp_cursor_varint(c, &index) < 0 || rp_cursor_varint32(c, &flags) < 0)
			return -EBADMSG;
	}
	return rp_cursor_end(c);
}

static const char *check_content(struct rp_block_check *check, enum rp_block_kind kind,
				 struct rp_cursor *c, enum rp_block_proof *ret_proof)
{
	switch (kind) {
	case RP_BLOCK_EVENT:
		return check_events(check, c, ret_proof);
	case RP_BLOCK_METADATA:
		return check_metadata(check, c) < 0 ? "a damaged block of definitions" : NULL;
	case RP_BLOCK_SEQUENCE_POINT:
		return check_point(check, c) < 0 ? "a damaged sequence point" : NULL;
	case RP_BLOCK_STACK:
		return check_stacks(check, c) < 0 ? "a damaged stack block" : NULL;
	case RP_BLOCK_THREAD:
		return check_threads(check, c) < 0 ? "a damaged block of threads" : NULL;
	case RP_BLOCK_REMOVE_THREAD:
		return check_removals(c) < 0 ? "a damaged block of removed threads" : NULL;
	case RP_BLOCK_LABEL_LIST:
		return rp_label_lists_check(c) < 0 ? "a damaged block of label lists" : NULL;
	case RP_BLOCK_END:
		return rp_cursor_left(c) ? "a damaged end of the stream" : NULL;
	case RP_BLOCK_TRACE:
		return "a second Trace block";
	}
	return NULL;
}

const char *rp_block_check(struct rp_block_check *check, enum rp_block_kind kind,
			   struct rp_cursor content, enum rp_block_proof *ret_proof)
{
	struct rp_cursor c = content;
	const char *reason;

	/* The name of an object proves a block of V4. */
	*ret_proof = check->is_v6 ? RP_BLOCK_PLAUSIBLE : RP_BLOCK_PROVEN;
	reason = check_content(check, kind, &c, ret_proof);
	check->checked_bytes += (uint64_t)(c.at - content.at);
	return reason;
}
