/* SPDX-License-Identifier: MIT */
#include "parts.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const strict_reasons[STRICT_REASONS] = {
	"full", "full-fallback", "too-big", "busy", "sink", "damaged", "blocked",
};

bool strict_failed(const struct strict *strict)
{
	return strict->result->fault[0];
}

void strict_fail(struct strict *strict, const uint8_t *at, const char *format, ...)
{
	char *fault = strict->result->fault;
	va_list arguments;
	int length;

	if (strict_failed(strict))
		return;
	length = snprintf(fault, sizeof(strict->result->fault), "offset %zu: ",
			  (size_t)(at - strict->input.start));
	va_start(arguments, format);
	vsnprintf(fault + length, sizeof(strict->result->fault) - (size_t)length, format,
		  arguments);
	va_end(arguments);
}

struct strict_thread *strict_thread_of(struct strict *strict, uint64_t id, const uint8_t *at)
{
	uint64_t slot = (id * 0x9e3779b97f4a7c15ull) >> (64 - STRICT_THREADS_LOG);
	struct strict_thread *thread = &strict->threads[slot];

	for (unsigned int i = 0; thread->used && thread->id != id; i++) {
		slot = (slot + 1) & ((1u << STRICT_THREADS_LOG) - 1);
		thread = &strict->threads[slot];
		if (i == (1u << STRICT_THREADS_LOG) - 2) {
			strict_fail(strict, at, "more threads than this reader has room for");
			break;
		}
	}
	if (!thread->used) {
		*thread = (struct strict_thread){ .id = id, .used = true };
		strict->result->threads += !strict->is_v6 && id < STRICT_KERNEL_THREAD;
	}
	return thread;
}

/* Check that the event's number follows the number of its thread's last event. */
static void count_event(struct strict *strict, const struct strict_header *header,
			const uint8_t *at)
{
	struct strict_thread *thread = strict_thread_of(strict, header->capture_thread, at);
	uint32_t gap = header->number - thread->number - 1;

	if (gap && (strict->flags & STRICT_KERNEL) &&
	    header->capture_thread == STRICT_KERNEL_THREAD)
		strict->result->lost_in_gaps += gap;
	else if (gap)
		strict_fail(strict, at, "thread %llu: event %u follows event %u",
			    (unsigned long long)header->capture_thread, header->number,
			    thread->number);
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
		strict_fail(strict, payload.at, "EventsLost states no loss");
	strict->result->lost_reported += count;
	for (unsigned int i = 0; i < STRICT_REASONS; i++) {
		if (strcmp(reason, strict_reasons[i]) == 0) {
			strict->result->lost_by[i] += count;
			return;
		}
	}
	strict_fail(strict, payload.at, "EventsLost for the reason \"%s\"", reason);
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
			strict_fail(strict, payload.at,
				    "a window that begins before the trace, or after its end");
	}
}

/* Check that the serial numbers of a writer increase. */
static void take_serial(struct strict *strict, uint64_t id, uint64_t serial, const uint8_t *at)
{
	struct strict_writer *writer = strict_writer_of(strict->result, id);

	if (!writer) {
		strict_fail(strict, at, "more than %u writers", STRICT_WRITERS_MAX);
		return;
	}
	if (writer->count && serial <= writer->last)
		strict_fail(strict, at, "writer %llu: serial %llu follows serial %llu",
			    (unsigned long long)id, (unsigned long long)serial,
			    (unsigned long long)writer->last);
	if (!writer->count++)
		writer->first = serial;
	writer->last = serial;
}

static void take_event(struct strict *strict, const struct strict_header *header,
		       struct strict_input payload)
{
	const struct strict_definition *definition = strict->definitions[header->metadata_id];
	const struct strict_serials *serials = strict->serials;
	struct strict_event event = {
		definition->provider, definition->name, definition->id, header->time,
		header->thread, payload.at, (size_t)(payload.end - payload.at),
	};
	const char *problem = strict_payload(definition, payload);
	uint64_t writer, serial;

	if (strict->is_v6)
		event.thread = strict_thread_of(strict, header->thread, payload.at)->thread;
	writer = event.thread;
	if (problem)
		strict_fail(strict, payload.at, "%s/%s: %s", definition->provider, definition->name,
			    problem);
	if (strict_failed(strict))
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
		strict_fail(strict, payload.at, "%s/%s has no such integer fields",
			    definition->provider, definition->name);
	else
		take_serial(strict, writer, serial, payload.at);
}

/* Read the parts of a header that flags 1, 2, 4 and 8 announce. */
static void read_who(struct strict_input *c, uint8_t flags, struct strict_header *header)
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

struct strict_input strict_read_header(struct strict *strict, struct strict_input *c,
				       struct strict_header *header)
{
	const uint8_t *at = c->at;
	uint8_t flags = (uint8_t)strict_number(c, 1);

	read_who(c, flags, header);
	header->time += strict_varint(c, 64);
	if (strict->is_v6 && flags & 16)
		header->labels = (uint32_t)strict_varint(c, 32);
	else if (!strict->is_v6)
		strict_take(c, (flags & 16 ? 16 : 0) + (flags & 32 ? 16 : 0));
	if (flags & 128)
		header->payload_bytes = (uint32_t)strict_varint(c, 32);
	if (!(flags & 64))
		strict_fail(strict, at, "an event that is not marked as sorted");
	if (strict->is_v6 && flags & 32)
		strict_fail(strict, at, "a header with flag 32, which version 6 does not have");
	return strict_part(c, header->payload_bytes);
}

/* In version 6, a thread is a row with a process, and a row without one numbers the events. */
static void check_rows(struct strict *strict, const struct strict_header *header, const uint8_t *at)
{
	struct strict_thread *thread = strict_thread_of(strict, header->thread, at);
	struct strict_thread *capture = strict_thread_of(strict, header->capture_thread, at);

	if (!thread->declared || !thread->process)
		strict_fail(strict, at, "an event of index %llu, which is no thread",
			    (unsigned long long)header->thread);
	if (!capture->declared || capture->process || capture->id == STRICT_LOST_INDEX)
		strict_fail(strict, at, "an event numbered by index %llu",
			    (unsigned long long)header->capture_thread);
	if (header->labels > strict->labels)
		strict_fail(strict, at, "label list %u, and %u are defined", header->labels,
			    strict->labels);
	strict->result->threads += !thread->seen;
	thread->seen = true;
}

static void check_event(struct strict *strict, const struct strict_header *header,
			const uint8_t *at)
{
	if (header->metadata_id >= STRICT_DEFINITIONS_MAX ||
	    !strict->definitions[header->metadata_id])
		strict_fail(strict, at, "definition %u is missing", header->metadata_id);
	if (header->time < strict->last_ns)
		strict_fail(strict, at, "time %llu follows %llu", (unsigned long long)header->time,
			    (unsigned long long)strict->last_ns);
	if (header->stack > strict->stacks)
		strict_fail(strict, at, "stack %u, and %u are defined", header->stack,
			    strict->stacks);
	if (header->processor >= strict->processors)
		strict_fail(strict, at, "processor %u of %u", header->processor,
			    strict->processors);
	if (header->payload_bytes > 65400)
		strict_fail(strict, at, "a payload of %u bytes", header->payload_bytes);
	if (strict->is_v6)
		check_rows(strict, header, at);
}

void strict_read_times(struct strict *strict, struct strict_input *c, uint64_t *ret_first,
		       uint64_t *ret_last)
{
	const uint8_t *at = c->at;
	uint64_t size = strict_number(c, 2), flags = strict_number(c, 2);

	*ret_first = strict_number(c, 8);
	*ret_last = strict_number(c, 8);
	if (size != 20 || flags != 1)
		strict_fail(strict, at, "block header: size %llu, flags %llu",
			    (unsigned long long)size, (unsigned long long)flags);
}

void strict_read_events(struct strict *strict, struct strict_input block)
{
	const uint8_t *start = block.at;
	struct strict_header header = { 0 };
	uint64_t first, last;
	bool any = false;

	strict_read_times(strict, &block, &first, &last);
	while (!strict_failed(strict) && !block.failed && block.at < block.end) {
		const uint8_t *at = block.at;
		struct strict_input payload = strict_read_header(strict, &block, &header);

		if (block.failed)
			break;
		if (!any && header.time != first)
			strict_fail(strict, at, "a block begins at %llu and states %llu",
				    (unsigned long long)header.time, (unsigned long long)first);
		check_event(strict, &header, at);
		if (strict_failed(strict))
			return;
		any = true;
		strict->last_ns = header.time;
		count_event(strict, &header, at);
		take_event(strict, &header, payload);
	}
	if (block.failed)
		strict_fail(strict, block.at, "an event goes past its block");
	else if (!any || header.time != last)
		strict_fail(strict, start,
			    "a block that is empty, or ends at another time than stated");
}

void strict_read_stacks(struct strict *strict, struct strict_input block)
{
	uint64_t first = strict_number(&block, 4), count = strict_number(&block, 4);

	if (first != strict->stacks + 1 || count == 0)
		strict_fail(strict, block.start, "%llu stacks from %llu on, after %u",
			    (unsigned long long)count, (unsigned long long)first, strict->stacks);
	for (uint64_t i = 0; i < count && !block.failed; i++) {
		uint64_t bytes = strict_number(&block, 4);

		strict_take(&block, bytes);
		if (bytes == 0 || bytes % 8)
			strict_fail(strict, block.at, "a stack of %llu bytes",
				    (unsigned long long)bytes);
	}
	if (block.failed || block.at != block.end)
		strict_fail(strict, block.at, "stacks do not fill their block");
	strict->stacks += (uint32_t)count;
}

static void check_losses(struct strict *strict, const uint8_t *at)
{
	const struct strict_result *result = strict->result;
	bool equal = result->lost_reported == result->lost_in_points;

	if (strict->unreported && (strict->flags & STRICT_RECOVERED))
		strict_fail(strict, at,
			    "a sequence point after one with losses of no EventsLost event");
	else if (!equal && !(strict->flags & STRICT_MERGED) &&
		 !((strict->flags & STRICT_RECOVERED) &&
		   result->lost_reported < result->lost_in_points))
		strict_fail(strict, at, "EventsLost events state %llu, the sequence point %llu",
			    (unsigned long long)result->lost_reported,
			    (unsigned long long)result->lost_in_points);
	strict->unreported = !equal;
}

void strict_add_definition(struct strict *strict, struct strict_definition *definition,
			   const char *problem, const uint8_t *at)
{
	if (problem) {
		strict_fail(strict, at, "%s", problem);
		return;
	}
	if (definition->metadata_id == 0 || definition->metadata_id >= STRICT_DEFINITIONS_MAX ||
	    strict->definitions[definition->metadata_id])
		strict_fail(strict, at, "definition %u: twice, or out of range",
			    definition->metadata_id);
	if (strict_failed(strict))
		strict_definition_free(definition);
	else
		strict->definitions[definition->metadata_id] = definition;
}

void strict_read_clock(struct strict *strict, struct strict_input *c)
{
	const uint8_t *at = c->at;
	uint64_t utc[8], ticks, pointer;

	for (int i = 0; i < 8; i++)
		utc[i] = strict_number(c, 2);
	strict->result->start_ns = strict->last_ns = strict_number(c, 8);
	ticks = strict_number(c, 8);
	pointer = strict_number(c, 4);
	if (utc[0] < 2020 || utc[1] < 1 || utc[1] > 12 || utc[2] > 6 || utc[3] < 1 ||
	    utc[3] > 31 || utc[4] > 23 || utc[5] > 59 || utc[6] > 60 || utc[7] > 999)
		strict_fail(strict, at, "a start that is no time");
	if (ticks != 1000000000 || pointer != 8)
		strict_fail(strict, at, "Trace: %llu ticks a second, pointers of %llu",
			    (unsigned long long)ticks, (unsigned long long)pointer);
}

/*
 * Check an artificial capture thread of version 4, which reports losses: its number minus 1 is the
 * number of lost events, so it never decreases.
 */
static void read_loss(struct strict *strict, struct strict_thread *thread, uint32_t number,
		      const uint8_t *at)
{
	uint32_t before = thread->number ? thread->number : 1;

	if (number == 0 || number < before || number > 0x80000000u)
		strict_fail(strict, at, "the number of lost events goes from %u to %u", before,
			    number);
	else if (thread->number == 0 && number != 1)
		strict_fail(strict, at, "lost events are counted from %u on", number);
	else if (thread->number == 0 && thread->id == STRICT_LOST_THREAD && strict->began)
		strict_fail(strict, at, "lost events have no number before the first event");
	strict->result->lost_in_points += number - before;
}

/* In version 6, the number of the index for losses is that of the lost events. */
static void read_loss_index(struct strict *strict, struct strict_thread *thread, uint32_t number,
			    const uint8_t *at)
{
	if (number <= thread->number || number - thread->number > 0x7fffffffu)
		strict_fail(strict, at, "the number of lost events goes from %u to %u",
			    thread->number, number);
	strict->result->lost_in_points += number - thread->number;
}

/* The kernel's numbers have gaps. In version 4, the first sequence point sets the initial one. */
static void read_kernel_number(struct strict *strict, struct strict_thread *thread,
			       uint32_t number, const uint8_t *at)
{
	if (number < thread->number)
		strict_fail(strict, at, "the kernel's number goes from %u back to %u",
			    thread->number, number);
	if (thread->number || strict->began || strict->is_v6)
		strict->result->lost_in_gaps += number - thread->number;
}

bool strict_read_number(struct strict *strict, struct strict_thread *thread, uint32_t number,
			const uint8_t *at)
{
	bool wrote = thread->wrote;

	if (strict->is_v6 && thread->id == STRICT_LOST_INDEX)
		read_loss_index(strict, thread, number, at);
	else if (!strict->is_v6 && thread->id >= STRICT_LOST_THREAD)
		read_loss(strict, thread, number, at);
	else if (thread->id == STRICT_KERNEL_THREAD && (strict->flags & STRICT_KERNEL))
		read_kernel_number(strict, thread, number, at);
	else if (number != thread->number || !thread->number)
		strict_fail(strict, at,
			    "thread %llu: a sequence point states %u, its last event is %u",
			    (unsigned long long)thread->id, number, thread->number);
	thread->number = number;
	thread->wrote = false;
	return wrote;
}

void strict_end_point(struct strict *strict, struct strict_input *block, uint64_t time,
		      uint64_t named)
{
	if (time < strict->last_ns)
		strict_fail(strict, block->start, "a sequence point at %llu follows %llu",
			    (unsigned long long)time, (unsigned long long)strict->last_ns);
	if (block->failed || block->at != block->end)
		strict_fail(strict, block->at, "threads do not fill their sequence point");
	/* A killed process leaves events of threads that no sequence point names. */
	if (named != strict->wrote && !(strict->flags & STRICT_RECOVERED))
		strict_fail(strict, block->start,
			    "a sequence point names %llu of %llu threads that wrote",
			    (unsigned long long)named, (unsigned long long)strict->wrote);
	strict->wrote -= named;
	check_losses(strict, block->start);
	strict->last_ns = time;
	strict->stacks = strict->labels = 0;
	strict->result->points++;
}

static void read_all(struct strict *strict)
{
	static const char head[] = "Nettrace\0\0\0";
	struct strict_input *c = &strict->input;

	strict->is_v6 = c->end - c->at >= (ptrdiff_t)sizeof(head) &&
		memcmp(c->at, head, sizeof(head)) == 0;
	if (strict->is_v6)
		strict_read_version6(strict, c);
	else
		strict_read_version4(strict, c);
	if (!strict->result->complete && !(strict->flags & STRICT_CUT))
		strict_fail(strict, c->at, "the trace has no end");
	if (!(strict->flags & STRICT_CUT) && (strict->result->points == 0 || strict->wrote) &&
	    !(strict->flags & STRICT_RECOVERED))
		strict_fail(strict, c->at, "no sequence point at the end");
	if (strict->unreported && !(strict->flags & (STRICT_CUT | STRICT_RECOVERED)))
		strict_fail(strict, c->at, "EventsLost events state %llu, sequence points %llu",
			    (unsigned long long)strict->result->lost_reported,
			    (unsigned long long)strict->result->lost_in_points);
}

static void read_file(struct strict *strict, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	uint8_t *bytes;

	if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_size == 0) {
		strict_fail(strict, NULL, "%s cannot be read, or is empty", path);
		if (fd >= 0)
			close(fd);
		return;
	}
	bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED) {
		strict_fail(strict, NULL, "%s cannot be mapped", path);
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
	strict.threads = calloc(1u << STRICT_THREADS_LOG, sizeof(*strict.threads));
	strict.definitions = calloc(STRICT_DEFINITIONS_MAX, sizeof(struct strict_definition *));
	if (strict.threads && strict.definitions)
		read_file(&strict, path);
	else
		strict_fail(&strict, NULL, "no memory");
	for (uint32_t i = 0; strict.definitions && i < STRICT_DEFINITIONS_MAX; i++)
		strict_definition_free(strict.definitions[i]);
	free(strict.definitions);
	free(strict.threads);
	return !ret_result->fault[0];
}
