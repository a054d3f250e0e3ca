/* SPDX-License-Identifier: MIT */
/*
 * Writes a large trace of version 6 for bench/view.py and tests/view, without the library: spans,
 * notes, samples with stacks, waits and counters of 64 threads in 4 processes. The format is
 * described in src/lib/nettrace/format.h.
 *
 *	view_trace FILE EVENTS		prints what it wrote as one JSON object
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_bits.h"

#define THREADS 64u
#define PROCESSES 4u
#define PROCESSORS 8u
#define STACKS 2048u
#define FRAMES 12u
#define FUNCTIONS 200u
#define FUNCTION_BYTES 0x100u
#define CODE 0x400000u
#define BLOCK_BYTES (64u << 10)
#define EVENT_BYTES_MAX 256u
#define STEP_NS 1000u			/* mean time between two events */
#define POINT_EVENTS 1000000u		/* between two sequence points */
#define COUNTER_EVENTS 100000u		/* between two values of the counter */

enum block { END, TRACE, EVENT, METADATA, POINT, STACK, THREAD };
enum type { U32 = 10, U64 = 12, F32 = 13, F64 = 14, TEXT = 18 };
enum kind {
	PROCESS = 1, MAPPING, FUNCTION, REQUEST_START, REQUEST_STOP, QUERY_START, QUERY_STOP, NOTE,
	SAMPLE, SWITCH, WAIT, COUNTER,
};

struct header {
	uint64_t ns;
	uint32_t id, number, thread, capture, cpu, stack, size;
};

struct thread {
	uint64_t last_ns;
	unsigned int depth;		/* open spans */
};

static struct {
	FILE *file;
	uint8_t bytes[BLOCK_BYTES];
	size_t used;
	uint64_t first_ns, ns, events, spans, samples, waits, notes, values;
	uint32_t number;
	struct header last;		/* of the block */
	struct thread threads[THREADS];
} state;

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

static uint8_t *put_u16(uint8_t *at, uint16_t value)
{
	return put(at, &value, sizeof(value));
}

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
	return put(at, &value, sizeof(value));
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
	return put(at, &value, sizeof(value));
}

static uint8_t *put_f64(uint8_t *at, double value)
{
	return put(at, &value, sizeof(value));
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
	return put(put_varint(at, strlen(text)), text, strlen(text));
}

/* A text of Universal.System. */
static uint8_t *put_counted(uint8_t *at, const char *text)
{
	return put(put_u16(at, (uint16_t)strlen(text)), text, strlen(text));
}

static uint8_t *put_utf16(uint8_t *at, const char *text)
{
	do
		at = put_u16(at, (uint8_t)*text);
	while (*text++);
	return at;
}

static void write_block(enum block kind, const void *bytes, size_t size)
{
	const uint32_t head = (uint32_t)size | (uint32_t)kind << 24;

	fwrite(&head, sizeof(head), 1, state.file);
	/* A block at the end has no bytes, and no address of any. */
	if (size)
		fwrite(bytes, 1, size, state.file);
}

static void flush_events(void)
{
	uint8_t head[20];

	if (!state.used)
		return;
	put_u64(put_u64(put_u16(put_u16(head, 20), 1), state.first_ns), state.ns);
	memcpy(state.bytes, head, sizeof(head));
	write_block(EVENT, state.bytes, state.used);
	state.used = 0;
}

static uint8_t *put_header(uint8_t *at, const struct header *now)
{
	struct header *last = &state.last;
	uint8_t *flags = at++;

	*flags = 64;
	if (now->id != last->id) {
		*flags |= 1;
		at = put_varint(at, now->id);
	}
	if (now->number != last->number + 1 || now->capture != last->capture ||
	    now->cpu != last->cpu) {
		*flags |= 2;
		at = put_varint(at, now->number - last->number - 1);
		at = put_varint(put_varint(at, now->capture), now->cpu);
	}
	if (now->thread != last->thread) {
		*flags |= 4;
		at = put_varint(at, now->thread);
	}
	if (now->stack != last->stack) {
		*flags |= 8;
		at = put_varint(at, now->stack);
	}
	at = put_varint(at, now->ns - last->ns);
	if (now->size != last->size) {
		*flags |= 128;
		at = put_varint(at, now->size);
	}
	*last = *now;
	return at;
}

static void write_event(enum kind kind, unsigned int thread, uint32_t stack, const void *payload,
			size_t size)
{
	const struct header now = {
		.ns = state.ns, .id = kind, .number = ++state.number, .thread = thread + 1,
		.capture = 1, .cpu = thread % PROCESSORS, .stack = stack, .size = (uint32_t)size,
	};
	uint8_t *at;

	if (state.used > BLOCK_BYTES - EVENT_BYTES_MAX)
		flush_events();
	if (!state.used) {
		state.used = 20;
		state.first_ns = state.ns;
		state.last = (struct header){ 0 };
	}
	at = put_header(state.bytes + state.used, &now);
	state.used = (size_t)(put(at, payload, size) - state.bytes);
	state.events++;
	state.threads[thread].last_ns = state.ns;
	state.ns += STEP_NS / 2 + random_bits() % STEP_NS;
}

struct field {
	const char *name;
	enum type type;
};

static void define(enum kind kind, const char *provider, uint32_t id, const char *name,
		   const struct field *fields, unsigned int count)
{
	uint8_t bytes[1024], row[1000], *at = put_varint(row, kind), *end;

	at = put_text(put_varint(put_text(at, provider), id), name);
	at = put_u16(at, (uint16_t)count);
	for (unsigned int i = 0; i < count; i++) {
		at = put_u16(at, (uint16_t)(strlen(fields[i].name) + 2));
		at = put_text(at, fields[i].name);
		*at++ = (uint8_t)fields[i].type;
	}
	at = put_u16(at, 0);
	end = put_u16(put_u16(bytes, 0), (uint16_t)(at - row));
	end = put(end, row, (size_t)(at - row));
	write_block(METADATA, bytes, (size_t)(end - bytes));
}

static void define_all(void)
{
	static const struct field order[] = { { "order", U64 } };
	static const struct field wait[] = {
		{ "duration_ns", U64 }, { "runnable_ns", U64 }, { "state", U32 },
		{ "waker_process", U32 }, { "waker_thread", U64 },
	};
	static const struct field counter[] = {
		{ "Name", TEXT }, { "DisplayName", TEXT }, { "DisplayUnits", TEXT },
		{ "Mean", F64 }, { "Increment", F64 }, { "IntervalSec", F32 }, { "Series", TEXT },
		{ "CounterType", TEXT },
	};

	define(PROCESS, "Universal.System", 0, "", NULL, 0);
	define(MAPPING, "Universal.System", 3, "", NULL, 0);
	define(FUNCTION, "Universal.System", 4, "", NULL, 0);
	define(REQUEST_START, "Shop", 1, "RequestStart", order, 1);
	define(REQUEST_STOP, "Shop", 2, "RequestStop", order, 1);
	define(QUERY_START, "Store", 1, "QueryStart", order, 1);
	define(QUERY_STOP, "Store", 2, "QueryStop", order, 1);
	define(NOTE, "Shop", 3, "Note", order, 1);
	define(SAMPLE, "Universal.Events", 1, "cpu", NULL, 0);
	define(SWITCH, "Universal.Events", 2, "cswitch", NULL, 0);
	define(WAIT, "Ringpipe-Machine", 1, "Wait", wait, 5);
	define(COUNTER, "Shop", 65533, "EventCounters", counter, 8);
}

static void write_start(void)
{
	static const uint16_t day[8] = { 2026, 11, 6, 21, 1, 2, 3, 4 };
	uint8_t bytes[256], *at = put(bytes, day, sizeof(day));

	fwrite("Nettrace\0\0\0\0\6\0\0\0\0\0\0\0", 1, 20, state.file);
	at = put_u32(put_u32(put_u64(put_u64(at, 0), 1000000000), 8), 2);
	at = put_text(put_text(at, "HardwareThreadCount"), "8");
	at = put_text(put_text(at, "ProcessId"), "100");
	write_block(TRACE, bytes, (size_t)(at - bytes));
	define_all();
}

static uint32_t process_of(unsigned int thread)
{
	return 100 * (1 + thread % PROCESSES);
}

static void write_threads(void)
{
	uint8_t bytes[64 * THREADS], row[60], *end = bytes;

	for (unsigned int i = 0; i < THREADS; i++) {
		char name[20];
		uint8_t *at = put_varint(row, i + 1);

		snprintf(name, sizeof(name), "worker-%u", i / PROCESSES);
		*at++ = 1;
		at = put_text(at, name);
		*at++ = 2;
		at = put_varint(at, process_of(i));
		*at++ = 3;
		at = put_varint(at, process_of(i) + i / PROCESSES);
		end = put(put_u16(end, (uint16_t)(at - row)), row, (size_t)(at - row));
	}
	write_block(THREAD, bytes, (size_t)(end - bytes));
}

/* Stacks are valid up to the next sequence point. Deep frames are the same in many stacks. */
static void write_stacks(void)
{
	static uint8_t bytes[8 + STACKS * (4 + 8 * FRAMES)];
	uint8_t *at = put_u32(put_u32(bytes, 1), STACKS);

	for (uint32_t i = 0; i < STACKS; i++) {
		at = put_u32(at, 8 * FRAMES);
		for (uint32_t frame = 0; frame < FRAMES; frame++) {
			const uint32_t function = (i >> frame) * 31 + (FRAMES - frame) * 7;

			at = put_u64(at, CODE + function % FUNCTIONS * FUNCTION_BYTES + 16);
		}
	}
	write_block(STACK, bytes, (size_t)(at - bytes));
}

static void write_point(void)
{
	uint8_t bytes[64], *at = put_u32(put_u32(put_u64(bytes, state.ns), 0), 1);

	flush_events();
	at = put_varint(put_varint(at, 1), state.number);
	write_block(POINT, bytes, (size_t)(at - bytes));
	write_stacks();
}

static void write_names(void)
{
	static const char *const names[PROCESSES] = { "shop", "store", "mailer", "proxy" };
	uint8_t bytes[200], *at;
	char name[32];

	for (unsigned int i = 0; i < PROCESSES; i++) {
		at = put_counted(put_counted(put_varint(bytes, process_of(i)), names[i]), "");
		write_event(PROCESS, i, 0, bytes, (size_t)(at - bytes));
		at = put_varint(put_varint(bytes, i + 1), CODE);
		at = put_varint(put_varint(at, CODE + FUNCTIONS * FUNCTION_BYTES), 0);
		at = put_varint(put_counted(at, "/usr/bin/server"), 0);
		write_event(MAPPING, i, 0, bytes, (size_t)(at - bytes));
		for (unsigned int j = 0; j < FUNCTIONS; j++) {
			const uint32_t start = CODE + j * FUNCTION_BYTES;

			snprintf(name, sizeof(name), "function_%u", j);
			at = put_varint(put_varint(bytes, i * FUNCTIONS + j + 1), i + 1);
			at = put_varint(put_varint(at, start), start + FUNCTION_BYTES - 1);
			at = put_counted(at, name);
			write_event(FUNCTION, i, 0, bytes, (size_t)(at - bytes));
		}
	}
}

static void write_order(enum kind kind, unsigned int thread)
{
	const uint64_t order = state.events;

	write_event(kind, thread, 0, &order, sizeof(order));
}

static void write_span_event(unsigned int thread)
{
	unsigned int *depth = &state.threads[thread].depth;
	const bool has_query = random_bits() % 2;

	if (*depth == 0 || (*depth == 1 && has_query)) {
		write_order(*depth ? QUERY_START : REQUEST_START, thread);
		++*depth;
	} else {
		write_order(*depth == 2 ? QUERY_STOP : REQUEST_STOP, thread);
		--*depth;
		state.spans++;
	}
}

static uint32_t any_stack(void)
{
	return 1 + (uint32_t)(random_bits() % STACKS);
}

static void write_sample(unsigned int thread)
{
	uint8_t bytes[10];

	write_event(SAMPLE, thread, any_stack(), bytes,
		    (size_t)(put_varint(bytes, 1000000) - bytes));
	state.samples++;
}

/* The thread was off its processor since its last event; another thread woke it. */
static void write_wait(unsigned int thread)
{
	const uint64_t duration = state.ns - state.threads[thread].last_ns;
	const unsigned int waker = (thread + 5) % THREADS;
	uint8_t bytes[64], *at = put_varint(bytes, duration);

	if (!state.threads[thread].last_ns)
		return;
	write_event(SWITCH, thread, any_stack(), bytes, (size_t)(at - bytes));
	at = put_u32(put_u64(put_u64(bytes, duration), duration / 4), 1);
	at = put_u64(put_u32(at, process_of(waker)), process_of(waker) + waker / PROCESSES);
	write_event(WAIT, thread, 0, bytes, (size_t)(at - bytes));
	state.waits++;
}

static void write_counter(void)
{
	const float interval = 1;
	uint8_t bytes[200], *at = put_utf16(put_utf16(put_utf16(bytes, "queue"), ""), "");

	at = put_f64(put_f64(at, (double)(random_bits() % 1000)), 0);
	at = put_utf16(put(at, &interval, sizeof(interval)), "Interval=1000");
	at = put_utf16(at, "Mean");
	write_event(COUNTER, 0, 0, bytes, (size_t)(at - bytes));
	state.values++;
}

/* Write what one thread does until another one runs. */
static void write_run(unsigned int thread)
{
	const unsigned int count = 8 + random_bits() % 16;

	write_wait(thread);
	for (unsigned int i = 0; i < count; i++) {
		const unsigned int share = random_bits() % 100;

		if (share < 45) {
			write_span_event(thread);
		} else if (share < 65) {
			write_sample(thread);
		} else {
			write_order(NOTE, thread);
			state.notes++;
		}
	}
}

int main(int argc, char **argv)
{
	const uint64_t wanted = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t point = POINT_EVENTS, counter = 0;
	unsigned int open = 0;

	if (!wanted) {
		fprintf(stderr, "usage: view_trace FILE EVENTS\n");
		return 2;
	}
	state.file = fopen(argv[1], "w");
	if (!state.file) {
		fprintf(stderr, "view_trace: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	write_start();
	write_threads();
	write_stacks();
	write_names();
	while (state.events < wanted) {
		if (state.events >= point) {
			write_point();
			point += POINT_EVENTS;
		}
		if (state.events >= counter) {
			write_counter();
			counter += COUNTER_EVENTS;
		}
		write_run(random_bits() % THREADS);
	}
	flush_events();
	write_block(END, NULL, 0);
	if (fclose(state.file) != 0) {
		fprintf(stderr, "view_trace: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	for (unsigned int i = 0; i < THREADS; i++)
		open += state.threads[i].depth;
	printf("{\"events\":%" PRIu64 ",\"spans\":%" PRIu64 ",\"open\":%u,\"samples\":%" PRIu64
	       ",\"waits\":%" PRIu64 ",\"notes\":%" PRIu64 ",\"values\":%" PRIu64
	       ",\"threads\":%u,\"end_ns\":%" PRIu64 "}\n", state.events, state.spans, open,
	       state.samples, state.waits, state.notes, state.values, THREADS, state.ns);
	return 0;
}
