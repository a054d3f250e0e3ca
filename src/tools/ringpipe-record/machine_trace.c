/* SPDX-License-Identifier: MIT */
/*
 * Payloads of Universal.System and Universal.Events: integers are ULEB128, strings a u16 of bytes
 * and UTF-8. Source: UniversalSystemTraceEventParser.cs and UniversalEventsTraceEventParser.cs in
 * the repository microsoft/perfview.
 *
 * TraceEvent resolves the frames of the kernel in each process separately, so each process has a
 * mapping and functions of the kernel of its own.
 */
#include "tools/ringpipe-record/machine_trace_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf.h"
#include "host/identity.h"
#include "host/uleb.h"
#include "nettrace/encoder.h"
#include "nettrace/format.h"
#include "tools/client/machine_time.h"
#include "tools/trace/machine_events.h"
#include "tools/trace/stack_frame.h"

static int write_output(struct rp_record_trace *trace)
{
	size_t size;
	const void *bytes = rp_encoder_output(trace->encoder, &size);
	int ret = size ? rp_output_write(trace->output, bytes, size) : 0;

	if (ret == 0) {
		rp_encoder_consume(trace->encoder, size);
		trace->stats.bytes += size;
	}
	return ret;
}

int rp_record_trace_create(struct rp_output *output, uint32_t frequency_hz,
			   struct rp_record_trace **ret_trace)
{
	struct rp_record_trace *trace = calloc(1, sizeof(*trace));
	struct timespec utc;
	struct rp_encoder_info info = {
		.start_ns = rp_machine_time_ns(),
		.process_id = (uint32_t)getpid(),
		.processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF),
		.sample_interval_ns = 1000000000u / frequency_hz,
		.version = RP_NETTRACE_V6,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.own_ids = UINT64_MAX,	/* the recorder makes no activity ids */
	};
	int ret;

	if (!trace)
		return -ENOMEM;
	clock_gettime(CLOCK_REALTIME, &utc);
	info.start_utc_ns = utc.tv_sec * 1000000000ll + utc.tv_nsec;
	trace->output = output;
	trace->last_ns = info.start_ns;
	ret = rp_encoder_create(&info, &trace->encoder);
	for (int i = 0; ret == 0 && i < RP_MACHINE_EVENT_COUNT; i++)
		ret = rp_encoder_define(trace->encoder, &rp_machine_definitions[i],
					&trace->types[i]);
	if (ret == 0)
		ret = rp_encoder_sequence_point(trace->encoder, info.start_ns, 0);
	if (ret < 0) {
		rp_record_trace_destroy(trace);
		return ret;
	}
	*ret_trace = trace;
	return 0;
}

void rp_record_trace_destroy(struct rp_record_trace *trace)
{
	if (!trace)
		return;
	rp_encoder_destroy(trace->encoder);
	free(trace->hits);
	free(trace);
}

static void put_number(struct rp_record_trace *trace, uint64_t value)
{
	trace->used += rp_uleb_put(trace->payload + trace->used, value);
}

/* A text that does not fit is cut; bytes that are not UTF-8 become '?'. */
static void put_text(struct rp_record_trace *trace, const char *text)
{
	size_t space = sizeof(trace->payload) - trace->used - 64, size = strnlen(text, space);
	uint8_t *at = trace->payload + trace->used;
	uint16_t length = (uint16_t)size;

	memcpy(at, &length, sizeof(length));
	memcpy(at + 2, text, size);
	if (!rp_utf8_is_valid(text, size)) {
		for (size_t i = 0; i < size; i++)
			at[2 + i] = at[2 + i] < 0x80 ? at[2 + i] : '?';
	}
	trace->used += 2 + size;
}

/*
 * Set the ids of an event as a session does that got them by rp_traceparent_parse(). Events that
 * describe processes and files have none.
 */
static void set_ids(struct rp_record_trace *trace, enum rp_machine_event kind,
		    const struct rp_trace_context *context, struct rp_encoder_event *event)
{
	const bool has_ids = kind == RP_MACHINE_SAMPLE || kind == RP_MACHINE_WAIT ||
			     kind >= RP_MACHINE_WAIT_DETAILS;

	if (!has_ids || !context || !context->is_valid)
		return;
	memcpy(trace->activity.bytes, context->trace_id, sizeof(context->trace_id));
	memcpy(trace->related.bytes + 8, context->span_id, sizeof(context->span_id));
	event->activity = &trace->activity;
	event->related_activity = &trace->related;
}

int rp_record_put(struct rp_record_trace *trace, enum rp_machine_event kind,
		  const struct rp_machine_process *process,
		  const struct rp_record_trace_place *place, const uint64_t *frames,
		  uint32_t frame_count)
{
	struct rp_encoder_event event = {
		.type = trace->types[kind],
		.time_ns = place->time_ns > trace->last_ns ? place->time_ns : trace->last_ns,
		.thread = place->thread ? place->thread->trace_id : (uint64_t)process->pid,
		.process = (uint32_t)process->pid,
		.processor = place->processor,
		.frames = frames,
		.frame_count = frame_count,
		.payload = trace->payload,
		.payload_bytes = trace->used,
	};

	set_ids(trace, kind, place->context, &event);
	trace->last_ns = event.time_ns;
	trace->used = 0;
	return rp_encoder_event(trace->encoder, &event);
}

/* The command line, as the runtime of .NET reports it. */
static int put_info(struct rp_record_trace *trace, const struct rp_machine_process *process,
		    const struct rp_record_trace_place *place)
{
	size_t size = strnlen(process->command_line, PATH_MAX);

	memcpy(trace->payload, process->command_line, size);
	trace->payload[size] = '\0';
	trace->used = size + 1;
	memcpy(trace->payload + trace->used, RP_PROCESS_SYSTEM, sizeof(RP_PROCESS_SYSTEM));
	trace->used += sizeof(RP_PROCESS_SYSTEM);
	memcpy(trace->payload + trace->used, RP_PROCESS_ARCHITECTURE,
	       sizeof(RP_PROCESS_ARCHITECTURE));
	trace->used += sizeof(RP_PROCESS_ARCHITECTURE);
	return rp_record_put(trace, RP_MACHINE_PROCESS_INFO, process, place, NULL, 0);
}

/*
 * A process is put before its first event. If it executed another program afterwards, a second
 * ExistingProcess renames it. The idle thread of the kernel, whose process is 0, has no process in
 * the trace: its events belong to thread 0 of the recorder, which an ExistingProcess would rename.
 */
static int put_process(struct rp_record_trace *trace, struct rp_machine_process *process,
		       const struct rp_record_trace_place *place)
{
	bool existed = process->existed || process->in_trace;
	int ret;

	if (process->pid == 0 || (process->in_trace && !process->renamed))
		return 0;
	trace->stats.processes += !process->in_trace;
	process->in_trace = true;
	process->renamed = false;
	put_number(trace, (uint64_t)process->inner_pid);
	put_text(trace, process->name ? process->name : "");
	put_text(trace, process->container);
	ret = rp_record_put(trace, existed ? RP_MACHINE_EXISTING_PROCESS :
			    RP_MACHINE_PROCESS_CREATE, process, place, NULL, 0);
	if (ret == 0 && process->command_line && *process->command_line)
		ret = put_info(trace, process, place);
	return ret;
}

static int put_metadata(struct rp_record_trace *trace, const struct rp_machine_process *process,
			uint32_t id, const struct rp_mapped *mapped,
			const struct rp_record_trace_place *place)
{
	const struct rp_image *image = mapped->image;
	char build_id[2 * RP_BUILD_ID_MAX + 1] = "", json[256];
	uint64_t vaddr = mapped->file_offset;

	for (uint32_t i = 0; i < image->build_id_bytes; i++)
		snprintf(build_id + 2 * i, 3, "%02x", image->build_id[i]);
	(void)rp_image_vaddr(image, mapped->file_offset, &vaddr);
	snprintf(json, sizeof(json),
		 "{\"type\":\"ELF\",\"build_id\":\"%s\","
		 "\"p_vaddr\":\"0x%llx\",\"p_offset\":\"0x%llx\"}",
		 build_id, (unsigned long long)vaddr, (unsigned long long)mapped->file_offset);
	put_number(trace, id);
	put_text(trace, json);
	put_text(trace, "");
	return rp_record_put(trace, RP_MACHINE_METADATA, process, place, NULL, 0);
}

static int put_mapping(struct rp_record_trace *trace, const struct rp_machine_process *process,
		       struct rp_mapped *mapped, const struct rp_record_trace_place *place)
{
	uint32_t id = ++trace->next_id;
	bool has_metadata = mapped->image && mapped->image->path[0] == '/';
	int ret = has_metadata ? put_metadata(trace, process, id, mapped, place) : 0;

	if (ret < 0)
		return ret;
	put_number(trace, id);
	put_number(trace, mapped->start);
	put_number(trace, mapped->end);
	put_number(trace, mapped->file_offset);
	put_text(trace, mapped->image ? mapped->image->path : "");
	put_number(trace, has_metadata ? id : 0);
	ret = rp_record_put(trace, RP_MACHINE_MAPPING, process, place, NULL, 0);
	mapped->id = id;
	if (mapped->image)
		mapped->image->is_used = true;
	trace->stats.mappings++;
	return ret;
}

/* Put the mapping of the address, unless the trace has it, and find the code there. */
static int put_mapping_of(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			  struct rp_record_hit *hit)
{
	struct rp_machine_process *process = hit->process;
	struct rp_mapped *mapped;
	int ret = 0;

	if (hit->address >= RP_KERNEL_START) {
		struct rp_image kernel = { .path = (char *)"vmlinux" };
		struct rp_mapped all = {
			.start = RP_KERNEL_START, .end = UINT64_MAX, .image = &kernel,
			.id = process->kernel_mapping,
		};

		if (!all.id)
			ret = put_mapping(trace, process, &all, place);
		hit->mapping = process->kernel_mapping = all.id;
		return ret;
	}
	mapped = rp_address_space_find(&process->space, hit->address);
	if (!mapped)
		return 0;
	if (!mapped->id)
		ret = put_mapping(trace, process, mapped, place);
	hit->mapping = mapped->id;
	hit->image = mapped->image;
	hit->file_offset = mapped->file_offset + hit->address - mapped->start;
	return ret;
}

/* Remember an address that needs a name. */
static int put_hit(struct rp_record_trace *trace, struct rp_machine_process *process,
		   uint64_t address, const struct rp_record_trace_place *place)
{
	struct rp_record_hit hit = { .process = process, .address = address }, *grown;
	struct rp_thread_slot *slot;
	int ret;

	if (rp_thread_table_find(&process->hits, address))
		return 0;
	ret = put_mapping_of(trace, place, &hit);
	if (ret < 0)
		return ret;
	grown = rp_array_reserve(trace->hits, trace->hit_count, &trace->hit_capacity, 1,
				 sizeof(*grown));
	if (!grown || rp_thread_table_add(&process->hits, address, &slot) < 0)
		return -ENOMEM;
	trace->hits = grown;
	grown[trace->hit_count++] = hit;
	process->unnamed++;
	return 0;
}

/* Put the process and what its stack needs, before an event. */
static int put_stack(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     const uint64_t *frames, uint32_t frame_count)
{
	struct rp_machine_process *process = place->thread->process;
	int ret = put_process(trace, process, place);

	for (uint32_t i = 0; ret == 0 && i < frame_count; i++)
		ret = put_hit(trace, process, frames[i], place);
	return ret;
}

void rp_record_put_bytes(struct rp_record_trace *trace, const void *bytes, size_t size)
{
	memcpy(trace->payload + trace->used, bytes, size);
	trace->used += size;
}

void rp_record_put_string(struct rp_record_trace *trace, const char *text)
{
	rp_record_put_bytes(trace, text, strlen(text) + 1);
}

int rp_record_sample(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     uint64_t period_ns, const uint64_t *frames, uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.samples++;
	put_number(trace, period_ns);
	return rp_record_put(trace, RP_MACHINE_SAMPLE, place->thread->process, place, frames,
			     frame_count);
}

/* The event that other readers know has only the duration; the next one has all. */
int rp_record_wait(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		   const struct rp_record_wait *wait, const uint64_t *frames, uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.waits++;
	put_number(trace, wait->duration_ns);
	ret = rp_record_put(trace, RP_MACHINE_WAIT, place->thread->process, place, frames,
			    frame_count);
	if (ret < 0)
		return ret;
	rp_record_put_bytes(trace, &wait->duration_ns, 8);
	rp_record_put_bytes(trace, &wait->runnable_ns, 8);
	rp_record_put_bytes(trace, &wait->state, 4);
	rp_record_put_bytes(trace, &wait->waker_process, 4);
	rp_record_put_bytes(trace, &wait->waker_thread, 8);
	rp_record_put_bytes(trace, &wait->previous_process, 4);
	rp_record_put_bytes(trace, &wait->previous_thread, 8);
	rp_record_put_bytes(trace, &wait->previous_ns, 8);
	rp_record_put_string(trace, wait->previous_name);
	return rp_record_put(trace, RP_MACHINE_WAIT_DETAILS, place->thread->process, place, NULL,
			     0);
}

int rp_record_waking(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     const struct rp_record_waking *waking, const uint64_t *frames,
		     uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.wakings++;
	rp_record_put_bytes(trace, &waking->woken_process, 4);
	rp_record_put_bytes(trace, &waking->woken_thread, 8);
	rp_record_put_bytes(trace, &waking->waited_ns, 8);
	return rp_record_put(trace, RP_MACHINE_WAKING, place->thread->process, place, frames,
			     frame_count);
}

int rp_record_syscall(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		      const struct rp_record_syscall *call, const uint64_t *frames,
		      uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.calls++;
	rp_record_put_bytes(trace, &call->number, 4);
	rp_record_put_string(trace, call->name);
	rp_record_put_bytes(trace, &call->result, 8);
	rp_record_put_bytes(trace, &call->duration_ns, 8);
	rp_record_put_bytes(trace, call->arguments, sizeof(call->arguments));
	rp_record_put_string(trace, call->file);
	return rp_record_put(trace, RP_MACHINE_SYSCALL, place->thread->process, place, frames,
			     frame_count);
}

int rp_record_futex_wait(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			 const struct rp_record_futex_wait *wait, const uint64_t *frames,
			 uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.futex_waits++;
	rp_record_put_bytes(trace, &wait->address, 8);
	rp_record_put_bytes(trace, &wait->result, 8);
	rp_record_put_bytes(trace, &wait->duration_ns, 8);
	rp_record_put_bytes(trace, &wait->waker_process, 4);
	rp_record_put_bytes(trace, &wait->waker_thread, 8);
	return rp_record_put(trace, RP_MACHINE_FUTEX_WAIT, place->thread->process, place, frames,
			     frame_count);
}

int rp_record_page_fault(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			 const struct rp_record_page_fault *fault, const uint64_t *frames,
			 uint32_t frame_count)
{
	int ret = put_stack(trace, place, frames, frame_count);

	if (ret < 0)
		return ret;
	trace->stats.faults++;
	rp_record_put_bytes(trace, &fault->address, 8);
	rp_record_put_bytes(trace, &fault->is_write, 1);
	rp_record_put_bytes(trace, &fault->is_major, 1);
	rp_record_put_bytes(trace, &fault->duration_ns, 8);
	return rp_record_put(trace, RP_MACHINE_PAGE_FAULT, place->thread->process, place, frames,
			     frame_count);
}

int rp_record_block_request(struct rp_record_trace *trace,
			    const struct rp_record_trace_place *place,
			    const struct rp_record_block_request *request)
{
	int ret = put_stack(trace, place, NULL, 0);

	if (ret < 0)
		return ret;
	trace->stats.requests++;
	rp_record_put_bytes(trace, &request->major, 4);
	rp_record_put_bytes(trace, &request->minor, 4);
	rp_record_put_string(trace, request->operation);
	rp_record_put_bytes(trace, &request->sector, 8);
	rp_record_put_bytes(trace, &request->bytes, 4);
	rp_record_put_bytes(trace, &request->status, 4);
	rp_record_put_bytes(trace, &request->duration_ns, 8);
	rp_record_put_string(trace, request->device);
	return rp_record_put(trace, RP_MACHINE_BLOCK_REQUEST, place->thread->process, place, NULL,
			     0);
}

int rp_record_interrupt(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			const struct rp_record_interrupt *interrupt)
{
	int ret = put_stack(trace, place, NULL, 0);

	if (ret < 0)
		return ret;
	trace->stats.interrupts++;
	rp_record_put_string(trace, interrupt->kind);
	rp_record_put_bytes(trace, &interrupt->number, 4);
	rp_record_put_string(trace, interrupt->name);
	rp_record_put_bytes(trace, &interrupt->is_handled, 1);
	rp_record_put_bytes(trace, &interrupt->duration_ns, 8);
	rp_record_put_bytes(trace, &place->processor, 4);
	return rp_record_put(trace, RP_MACHINE_INTERRUPT, place->thread->process, place, NULL, 0);
}

int rp_record_attribute(struct rp_record_trace *trace, const struct rp_machine_process *process,
			uint64_t published_ns, const struct rp_attribute *attribute)
{
	const struct rp_record_trace_place place = { .time_ns = trace->last_ns };

	rp_record_put_bytes(trace, &published_ns, 8);
	rp_record_put_string(trace, attribute->key);
	rp_record_put_string(trace, attribute->value);
	rp_record_put_string(trace, rp_attribute_type_name(attribute->type));
	return rp_record_put(trace, RP_MACHINE_ATTRIBUTE, process, &place, NULL, 0);
}

int rp_record_process_end(struct rp_record_trace *trace, struct rp_machine_process *process,
			  uint64_t time_ns)
{
	const struct rp_record_trace_place place = { .time_ns = time_ns };
	int ret;

	if (!process->in_trace)
		return 0;
	/* A new name after the end would be that of another process. */
	ret = put_process(trace, process, &place);
	return ret ? ret : rp_record_put(trace, RP_MACHINE_PROCESS_EXIT, process, &place, NULL, 0);
}

int rp_record_function(struct rp_record_trace *trace, struct rp_machine_process *process,
		       uint32_t mapping, uint64_t start, uint64_t end, const char *name)
{
	const struct rp_record_trace_place place = { .time_ns = trace->last_ns };
	/* Another program may have another function there. */
	const uint64_t key = start ^ (uint64_t)mapping << 47;
	struct rp_thread_slot *slot;

	if (rp_thread_table_find(&process->functions, key))
		return 0;
	if (rp_thread_table_add(&process->functions, key, &slot) < 0)
		return -ENOMEM;
	trace->stats.functions++;
	put_number(trace, ++trace->next_id);
	put_number(trace, mapping);
	put_number(trace, start);
	put_number(trace, end - 1);
	put_text(trace, name);
	return rp_record_put(trace, RP_MACHINE_FUNCTION, process, &place, NULL, 0);
}

struct rp_record_hit *rp_record_hits(const struct rp_record_trace *trace, size_t *ret_count)
{
	*ret_count = trace->hit_count;
	return trace->hits;
}

void rp_record_hits_clear(struct rp_record_trace *trace)
{
	trace->hit_count = 0;
}

int rp_record_flush(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost)
{
	int ret;

	if (time_ns > trace->last_ns)
		trace->last_ns = time_ns;
	ret = rp_encoder_sequence_point(trace->encoder, trace->last_ns, lost);
	return ret < 0 ? ret : write_output(trace);
}

int rp_record_end(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost)
{
	int ret = rp_record_flush(trace, time_ns, lost);

	if (ret == 0)
		ret = rp_encoder_end(trace->encoder);
	return ret < 0 ? ret : write_output(trace);
}

void rp_record_trace_stats(const struct rp_record_trace *trace,
			   struct rp_record_trace_stats *ret_stats)
{
	*ret_stats = trace->stats;
}
