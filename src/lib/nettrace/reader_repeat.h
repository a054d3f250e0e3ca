/* SPDX-License-Identifier: MIT */
/* The short path of a reader, for an event whose header repeats most of the previous one. */
#ifndef RP_NETTRACE_READER_REPEAT_H
#define RP_NETTRACE_READER_REPEAT_H

#include "nettrace/reader_parts.h"

/* Return the time of an event since the start of the trace. */
static inline int64_t rp_reader_relative_ns(const struct rp_reader_info *info, uint64_t ticks)
{
	const int64_t relative = (int64_t)(ticks - info->start_ticks);
	int64_t product;
	__int128 ns;

	/* A division of 128 bits takes longer than the rest of a short event. */
	if (info->ticks_per_second == 1000000000)
		return relative;
	if (!__builtin_mul_overflow(relative, 1000000000, &product))
		return product / (int64_t)info->ticks_per_second;
	ns = (__int128)relative * 1000000000 / (__int128)info->ticks_per_second;
	if (ns > INT64_MAX)
		return INT64_MAX;
	return ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

/*
 * Take the next event of a block if its header repeats the previous one. Such an event differs from
 * the previous event only in its type, its number, its time and its payload.
 * @wire, @type: the previous event and its type, which become those of the next one
 *
 * This path is exact because the tables of types, threads, labels and stacks change only between
 * blocks, or when an event of another thread or label list takes the general path. No event was
 * lost between two successive numbers, and the thread was counted at its previous event.
 *
 * It is always inline, so that the compiler keeps the state in registers.
 *
 * Return: whether there was such an event; false: nothing was taken.
 */
static inline __attribute__((always_inline))
bool rp_reader_take_repeat(const struct rp_reader *reader, struct rp_cursor *events,
			   struct rp_wire_event *wire, struct rp_reader_type **type,
			   struct rp_wire_repeat *ret_repeat)
{
	struct rp_reader_type *found;

	if (!rp_wire_event_find_repeat(events, wire, ret_repeat))
		return false;
	if (ret_repeat->flags & RP_EVENT_METADATA) {
		/* Labels may replace members of the type. */
		found = wire->labels ? NULL :
			rp_type_table_find(&reader->types, ret_repeat->metadata_id);
		if (!found)
			return false;
		*type = found;
	}
	rp_wire_event_take_repeat(events, wire, ret_repeat);
	return true;
}

/* Set the members of the returned event that depend on its type. */
static inline void rp_reader_set_type(struct rp_reader_event *event, struct rp_reader_type *type)
{
	event->type = type;
	event->keywords = type->keywords;
	event->level = type->level;
	event->opcode = type->opcode;
	event->event_version = type->version;
}

/*
 * Read the next event of the block into `returned` if its header repeats the previous one. The
 * members of `returned` that do not change are still right. A reader with a range may also read
 * events outside of the range here.
 *
 * Return: whether there was such an event; false: call rp_reader_next_ref().
 */
static inline bool rp_reader_next_repeat(struct rp_reader *reader)
{
	struct rp_wire_event *wire = &reader->event;
	struct rp_reader_event *event = &reader->returned;
	struct rp_reader_type *type = event->type;
	struct rp_wire_repeat repeat;

	if (!reader->sequence ||
	    !rp_reader_take_repeat(reader, &reader->events, wire, &type, &repeat))
		return false;
	if (repeat.flags & RP_EVENT_METADATA)
		rp_reader_set_type(event, type);
	event->sequence = *reader->sequence = wire->sequence;
	event->time_ns = rp_reader_relative_ns(&reader->info, wire->time);
	event->payload = repeat.payload;
	event->payload_bytes = repeat.payload_bytes;
	reader->lost_before = 0;
	reader->stats.unordered += (int64_t)(wire->time - reader->last_time) < 0;
	reader->last_time = wire->time;
	reader->stats.events++;
	return true;
}

/*
 * Events that repeat the header of the previous one, read in succession. The state of the reader is
 * kept in a local variable, so that the compiler can keep it in registers: between
 * rp_repeat_run_begin() and rp_repeat_run_end(), the reader itself must not be used.
 */
struct rp_repeat_run {
	struct rp_reader *reader;
	struct rp_cursor events;
	struct rp_wire_event wire;	/* the last event */
	struct rp_wire_repeat repeat;
	struct rp_reader_type *type;
	uint64_t count;			/* events of the run */
	uint64_t unordered;
	int64_t latest;			/* time, in ticks since the start; INT64_MIN: none */
};

static inline struct rp_repeat_run rp_repeat_run_begin(struct rp_reader *reader)
{
	return (struct rp_repeat_run){
		.reader = reader,
		.events = reader->sequence ? reader->events : (struct rp_cursor){ 0 },
		.wire = reader->event,
		.type = reader->returned.type,
		.latest = INT64_MIN,
	};
}

/* Take the next event. Return: whether it repeats the previous one; false: nothing was taken. */
static inline bool rp_repeat_run_next(struct rp_repeat_run *run)
{
	const struct rp_reader *reader = run->reader;
	const uint64_t before = run->wire.time;
	struct rp_wire_repeat repeat;
	int64_t ticks;

	/* The search for another event overwrites `repeat` even if there is none. */
	if (!rp_reader_take_repeat(reader, &run->events, &run->wire, &run->type, &repeat))
		return false;
	run->repeat = repeat;
	ticks = (int64_t)(run->wire.time - reader->info.start_ticks);
	run->latest = ticks > run->latest ? ticks : run->latest;
	run->unordered += (int64_t)(run->wire.time - before) < 0;
	run->count++;
	return true;
}

/* Let the reader's last event be the last event of the run, as after rp_reader_next_ref(). */
static inline void rp_repeat_run_end(const struct rp_repeat_run *run)
{
	struct rp_reader *reader = run->reader;
	struct rp_reader_event *event = &reader->returned;

	if (!run->count)
		return;
	reader->events = run->events;
	reader->event = run->wire;
	if (run->type != event->type)
		rp_reader_set_type(event, run->type);
	event->sequence = *reader->sequence = run->wire.sequence;
	event->time_ns = rp_reader_relative_ns(&reader->info, run->wire.time);
	event->payload = run->repeat.payload;
	event->payload_bytes = run->repeat.payload_bytes;
	reader->lost_before = 0;
	reader->stats.unordered += run->unordered;
	reader->last_time = run->wire.time;
	reader->stats.events += run->count;
}

#endif
