/* SPDX-License-Identifier: MIT */
/*
 * Attached to the probe `ringpipe:batch`. Copies a batch of merged events, visits each event, and
 * counts, sorts or forwards those that `ringpipe bpf` selected. Only one thread of a process fires
 * the probe, and one process is traced, so no program runs concurrently and plain additions
 * suffice.
 *
 * Offsets are masked again where the verifier does not see an earlier check.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <ringpipe/batch.h>

#include "aggregate.h"

#define OFFSET_MASK (RP_BATCH_BYTES_MAX - 1)
#define EVENT_BYTES sizeof(struct rp_batch_event)
#define EVENTS_IN_BATCH_MAX (RP_BATCH_BYTES_MAX / EVENT_BYTES)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before the program is loaded. */
const volatile uint32_t mode;
const volatile uint64_t linear_step;	/* of a histogram; 0: log2 */

/* Set before the program is attached, since other clients have separate batches. */
uint64_t session_id;

/*
 * 1 + the index of the definition's path. The loader sets it before the process may deliver events
 * of the definition.
 */
uint8_t wanted[RP_BPF_EVENTS];
struct rp_bpf_path paths[RP_BPF_PATHS];

uint64_t counts[RP_BPF_EVENTS + 1];	/* the last is for all other definitions */
uint64_t slots[RP_BPF_SLOTS];
uint64_t below, above;			/* values outside a linear histogram */
struct rp_bpf_stats stats;

/* Twice the size of a batch: an event that begins inside the first half also ends in the buffer. */
static uint8_t batch[2 * RP_BATCH_BYTES_MAX];
static uint8_t scratch[RP_BATCH_BYTES_MAX];
static struct rp_bpf_key key;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RP_BPF_KEYS);
	__type(key, struct rp_bpf_key);
	__type(value, uint64_t);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} forwarded SEC(".maps");

/* The position of a walk over a payload. */
struct walk {
	const struct rp_bpf_path *path;
	uint32_t at;
	uint32_t end;
	uint32_t missing;
};

static long step_unit(uint32_t index, struct walk *walk)
{
	uint32_t at = walk->at & OFFSET_MASK;
	uint16_t unit;

	if (walk->at + 2 > walk->end) {
		walk->missing = 1;
		return 1;
	}
	unit = (uint16_t)(batch[at] | batch[at + 1] << 8);
	walk->at += 2;
	return unit == 0;
}

/* Return: the bytes of a text in the batch, including its NUL; 0 if no NUL precedes `end`. */
static uint32_t text_bytes(uint32_t at, uint32_t end)
{
	long bytes = bpf_probe_read_kernel_str(scratch, sizeof(scratch), &batch[at & OFFSET_MASK]);

	return bytes > 0 && at + (uint32_t)bytes <= end ? (uint32_t)bytes : 0;
}

static long step_over(uint32_t index, struct walk *walk)
{
	const struct rp_bpf_step *step;
	uint32_t at = walk->at & OFFSET_MASK, bytes;

	if (index >= RP_BPF_STEPS)
		return 1;
	step = &walk->path->steps[index];
	switch (step->kind) {
	case RP_BPF_STEP_FIXED:
		walk->at += step->bytes;
		break;
	case RP_BPF_STEP_STRING:
		bytes = text_bytes(walk->at, walk->end);
		walk->missing |= bytes == 0;
		walk->at += bytes;
		break;
	case RP_BPF_STEP_STRING16:
		bpf_loop(RP_BATCH_BYTES_MAX / 2, step_unit, walk, 0);
		break;
	case RP_BPF_STEP_ARRAY:
		walk->at += 2 + (uint32_t)(batch[at] | batch[at + 1] << 8) * step->bytes;
		break;
	}
	walk->missing |= walk->at > walk->end;
	return walk->missing;
}

/* Truncates a float to an integer, clamped to the range of 63 bits. */
static int64_t whole_of(uint64_t bits, uint32_t bytes)
{
	uint32_t fraction_bits = bytes == 4 ? 23 : 52;
	int32_t bias = bytes == 4 ? 127 : 1023;
	int32_t exponent = (int32_t)(bits >> fraction_bits) & (2 * bias + 1);
	uint64_t value = (bits & ((1ull << fraction_bits) - 1)) | 1ull << fraction_bits;
	int32_t shift = exponent - bias - (int32_t)fraction_bits;

	if (exponent < bias)
		return 0;
	if (exponent - bias >= 63)
		value = INT64_MAX;
	else
		value = shift < 0 ? value >> (-shift & 63) : value << (shift & 63);
	return bits >> (bytes * 8 - 1) & 1 ? -(int64_t)value : (int64_t)value;
}

static uint64_t number_at(uint32_t at, uint32_t bytes)
{
	const uint8_t *value = &batch[at & OFFSET_MASK];

	switch (bytes) {
	case 1:
		return *value;
	case 2:
		return *(const uint16_t *)value;
	case 4:
		return *(const uint32_t *)value;
	default:
		return *(const uint64_t *)value;
	}
}

static uint64_t value_at(const struct rp_bpf_path *path, uint32_t at)
{
	uint32_t bytes = path->value_bytes, shift = (64 - bytes * 8) & 63;
	uint64_t bits = number_at(at, bytes);

	if (path->value_kind == RP_BPF_VALUE_FLOAT)
		return (uint64_t)whole_of(bits, bytes);
	if (path->value_kind == RP_BPF_VALUE_SIGNED)
		return (uint64_t)((int64_t)(bits << shift) >> shift);
	return bits;
}

static uint32_t log2_of(uint64_t value)
{
	uint32_t bits = 0;

#pragma unroll
	for (uint32_t step = 32; step; step /= 2) {
		if (value >> step) {
			value >>= step;
			bits += step;
		}
	}
	return bits;
}

static void add_to_histogram(const struct rp_bpf_path *path, uint32_t at)
{
	uint64_t value = value_at(path, at), slot;
	uint32_t negative = path->value_kind != RP_BPF_VALUE_UNSIGNED && (int64_t)value < 0;

	if (linear_step) {
		slot = value / linear_step;
		if (negative)
			below++;
		else if (slot >= RP_BPF_SLOTS)
			above++;
		else
			slots[slot & (RP_BPF_SLOTS - 1)]++;
		return;
	}
	if (negative)
		slot = RP_BPF_LOG2_ZERO - 1 - log2_of(-value);
	else
		slot = value ? RP_BPF_LOG2_ZERO + 1 + log2_of(value) : RP_BPF_LOG2_ZERO;
	slots[slot & (RP_BPF_SLOTS - 1)]++;
}

static void add_to_keys(const struct rp_bpf_path *path, uint32_t at, uint32_t end)
{
	uint64_t *count, one = 1;
	uint32_t bytes = path->value_bytes;

	__builtin_memset(&key, 0, sizeof(key));
	key.kind = path->value_kind;
	if (path->value_kind == RP_BPF_VALUE_STRING) {
		bytes = text_bytes(at, end);
		if (bytes == 0) {
			stats.missing++;
			return;
		}
		bytes--;
	}
	key.bytes = bytes;
	if (bytes > RP_BPF_KEY_BYTES)
		bytes = RP_BPF_KEY_BYTES;
	bpf_probe_read_kernel(key.value, bytes, &batch[at & OFFSET_MASK]);
	count = bpf_map_lookup_elem(&keys, &key);
	if (count)
		(*count)++;
	else if (bpf_map_update_elem(&keys, &key, &one, BPF_NOEXIST) != 0)
		stats.dropped++;
}

/* Bytes between the event's header and its payload. */
static uint32_t prefix_bytes(const struct rp_batch_event *event)
{
	return (event->flags & RP_BATCH_ACTIVITY ? 16 : 0) +
	       (event->flags & RP_BATCH_RELATED ? 16 : 0) + event->frames * 8;
}

static void take_field(const struct rp_bpf_path *path, uint32_t at, uint32_t end)
{
	struct walk walk = { .path = path, .at = at, .end = end };

	bpf_loop(path->step_count, step_over, &walk, 0);
	if (walk.missing || walk.at + path->value_bytes > walk.end)
		stats.missing++;
	else if (mode == RP_BPF_HISTOGRAM)
		add_to_histogram(path, walk.at);
	else
		add_to_keys(path, walk.at, walk.end);
}

static void take_event(const struct rp_batch_event *event, uint32_t at)
{
	uint32_t number = event->event, bytes = event->bytes, path;

	if (number >= RP_BPF_EVENTS || !wanted[number])
		return;
	stats.matched++;
	path = wanted[number] - 1;
	if (mode == RP_BPF_FORWARD) {
		if (bytes > RP_BATCH_BYTES_MAX ||
		    bpf_ringbuf_output(&forwarded, &batch[at & OFFSET_MASK], bytes, 0) != 0)
			stats.dropped++;
	} else if (path < RP_BPF_PATHS) {
		take_field(&paths[path], at + EVENT_BYTES + prefix_bytes(event), at + bytes);
	}
}

struct rest {
	uint32_t at;
	uint32_t end;
	uint32_t bytes;		/* size of the previous event */
	uint32_t number;	/* number of its definition */
	uint64_t same;		/* events of that definition, not yet in `counts` */
};

static __always_inline void add_counts(uint32_t number, uint64_t events)
{
	counts[number < RP_BPF_EVENTS ? number : RP_BPF_EVENTS] += events;
	stats.seen += events;
}

/*
 * Advances by `events` events, and handles them unless they are only counted. Return: 0; 1 if no
 * complete event is left. The next event's offset is guessed from the previous size, and counts are
 * collected in registers: waiting for each load from memory would double the time.
 */
static __always_inline long next_events(struct rest *rest, uint32_t events, uint32_t take)
{
	uint32_t at = rest->at, end = rest->end, bytes = rest->bytes, number = rest->number, guess;
	uint64_t same = rest->same;
	long done = 0;

	for (uint32_t i = 0; i < events; i++) {
		const struct rp_batch_event *event = (const void *)&batch[at & OFFSET_MASK];

		done = at + EVENT_BYTES > end || event->bytes < EVENT_BYTES ||
		       event->bytes > end - at;
		if (done)
			break;
		guess = bytes;
		barrier_var(guess);	/* keeps the compiler from replacing the guess */
		if (event->bytes != guess)
			bytes = event->bytes;
		if (event->event != number) {
			add_counts(number, same);
			number = event->event;
			same = 0;
		}
		same++;
		if (take)
			take_event(event, at);
		at += (bytes + 7) & ~7u;
	}
	rest->at = at;
	rest->bytes = bytes;
	rest->number = number;
	rest->same = same;
	return done;
}

/* Handles several events per call, since a call costs as much as counting an event. */
static long count_events(uint32_t index, struct rest *rest)
{
	return next_events(rest, 16, 0);
}

static long take_events(uint32_t index, struct rest *rest)
{
	return next_events(rest, 1, 1);
}

static void read_batch(uint32_t bytes)
{
	struct rest rest = { .end = bytes };

	if (mode == RP_BPF_COUNT)
		bpf_loop(EVENTS_IN_BATCH_MAX, count_events, &rest, 0);
	else
		bpf_loop(EVENTS_IN_BATCH_MAX, take_events, &rest, 0);
	add_counts(rest.number, rest.same);
}

SEC("uprobe")
int BPF_KPROBE(take_batch, const void *events, uint64_t bytes, uint64_t count, uint64_t id)
{
	uint64_t before = stats.seen;

	if (id != session_id)
		return 0;
	stats.batches++;
	if (bytes <= RP_BATCH_BYTES_MAX && bpf_probe_read_user(batch, bytes, events) == 0)
		read_batch((uint32_t)bytes);
	stats.unread += count - (stats.seen - before);
	return 0;
}
