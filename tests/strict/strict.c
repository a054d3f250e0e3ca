/* SPDX-License-Identifier: MIT */
#include "strict.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fields.h"

#define KERNEL_THREAD (1ull << 32)
#define LOST_THREAD (1ull << 63)
#define THREADS_LOG 16
#define DEFINITIONS_MAX (1u << 17)

const char *const strict_reasons[STRICT_REASONS] = {
	"full", "full-fallback", "too-big", "busy", "sink", "damaged", "blocked",
};

struct thread {
	uint64_t id;
	uint32_t number;	/* of the thread's last event, or from a sequence point */
	bool used, wrote;	/* wrote: an event since the last sequence point */
};

/* State of the compressed headers of a block. */
struct header {
	uint64_t time, capture_thread, thread;
	uint32_t metadata_id, number, processor, stack, payload_bytes;
};

struct strict {
	struct strict_input input;	/* the whole file */
	unsigned int flags;
	const struct strict_serials *serials;
	strict_callback callback;
	void *data;
	struct strict_result *result;
	struct strict_definition **definitions;
	struct thread *threads;		/* a hash table of 1 << THREADS_LOG */
	uint32_t processors;
	uint32_t stacks;		/* defined since the last sequence point */
	uint64_t last_ns;
	uint64_t wrote;			/* number of threads that wrote since that point */
	bool began;			/* an event was read */
	bool unreported;		/* a point stated more losses than EventsLost events did */
};

static bool failed(const struct strict *strict)
{
	return strict->result->fault[0];
}

/* Record a fault. Only the first fault is kept. */
static __attribute__((format(printf, 3, 4))) void fail(struct strict *strict, const uint8_t *at,
						       const char *format, ...)
{
	char *fault = strict->result->fault;
	va_list arguments;
	int length;

	if (failed(strict))
		return;
	length = snprintf(fault, sizeof(strict->result->fault), "offset %zu: ",
			  (size_t)(at - strict->input.start));
	va_start(arguments, format);
	vsnprintf(fault + length, sizeof(strict->result->fault) - (size_t)length, format,
		  arguments);
	va_end(arguments);
}

static struct thread *thread_of(struct strict *strict, uint64_t id, const uint8_t *at)
{
	uint64_t slot = (id * 0x9e3779b97f4a7c15ull) >> (64 - THREADS_LOG);
	struct thread *thread = &strict->threads[slot];

	for (unsigned int i = 0; thread->used && thread->id != id; i++) {
		slot = (slot + 1) & ((1u << THREADS_LOG) - 1);
		thread = &strict->threads[slot];
		if (i == (1u << THREADS_LOG) - 2) {
			fail(strict, at, "more threads than this reader has room for");
			break;
		}
	}
	if (!thread->used) {
		*thread = (struct thread){ .id = id, .used = true };
		strict->result->threads += id < KERNEL_THREAD;
	}
	return thread;
}

/* Check that the event's number follows the number of its thread's last event. */
static void count_event(struct strict *strict, const struct header *header, const uint8_t *at)
{
	struct thread *thread = thread_of(strict, header->capture_thread, at);
	uint32_t gap = header->number - thread->number - 1;

	if (gap && (strict->flags & STRICT_KERNEL) && header->capture_thread == KERNEL_THREAD)
		strict->result->lost_in_gaps += gap;
	else if (gap)
		fail(strict, at, "thread %llu: event %u follows event %u",
		     (unsigned long long)header->capture_thread, header->number, thread->number);
	thread->number = header->number;
	strict->wrote += !thread->wrote;
	thread->wrote = true;
	strict->began = true;
	strict->result->events++;
}

static void take_lost(struct strict *strict, struct strict_input payload)
{
	uint32_t ring = (uint32_t)strict_number(&payload, 4);
	char reason[32];
	uint64_t count;

	(void)ring;
	strict_text(&payload, reason, sizeof(reason));
	count = strict_number(&payload, 8);
	if (count == 0)
		fail(strict, payload.at, "EventsLost states no loss");
	strict->result->lost_reported += count;
	for (unsigned int i = 0; i < STRICT_REASONS; i++) {
		if (strcmp(reason, strict_reasons[i]) == 0) {
			strict->result->lost_by[i] += count;
			return;
		}
	}
	fail(strict, payload.at, "EventsLost for the reason \"%s\"", reason);
}

static void take_own(struct strict *strict, const char *name, struct strict_input payload)
{
	if (strcmp(name, "EventsLost") == 0) {
		take_lost(strict, payload);
	} else if (strcmp(name, "PayloadsCut") == 0) {
		strict->result->cut_payloads += strict_number(&payload, 8);
	} else if (strcmp(name, "Snapshot") == 0) {
		strict->result->window_from_ns = strict_number(&payload, 8);
		strict->result->window_to_ns = strict_number(&payload, 8);
		if (strict->result->window_from_ns > strict->result->window_to_ns ||
		    strict->result->window_from_ns < strict->result->start_ns)
			fail(strict, payload.at, "a window that begins before the trace, or after"
			     " its own end");
	}
}

/* Check that the serial numbers of a writer increase. */
static void take_serial(struct strict *strict, uint64_t id, uint64_t serial, const uint8_t *at)
{
	struct strict_writer *writer = strict_writer_of(strict->result, id);

	if (!writer) {
		fail(strict, at, "more than %u writers", STRICT_WRITERS_MAX);
		return;
	}
	if (writer->count && serial <= writer->last)
		fail(strict, at, "writer %llu: serial %llu follows serial %llu",
		     (unsigned long long)id, (unsigned long long)serial,
		     (unsigned long long)writer->last);
	if (!writer->count++)
		writer->first = serial;
	writer->last = serial;
}

static void take_event(struct strict *strict, const struct header *header,
		       struct strict_input payload)
{
	const struct strict_definition *definition = strict->definitions[header->metadata_id];
	const struct strict_serials *serials = strict->serials;
	struct strict_event event = {
		definition->provider, definition->name, definition->id, header->time,
		header->thread, payload.at, (size_t)(payload.end - payload.at),
	};
	const char *problem = strict_payload(definition, payload);
	uint64_t writer = header->thread, serial;

	if (problem)
		fail(strict, payload.at, "%s/%s: %s", definition->provider, definition->name,
		     problem);
	if (failed(strict))
		return;
	if (strcmp(definition->provider, "ringpipe") == 0)
		take_own(strict, definition->name, payload);
	if (strict->callback)
		strict->callback(&event, strict->data);
	if (!serials || strcmp(definition->provider, serials->provider) != 0 ||
	    strcmp(definition->name, serials->event) != 0)
		return;
	if ((serials->writer_field &&
	     !strict_integer(definition, payload, serials->writer_field, &writer)) ||
	    !strict_integer(definition, payload, serials->serial_field, &serial))
		fail(strict, payload.at, "%s/%s has no such integer fields", definition->provider,
		     definition->name);
	else
		take_serial(strict, writer, serial, payload.at);
}

/* Read the parts of a header that flags 1, 2, 4 and 8 announce. */
static void read_who(struct strict_input *c, uint8_t flags, struct header *header)
{
	if (flags & 1)
		header->metadata_id = (uint32_t)strict_varint(c, 32);
	if (flags & 2) {
		header->number += (uint32_t)strict_varint(c, 32);
		header->capture_thread = strict_varint(c, 64);
		header->processor = (uint32_t)strict_varint(c, 32);
	}
	if (header->metadata_id)
		header->number++;
	if (flags & 4)
		header->thread = strict_varint(c, 64);
	if (flags & 8)
		header->stack = (uint32_t)strict_varint(c, 32);
}

/* Read a compressed header. Return: the payload. */
static struct strict_input read_header(struct strict *strict, struct strict_input *c,
				       struct header *header)
{
	const uint8_t *at = c->at;
	uint8_t flags = (uint8_t)strict_number(c, 1);

	read_who(c, flags, header);
	header->time += strict_varint(c, 64);
	strict_take(c, (flags & 16 ? 16 : 0) + (flags & 32 ? 16 : 0));
	if (flags & 128)
		header->payload_bytes = (uint32_t)strict_varint(c, 32);
	if (!(flags & 64))
		fail(strict, at, "an event that is not marked as sorted");
	return strict_part(c, header->payload_bytes);
}

static void check_event(struct strict *strict, const struct header *header, const uint8_t *at)
{
	if (header->metadata_id >= DEFINITIONS_MAX || !strict->definitions[header->metadata_id])
		fail(strict, at, "definition %u is missing", header->metadata_id);
	if (header->time < strict->last_ns)
		fail(strict, at, "time %llu follows %llu", (unsigned long long)header->time,
		     (unsigned long long)strict->last_ns);
	if (header->stack > strict->stacks)
		fail(strict, at, "stack %u, and %u are defined", header->stack, strict->stacks);
	if (header->processor >= strict->processors)
		fail(strict, at, "processor %u of %u", header->processor, strict->processors);
	if (header->payload_bytes > 65400)
		fail(strict, at, "a payload of %u bytes", header->payload_bytes);
}

/* Read the header of an event block. */
static void read_times(struct strict *strict, struct strict_input *c, uint64_t *ret_first,
		       uint64_t *ret_last)
{
	const uint8_t *at = c->at;
	uint64_t size = strict_number(c, 2), flags = strict_number(c, 2);

	*ret_first = strict_number(c, 8);
	*ret_last = strict_number(c, 8);
	if (size != 20 || flags != 1)
		fail(strict, at, "block header: size %llu, flags %llu", (unsigned long long)size,
		     (unsigned long long)flags);
}

static void read_events(struct strict *strict, struct strict_input block)
{
	const uint8_t *start = block.at;
	struct header header = { 0 };
	uint64_t first, last;
	bool any = false;

	read_times(strict, &block, &first, &last);
	while (!failed(strict) && !block.failed && block.at < block.end) {
		const uint8_t *at = block.at;
		struct strict_input payload = read_header(strict, &block, &header);

		if (block.failed)
			break;
		if (!any && header.time != first)
			fail(strict, at, "a block begins at %llu and states %llu",
			     (unsigned long long)header.time, (unsigned long long)first);
		check_event(strict, &header, at);
		if (failed(strict))
			return;
		any = true;
		strict->last_ns = header.time;
		count_event(strict, &header, at);
		take_event(strict, &header, payload);
	}
	if (block.failed)
		fail(strict, block.at, "an event goes past its block");
	else if (!any || header.time != last)
		fail(strict, start, "a block that is empty, or ends at another time than stated");
}

static void read_definitions(struct strict *strict, struct strict_input block)
{
	struct header header = { 0 };
	uint64_t first, last;

	read_times(strict, &block, &first, &last);
	if (block.at == block.end)
		fail(strict, block.at, "a block without a definition");
	while (!failed(strict) && block.at < block.end) {
		const uint8_t *at = block.at;
		struct strict_input blob = read_header(strict, &block, &header);
		struct strict_definition *definition = NULL;
		const char *problem = "a definition goes past its block";

		if (!block.failed)
			problem = strict_define(blob, &definition);
		if (problem)
			fail(strict, at, "%s", problem);
		else if (header.metadata_id != 0 || header.time > last)
			fail(strict, at, "a definition that is an event, or after its block");
		else if (definition->metadata_id == 0 ||
			 definition->metadata_id >= DEFINITIONS_MAX ||
			 strict->definitions[definition->metadata_id])
			fail(strict, at, "definition %u: twice, or out of range",
			     definition->metadata_id);
		if (failed(strict))
			strict_definition_free(definition);
		else
			strict->definitions[definition->metadata_id] = definition;
	}
}

static void read_stacks(struct strict *strict, struct strict_input block)
{
	uint64_t first = strict_number(&block, 4), count = strict_number(&block, 4);

	if (first != strict->stacks + 1 || count == 0)
		fail(strict, block.start, "%llu stacks from %llu on, after %u",
		     (unsigned long long)count, (unsigned long long)first, strict->stacks);
	for (uint64_t i = 0; i < count && !block.failed; i++) {
		uint64_t bytes = strict_number(&block, 4);

		strict_take(&block, bytes);
		if (bytes == 0 || bytes % 8)
			fail(strict, block.at, "a stack of %llu bytes", (unsigned long long)bytes);
	}
	if (block.failed || block.at != block.end)
		fail(strict, block.at, "stacks do not fill their block");
	strict->stacks += (uint32_t)count;
}

/*
 * Check an artificial capture thread, which reports losses: its number minus 1 is the number of
 * lost events, so it never decreases.
 */
static void read_loss(struct strict *strict, struct thread *thread, uint32_t number,
		      const uint8_t *at)
{
	uint32_t before = thread->number ? thread->number : 1;

	if (number == 0 || number < before || number > 0x80000000u)
		fail(strict, at, "the number of lost events goes from %u to %u", before, number);
	else if (thread->number == 0 && number != 1)
		fail(strict, at, "lost events are counted from %u on", number);
	else if (thread->number == 0 && thread->id == LOST_THREAD && strict->began)
		fail(strict, at, "lost events have no number before the first event");
	strict->result->lost_in_points += number - before;
}

/* Return: whether the thread wrote an event since the last sequence point. */
static bool read_thread(struct strict *strict, uint64_t id, uint32_t number, const uint8_t *at)
{
	struct thread *thread = thread_of(strict, id, at);
	bool wrote = thread->wrote;

	if (id >= LOST_THREAD) {
		read_loss(strict, thread, number, at);
	} else if (id == KERNEL_THREAD && (strict->flags & STRICT_KERNEL)) {
		if (number < thread->number)
			fail(strict, at, "the kernel's number goes from %u back to %u",
			     thread->number, number);
		/* The first sequence point that names the thread sets the initial number. */
		if (thread->number || strict->began)
			strict->result->lost_in_gaps += number - thread->number;
	} else if (number != thread->number || !thread->number) {
		fail(strict, at, "thread %llu: a sequence point states %u, its last event is %u",
		     (unsigned long long)id, number, thread->number);
	}
	thread->number = number;
	thread->wrote = false;
	return wrote;
}

static void check_losses(struct strict *strict, const uint8_t *at)
{
	const struct strict_result *result = strict->result;
	bool equal = result->lost_reported == result->lost_in_points;

	if (strict->unreported && (strict->flags & STRICT_RECOVERED))
		fail(strict, at, "a sequence point after one with losses of no EventsLost event");
	else if (!equal && !(strict->flags & STRICT_MERGED) &&
		 !((strict->flags & STRICT_RECOVERED) &&
		   result->lost_reported < result->lost_in_points))
		fail(strict, at, "EventsLost events state %llu, the sequence point %llu",
		     (unsigned long long)result->lost_reported,
		     (unsigned long long)result->lost_in_points);
	strict->unreported = !equal;
}

static void read_point(struct strict *strict, struct strict_input block)
{
	uint64_t time = strict_number(&block, 8), count = strict_number(&block, 4);
	uint64_t named = 0;

	if (time < strict->last_ns)
		fail(strict, block.start, "a sequence point at %llu follows %llu",
		     (unsigned long long)time, (unsigned long long)strict->last_ns);
	for (uint64_t i = 0; i < count && !block.failed && !failed(strict); i++) {
		const uint8_t *at = block.at;
		uint64_t id = strict_number(&block, 8);
		uint32_t number = (uint32_t)strict_number(&block, 4);

		if (!block.failed)
			named += read_thread(strict, id, number, at);
	}
	if (block.failed || block.at != block.end)
		fail(strict, block.at, "threads do not fill their sequence point");
	/* A killed process leaves events of threads that no sequence point names. */
	if (named != strict->wrote && !(strict->flags & STRICT_RECOVERED))
		fail(strict, block.start, "a sequence point names %llu of %llu threads that wrote",
		     (unsigned long long)named, (unsigned long long)strict->wrote);
	strict->wrote -= named;
	check_losses(strict, block.start);
	strict->last_ns = time;
	strict->stacks = 0;
	strict->result->points++;
}

static void read_trace_object(struct strict *strict, struct strict_input *c)
{
	const uint8_t *at = c->at;
	uint64_t utc[8], ticks, pointer;

	for (int i = 0; i < 8; i++)
		utc[i] = strict_number(c, 2);
	strict->result->start_ns = strict->last_ns = strict_number(c, 8);
	ticks = strict_number(c, 8);
	pointer = strict_number(c, 4);
	(void)strict_number(c, 4);	/* process */
	strict->processors = (uint32_t)strict_number(c, 4);
	(void)strict_number(c, 4);	/* sampling interval */
	if (utc[0] < 2020 || utc[1] < 1 || utc[1] > 12 || utc[2] > 6 || utc[3] < 1 ||
	    utc[3] > 31 || utc[4] > 23 || utc[5] > 59 || utc[6] > 60 || utc[7] > 999)
		fail(strict, at, "a start that is no time");
	if (ticks != 1000000000 || pointer != 8 || strict->processors == 0)
		fail(strict, at, "Trace: %llu ticks a second, pointers of %llu, %u processors",
		     (unsigned long long)ticks, (unsigned long long)pointer, strict->processors);
}

/* Read the start of an object. Return: the index of its name in `names`; -1 for a fault. */
static int read_name(struct strict *strict, struct strict_input *c)
{
	static const char *const names[] = {
		"Trace", "EventBlock", "MetadataBlock", "StackBlock", "SPBlock",
	};
	const uint8_t *at = c->at, *tags = strict_take(c, 3), *name, *end;
	uint64_t version = strict_number(c, 4), least = strict_number(c, 4);
	uint64_t length = strict_number(c, 4);

	name = strict_take(c, length);
	end = strict_take(c, 1);
	if (c->failed)
		return -1;
	for (int i = 0; i < 5; i++) {
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0 &&
		    memcmp(tags, "\5\5\1", 3) == 0 && *end == 6 && version == least &&
		    version == (i ? 2 : 4))
			return i;
	}
	fail(strict, at, "no object of V4: %.*s, version %llu", length < 32 ? (int)length : 32,
	     (const char *)name, (unsigned long long)version);
	return -1;
}

static void read_block(struct strict *strict, int kind, struct strict_input *c)
{
	uint64_t size = strict_number(c, 4);
	size_t padding = -(size_t)(c->at - c->start) & 3;
	const uint8_t *zeros = strict_take(c, padding), *end;
	struct strict_input block = strict_part(c, size);

	end = strict_take(c, 1);
	if (c->failed)
		return;
	if (memcmp(zeros, "\0\0\0", padding) != 0 || *end != 6)
		fail(strict, c->at, "a block whose padding or end is wrong");
	else if (kind == 1)
		read_events(strict, block);
	else if (kind == 2)
		read_definitions(strict, block);
	else if (kind == 3)
		read_stacks(strict, block);
	else
		read_point(strict, block);
}

static void read_file_header(struct strict *strict, struct strict_input *c)
{
	const uint8_t *magic = strict_take(c, 32), *end;

	if (!c->failed && memcmp(magic, "Nettrace\24\0\0\0!FastSerialization.1", 32) != 0)
		fail(strict, c->start, "no head of a trace");
	if (!failed(strict) && !c->failed && read_name(strict, c) != 0 && !c->failed)
		fail(strict, c->at, "Trace does not come first");
	if (failed(strict) || c->failed)
		return;
	read_trace_object(strict, c);
	end = strict_take(c, 1);
	if (!c->failed && *end != 6)
		fail(strict, c->at, "Trace has no end");
}

static void read_all(struct strict *strict)
{
	struct strict_input *c = &strict->input;

	read_file_header(strict, c);
	while (!failed(strict) && !c->failed && c->at < c->end) {
		int kind;

		if (*c->at == 1) {
			strict->result->complete = true;
			if (++c->at != c->end)
				fail(strict, c->at, "bytes after the end");
			break;
		}
		kind = read_name(strict, c);
		if (kind == 0)
			fail(strict, c->at, "a second Trace");
		else if (kind > 0)
			read_block(strict, kind, c);
	}
	if (!strict->result->complete && !(strict->flags & STRICT_CUT))
		fail(strict, c->at, "the trace has no end");
	if (!(strict->flags & STRICT_CUT) && (strict->result->points == 0 || strict->wrote) &&
	    !(strict->flags & STRICT_RECOVERED))
		fail(strict, c->at, "no sequence point at the end");
	if (strict->unreported && !(strict->flags & (STRICT_CUT | STRICT_RECOVERED)))
		fail(strict, c->at, "EventsLost events state %llu, sequence points %llu",
		     (unsigned long long)strict->result->lost_reported,
		     (unsigned long long)strict->result->lost_in_points);
}

static void read_file(struct strict *strict, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	uint8_t *bytes;

	if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_size == 0) {
		fail(strict, NULL, "%s cannot be read, or is empty", path);
		if (fd >= 0)
			close(fd);
		return;
	}
	bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED) {
		fail(strict, NULL, "%s cannot be mapped", path);
		return;
	}
	strict->input = (struct strict_input){ bytes, bytes, bytes + stat.st_size, false };
	read_all(strict);
	munmap(bytes, (size_t)stat.st_size);
}

bool strict_read(const char *path, unsigned int flags, const struct strict_serials *serials,
		 strict_callback callback, void *data, struct strict_result *ret_result)
{
	struct strict strict = {
		.flags = flags, .serials = serials, .callback = callback, .data = data,
		.result = ret_result,
	};

	*ret_result = (struct strict_result){ .fault = "" };
	strict.threads = calloc(1u << THREADS_LOG, sizeof(*strict.threads));
	strict.definitions = calloc(DEFINITIONS_MAX, sizeof(struct strict_definition *));
	if (strict.threads && strict.definitions)
		read_file(&strict, path);
	else
		fail(&strict, NULL, "no memory");
	for (uint32_t i = 0; strict.definitions && i < DEFINITIONS_MAX; i++)
		strict_definition_free(strict.definitions[i]);
	free(strict.definitions);
	free(strict.threads);
	return !ret_result->fault[0];
}
