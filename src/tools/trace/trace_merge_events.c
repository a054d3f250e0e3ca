/* SPDX-License-Identifier: MIT */
/* The merged trace describes processes and threads by events of its own. */
#include "tools/trace/trace_merge_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/system_event.h"

/* Above all thread ids of Linux: what version 6 adds to an id that another process uses, too. */
#define REUSE_STEP (1ull << 22)

static const struct rp_field process_fields[] = {
	{ "process_id", .type = RP_TYPE_U32 },
	{ "parent_id", .type = RP_TYPE_U32 },
	{ "name", .type = RP_TYPE_STRING },
	{ "command_line", .type = RP_TYPE_STRING },
};

static const struct rp_field thread_fields[] = {
	{ "thread", .type = RP_TYPE_U64 },
	{ "process_id", .type = RP_TYPE_U32 },
};

static const struct rp_field end_fields[] = {
	{ "process_id", .type = RP_TYPE_U32 },
	{ "events", .type = RP_TYPE_U64 },
	{ "lost", .type = RP_TYPE_U64 },
	{ "complete", .type = RP_TYPE_BOOL },
	{ "late", .type = RP_TYPE_U64 },	/* events with a later time than their own */
};

static const struct rp_field source_fields[] = {
	{ "path", .type = RP_TYPE_STRING },
	{ "host", .type = RP_TYPE_STRING },
	{ "id_step", .type = RP_TYPE_U64 },
	{ "clock_offset_ns", .type = RP_TYPE_I64 },
	{ "clock_drift", .type = RP_TYPE_F64 },
	{ "clock_residual_ns", .type = RP_TYPE_U64 },
};

/* Those of a trace that was converted to version 4, and the path of the trace with the head. */
static const struct rp_field key_value_fields[] = {
	{ "key", .type = RP_TYPE_STRING },
	{ "value", .type = RP_TYPE_STRING },
	{ "path", .type = RP_TYPE_STRING },
};

static const struct rp_field info_fields[] = {
	{ "CommandLine", .type = RP_TYPE_STRING },
	{ "OSInformation", .type = RP_TYPE_STRING },
	{ "ArchInformation", .type = RP_TYPE_STRING },
};

#define OWN(name_, id_, fields_, ...) { \
	.provider = RP_TRACE_MERGE_PROVIDER, .name = name_, .id = id_, __VA_ARGS__ \
	.level = RP_LEVEL_INFORMATIONAL, .fields = fields_, \
	.field_count = sizeof(fields_) / sizeof(fields_[0]), \
}

static const struct rp_definition own_definitions[RP_MERGE_EVENT_COUNT] = {
	[RP_MERGE_PROCESS] = OWN("ProcessTraced", RP_TRACE_MERGE_PROCESS, process_fields),
	[RP_MERGE_THREAD] = OWN("ThreadOfProcess", RP_TRACE_MERGE_THREAD, thread_fields),
	[RP_MERGE_END] = OWN("ProcessEnd", RP_TRACE_MERGE_END, end_fields),
	[RP_MERGE_SOURCE] = OWN("TraceMerged", RP_TRACE_MERGE_SOURCE, source_fields),
	[RP_MERGE_KEY_VALUE] = OWN("TraceKeyValue", RP_TRACE_MERGE_KEY_VALUE, key_value_fields,
				   .version = 1,),
	/* As TraceEvent and the runtime of .NET define them. */
	[RP_MERGE_EXISTING_PROCESS] = { RP_SYSTEM_PROVIDER, "ExistingProcess",
					.id = RP_SYSTEM_EXISTING_PROCESS },
	[RP_MERGE_PROCESS_CREATE] = { RP_SYSTEM_PROVIDER, "ProcessCreate",
				      .id = RP_SYSTEM_PROCESS_CREATE },
	[RP_MERGE_PROCESS_EXIT] = { RP_SYSTEM_PROVIDER, "ProcessExit",
				    .id = RP_SYSTEM_PROCESS_EXIT },
	[RP_MERGE_PROCESS_INFO] = {
		"Microsoft-DotNETCore-EventPipe", "ProcessInfo", .id = 1, .version = 1,
		.fields = info_fields, .field_count = 3,
	},
};

/* Return: whether an earlier process had the thread's id, so that this one's needs another. */
static bool is_reused(const struct rp_trace_merge *merge, const struct rp_merge_strand *strand,
		      const struct rp_thread_slot *slot)
{
	/* A program that another one replaced had the same threads. */
	return slot->sequence && merge->strands[slot->sequence - 1]->first != strand->first;
}

/*
 * Find the id that a thread has in the merged trace. TraceEvent identifies threads by their ids
 * alone, so in version 6 each process has ids of its own. `ret_is_new`: this is another process's
 * thread than before.
 */
static int find_thread(struct rp_trace_merge *merge, const struct rp_merge_strand *strand,
		       uint64_t thread, uint64_t *ret_thread, bool *ret_is_new)
{
	const uint32_t index = strand->index + 1;
	struct rp_thread_slot *slot;
	int ret = rp_thread_table_add(&merge->threads, thread, &slot);

	*ret_thread = thread;
	*ret_is_new = false;
	if (ret)
		return ret;
	if (merge->version == RP_NETTRACE_V6 && is_reused(merge, strand, slot)) {
		*ret_thread += index * REUSE_STEP;
		return 0;
	}
	*ret_is_new = slot->sequence != index;
	slot->sequence = index;
	return 0;
}

static int put_own(struct rp_trace_merge *merge, enum rp_merge_event kind,
		   const struct rp_merge_strand *strand, const void *payload, size_t size)
{
	struct rp_encoder_event event = {
		.type = merge->own[kind], .time_ns = merge->time_ns,
		.thread = (uint64_t)strand->source->pid,
		.process = (uint32_t)strand->source->pid,
		.payload = payload, .payload_bytes = size,
	};
	bool is_new;
	int ret = 0;

	if (merge->version == RP_NETTRACE_V6)
		ret = find_thread(merge, strand, event.thread, &event.thread, &is_new);
	return ret ? ret : rp_encoder_event(merge->encoder, &event);
}

/* Return: whether another process of the trace had this id before. */
static bool has_reused_id(const struct rp_trace_merge *merge, const struct rp_merge_strand *strand)
{
	for (uint32_t i = 0; i < strand->index; i++)
		if (merge->strands[i]->source->pid == strand->source->pid)
			return !strand->source->replaces;
	return false;
}

static uint8_t *put_text(uint8_t *at, const char *text, size_t size)
{
	const uint16_t length = (uint16_t)size;

	memcpy(at, &length, sizeof(length));
	memcpy(at + sizeof(length), text, size);
	return at + sizeof(length) + size;
}

/* For TraceEvent, which shows processes by these events. */
static int name_process(struct rp_trace_merge *merge, const struct rp_merge_strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	size_t name = strnlen(source->name, UINT16_MAX / 2), command = strlen(source->command_line);
	const char *container = source->container ? source->container : "";
	const size_t container_bytes = strlen(container);
	uint8_t *payload = malloc(name + command + container_bytes + 64), *at = payload;
	int ret;

	if (!payload)
		return -ENOMEM;
	at = rp_wire_varint_put(at, (uint64_t)(source->inner_pid ? source->inner_pid :
								source->pid));
	at = put_text(at, source->name, name);
	at = put_text(at, container, container_bytes);
	ret = put_own(merge, source->is_new || has_reused_id(merge, strand) ?
		      RP_MERGE_PROCESS_CREATE : RP_MERGE_EXISTING_PROCESS, strand, payload,
		      (size_t)(at - payload));
	memcpy(payload, source->command_line, command + 1);
	memcpy(payload + command + 1, "Linux\0", 7);
	if (ret == 0)
		ret = put_own(merge, RP_MERGE_PROCESS_INFO, strand, payload, command + 8);
	free(payload);
	return ret;
}

static int report_process(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	const uint32_t ids[2] = { (uint32_t)source->pid, (uint32_t)source->parent };
	size_t name = strlen(source->name) + 1, command = strlen(source->command_line) + 1;
	char *payload = malloc(sizeof(ids) + name + command);
	int ret;

	if (!payload)
		return -ENOMEM;
	strand->is_reported = true;
	memcpy(payload, ids, sizeof(ids));
	memcpy(payload + sizeof(ids), source->name, name);
	memcpy(payload + sizeof(ids) + name, source->command_line, command);
	ret = put_own(merge, RP_MERGE_PROCESS, strand, payload, sizeof(ids) + name + command);
	free(payload);
	if (ret == 0 && merge->version == RP_NETTRACE_V6)
		ret = name_process(merge, strand);
	return ret;
}

/* Find the thread's id in the merged trace. In version 4, an event states its process. */
static int report_thread(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
			 uint64_t *ret_thread)
{
	const struct rp_trace_merge_source *source = strand->source;
	const uint64_t thread = source->find_thread ?
		source->find_thread(source->find_user, strand->event.thread) : strand->event.thread;
	const struct {
		uint64_t thread;
		uint32_t pid;
	} __attribute__((packed)) payload = {
		thread + source->id_step, (uint32_t)source->pid,
	};
	const struct rp_encoder_event event = {
		.type = merge->own[RP_MERGE_THREAD], .time_ns = merge->time_ns,
		.thread = payload.thread,
		.payload = &payload, .payload_bytes = sizeof(payload),
	};
	bool is_new;
	int ret = find_thread(merge, strand, payload.thread, ret_thread, &is_new);

	return ret || !is_new || merge->version == RP_NETTRACE_V6 ? ret :
	       rp_encoder_event(merge->encoder, &event);
}

int rp_merge_define(struct rp_trace_merge *merge)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < RP_MERGE_EVENT_COUNT; i++)
		ret = rp_encoder_define(merge->encoder, &own_definitions[i], &merge->own[i]);
	return ret;
}

int rp_merge_put_origin(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
			uint64_t *ret_thread)
{
	int ret = strand->is_reported ? 0 : report_process(merge, strand);

	return ret ? ret : report_thread(merge, strand, ret_thread);
}

int rp_merge_put_end(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	const struct {
		uint32_t pid;
		uint64_t events, lost;
		uint8_t complete;
		uint64_t late;
	} __attribute__((packed)) payload = {
		(uint32_t)source->pid, source->events, source->lost, source->whole, source->late,
	};
	int ret;

	if (!source->pid)
		return 0;
	ret = strand->is_reported ? 0 : report_process(merge, strand);
	if (!ret)
		ret = put_own(merge, RP_MERGE_END, strand, &payload, sizeof(payload));
	return ret || merge->version != RP_NETTRACE_V6 || !source->exited ? ret :
	       put_own(merge, RP_MERGE_PROCESS_EXIT, strand, NULL, 0);
}

/* Put an event about a source. Its thread has the id of the command's process. */
static int put_about_source(struct rp_trace_merge *merge, enum rp_merge_event kind,
			    struct rp_outbuf *payload)
{
	const struct rp_encoder_event event = {
		.type = merge->own[kind], .time_ns = merge->time_ns,
		.thread = (uint64_t)merge->process_id, .process = (uint32_t)merge->process_id,
		.payload = payload->bytes, .payload_bytes = payload->size,
	};
	int ret = payload->failed ? -ENOMEM : rp_encoder_event(merge->encoder, &event);

	payload->size = 0;
	return ret;
}

static void put_string(struct rp_outbuf *payload, const char *text)
{
	rp_outbuf_put(payload, text, strlen(text) + 1);
}

static int put_key_values(struct rp_trace_merge *merge, const struct rp_merge_strand *strand,
			  struct rp_outbuf *payload)
{
	const char *key, *value;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && strand->reader &&
	     rp_reader_get_key_value(strand->reader, i, &key, &value) == 0; i++) {
		put_string(payload, key);
		put_string(payload, value);
		put_string(payload, strand->source->path);
		ret = put_about_source(merge, RP_MERGE_KEY_VALUE, payload);
	}
	return ret;
}

int rp_merge_put_source(struct rp_trace_merge *merge, const struct rp_merge_strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	const uint64_t converted_ns = rp_merge_time(source, strand->start_ns);
	const int64_t offset_ns = (int64_t)(converted_ns - strand->start_ns);
	const double drift = source->trace_clock ? source->clock.drift : 0;
	const uint64_t residual_ns = source->trace_clock ? source->clock.residual_ns +
				     source->trace_clock->residual_ns : 0;
	struct rp_outbuf payload = { 0 };
	int ret;

	put_string(&payload, source->path);
	put_string(&payload, source->host ? source->host : "");
	rp_outbuf_put_u64(&payload, source->id_step);
	rp_outbuf_put_u64(&payload, (uint64_t)offset_ns);
	rp_outbuf_put(&payload, &drift, sizeof(drift));
	rp_outbuf_put_u64(&payload, residual_ns);
	ret = put_about_source(merge, RP_MERGE_SOURCE, &payload);
	if (ret == 0)
		ret = put_key_values(merge, strand, &payload);
	rp_outbuf_fini(&payload);
	return ret;
}
