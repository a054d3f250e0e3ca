/* SPDX-License-Identifier: MIT */
/* The outer layer of version 6: blocks, rows of threads and definitions, label lists. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { END, TRACE, EVENT, METADATA, SEQUENCE_POINT, STACK, THREAD, REMOVE_THREAD, LABEL_LIST };

/* Read a number in decimal digits and nothing else. 0: something else. */
static uint64_t digits(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end ? value : 0;
}

/* Return: whether the key is known. */
static bool take_key(struct strict *strict, const char *key, uint64_t value)
{
	if (strcmp(key, "HardwareThreadCount") == 0)
		strict->processors = (uint32_t)value;
	else if (strcmp(key, "ProcessId") == 0)
		strict->process = value;
	else if (strcmp(key, "SystemPageSize") != 0 && strcmp(key, "ExpectedCPUSamplingRate") != 0)
		return false;
	return value > 0;
}

static void read_trace(struct strict *strict, struct strict_input block)
{
	uint64_t count;

	strict_read_clock(strict, &block);
	count = strict_number(&block, 4);
	for (uint64_t i = 0; i < count && !block.failed; i++) {
		const uint8_t *at = block.at;
		char key[64], value[64];

		strict_text8(&block, key, sizeof(key));
		strict_text8(&block, value, sizeof(value));
		if (!block.failed && !take_key(strict, key, digits(value)))
			strict_fail(strict, at, "Trace: %s is %s", key, value);
	}
	if (block.failed || block.at != block.end || !strict->processors || !strict->process)
		strict_fail(strict, block.at, "Trace: pairs do not fill it, or some are missing");
}

static void read_definitions(struct strict *strict, struct strict_input block)
{
	if (strict_number(&block, 2) != 0 || block.at == block.end)
		strict_fail(strict, block.start, "a block without a definition, or with a header");
	while (!strict_failed(strict) && block.at < block.end) {
		const uint8_t *at = block.at;
		struct strict_input row = strict_part(&block, strict_number(&block, 2));
		struct strict_definition *definition = NULL;
		const char *problem = "a definition goes past its block";

		if (!block.failed)
			problem = strict_define_row(row, &definition);
		strict_add_definition(strict, definition, problem, at);
	}
}

/*
 * A thread has one row, except that the kernel's events may have added a row before the stream. A
 * merged trace adds a multiple of 2^26 to the ids of each further machine.
 */
static void check_row(struct strict *strict, const struct strict_thread *row, const uint8_t *at)
{
	const bool is_merged = strict->flags & STRICT_MERGED;
	uint64_t both = 1ull << 63 | row->process << 34 | row->thread;
	struct strict_thread *known;

	if (row->process == 0 && row->thread == 0)
		return;
	if (row->process == 0 || row->thread == 0 || row->thread >> 34 ||
	    row->process >> (is_merged ? 29 : 22) ||
	    (row->process != strict->process && !is_merged))
		strict_fail(strict, at, "thread %llu of process %llu",
			    (unsigned long long)row->thread, (unsigned long long)row->process);
	known = strict_thread_of(strict, both, at);
	if (known->declared && row->id < STRICT_KERNEL_THREAD)
		strict_fail(strict, at, "a second row of thread %llu of process %llu",
			    (unsigned long long)row->thread, (unsigned long long)row->process);
	known->declared |= row->id < STRICT_KERNEL_THREAD;
}

static void read_row(struct strict *strict, struct strict_input row)
{
	struct strict_thread read = { .id = strict_varint(&row, 64), .used = true };
	struct strict_thread *thread;

	if (strict_number(&row, 1) == 2)
		read.process = strict_varint(&row, 64);
	if (strict_number(&row, 1) == 3)
		read.thread = strict_varint(&row, 64);
	if (row.failed || row.at != row.end)
		strict_fail(strict, row.start, "a row that is not an index, process and thread");
	if (strict_failed(strict))
		return;
	thread = strict_thread_of(strict, read.id, row.start);
	if (thread->declared)
		strict_fail(strict, row.start, "index %llu is declared twice",
			    (unsigned long long)read.id);
	read.declared = true;
	*thread = read;
	check_row(strict, &read, row.start);
}

static void read_threads(struct strict *strict, struct strict_input block)
{
	if (block.at == block.end)
		strict_fail(strict, block.start, "a block without a thread");
	while (!strict_failed(strict) && block.at < block.end) {
		struct strict_input row = strict_part(&block, strict_number(&block, 2));

		if (block.failed)
			strict_fail(strict, block.start, "a thread goes past its block");
		else
			read_row(strict, row);
	}
}

/* Activity, related activity, trace id and span id, each at most once, in this order. */
static void read_labels(struct strict *strict, struct strict_input *block)
{
	static const uint8_t none[16], sizes[5] = { 0, 16, 16, 16, 8 };
	uint64_t kind = 0, before = 0;

	while (!(kind & 0x80) && !block->failed && !strict_failed(strict)) {
		const uint8_t *at = block->at, *id;

		kind = strict_number(block, 1);
		if ((kind & 0x7f) <= before || (kind & 0x7f) > 4) {
			strict_fail(strict, at, "label %llu follows %llu",
				    (unsigned long long)(kind & 0x7f), (unsigned long long)before);
			return;
		}
		before = kind & 0x7f;
		id = strict_take(block, sizes[before]);
		if (!block->failed && memcmp(id, none, sizes[before]) == 0)
			strict_fail(strict, at, "label %llu is zero", (unsigned long long)before);
	}
}

static void read_label_lists(struct strict *strict, struct strict_input block)
{
	uint64_t first = strict_number(&block, 4), count = strict_number(&block, 4);

	if (first != strict->labels + 1 || count == 0)
		strict_fail(strict, block.start, "%llu label lists from %llu on, after %u",
			    (unsigned long long)count, (unsigned long long)first, strict->labels);
	for (uint64_t i = 0; i < count && !block.failed && !strict_failed(strict); i++)
		read_labels(strict, &block);
	if (block.failed || block.at != block.end)
		strict_fail(strict, block.at, "label lists do not fill their block");
	strict->labels += (uint32_t)count;
}

/* Only a recovered trace removes rows: all of them, and their numbers start over. */
static void flush_threads(struct strict *strict, uint64_t flags, const uint8_t *at)
{
	if (flags == 0)
		return;
	if (flags != 1 || !(strict->flags & STRICT_RECOVERED))
		strict_fail(strict, at, "a sequence point with flags %llu",
			    (unsigned long long)flags);
	memset(strict->threads, 0, sizeof(*strict->threads) << STRICT_THREADS_LOG);
	strict->wrote = 0;
}

static void read_point(struct strict *strict, struct strict_input block)
{
	uint64_t time = strict_number(&block, 8), flags = strict_number(&block, 4);
	uint64_t count = strict_number(&block, 4), named = 0;

	for (uint64_t i = 0; i < count && !block.failed && !strict_failed(strict); i++) {
		const uint8_t *at = block.at;
		uint64_t index = strict_varint(&block, 64);
		uint32_t number = (uint32_t)strict_varint(&block, 32);
		struct strict_thread *thread = strict_thread_of(strict, index, at);

		if (!block.failed && (!thread->declared || thread->process))
			strict_fail(strict, at, "a sequence point states a number of index %llu",
				    (unsigned long long)index);
		else if (!block.failed)
			named += strict_read_number(strict, thread, number, at);
	}
	strict_end_point(strict, &block, time, named);
	flush_threads(strict, flags, block.start);
}

static void read_block(struct strict *strict, uint64_t kind, struct strict_input block)
{
	switch (kind) {
	case END:
		strict->result->complete = true;
		if (block.start != block.end || block.end != strict->input.end)
			strict_fail(strict, block.start, "bytes after the end");
		break;
	case EVENT:
		strict_read_events(strict, block);
		break;
	case METADATA:
		read_definitions(strict, block);
		break;
	case SEQUENCE_POINT:
		read_point(strict, block);
		break;
	case STACK:
		strict_read_stacks(strict, block);
		break;
	case THREAD:
		read_threads(strict, block);
		break;
	case LABEL_LIST:
		read_label_lists(strict, block);
		break;
	default:
		strict_fail(strict, block.start, "a block of kind %llu", (unsigned long long)kind);
	}
}

void strict_read_version6(struct strict *strict, struct strict_input *c)
{
	uint64_t major, minor;
	bool has_trace = false;

	strict_take(c, 12);
	major = strict_number(c, 4);
	minor = strict_number(c, 4);
	if (!c->failed && (major != 6 || minor != 0))
		strict_fail(strict, c->at, "version %llu.%llu", (unsigned long long)major,
			    (unsigned long long)minor);
	while (!strict_failed(strict) && !c->failed && c->at < c->end) {
		uint64_t head = strict_number(c, 4), kind = head >> 24;
		struct strict_input block = strict_part(c, head & 0xffffff);

		if (c->failed)
			break;
		if (has_trace)
			read_block(strict, kind, block);
		else if (kind == TRACE)
			read_trace(strict, block);
		else
			strict_fail(strict, block.start, "Trace does not come first");
		has_trace = true;
	}
}
