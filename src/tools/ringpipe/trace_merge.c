/* SPDX-License-Identifier: MIT */
/*
 * Each source has a reader, and all events go through one encoder. The encoder renumbers the events
 * of each thread, since two processes may reuse one thread's number, and sums the losses.
 * Definitions are rebuilt from the parsed form; payloads are copied unchanged.
 */
#include "tools/ringpipe/trace_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "nettrace/encoder.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"
#include "nettrace/thread_table.h"

#define WRITE_BYTES (1u << 20)

enum own {
	PROCESS, THREAD, END, EXISTING_PROCESS, PROCESS_CREATE, PROCESS_EXIT, PROCESS_INFO,
	OWN_COUNT,
};

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
};

static const struct rp_field info_fields[] = {
	{ "CommandLine", .type = RP_TYPE_STRING },
	{ "OSInformation", .type = RP_TYPE_STRING },
	{ "ArchInformation", .type = RP_TYPE_STRING },
};

#define OWN(name_, id_, fields_) { \
	.provider = RP_TRACE_MERGE_PROVIDER, .name = name_, .id = id_, \
	.level = RP_LEVEL_INFORMATIONAL, .fields = fields_, \
	.field_count = sizeof(fields_) / sizeof(fields_[0]), \
}

static const struct rp_definition own_definitions[OWN_COUNT] = {
	[PROCESS] = OWN("ProcessTraced", RP_TRACE_MERGE_PROCESS, process_fields),
	[THREAD] = OWN("ThreadOfProcess", RP_TRACE_MERGE_THREAD, thread_fields),
	[END] = OWN("ProcessEnd", RP_TRACE_MERGE_END, end_fields),
	/* As TraceEvent and the runtime of .NET define them. */
	[EXISTING_PROCESS] = { "Universal.System", "ExistingProcess", .id = 0 },
	[PROCESS_CREATE] = { "Universal.System", "ProcessCreate", .id = 1 },
	[PROCESS_EXIT] = { "Universal.System", "ProcessExit", .id = 2 },
	[PROCESS_INFO] = {
		"Microsoft-DotNETCore-EventPipe", "ProcessInfo", .id = 1, .version = 1,
		.fields = info_fields, .field_count = 3,
	},
};

/* One source, and its next event. */
struct strand {
	struct rp_trace_merge_source *source;
	struct rp_reader *reader;	/* NULL: not a trace, or at its end */
	struct rp_reader_info info;
	struct rp_reader_event event;
	uint64_t start_ns, time_ns;	/* CLOCK_MONOTONIC */
	bool is_reported;
};

struct merge {
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *own[OWN_COUNT];
	struct strand *strands;
	size_t count;
	struct rp_thread_table threads;	/* maps a thread to its strand's index plus 1 */
	struct rp_output *output;
	uint32_t version;
	uint64_t time_ns;		/* time of the last event written */
	uint64_t lost;
};

static int write_out(struct merge *merge, size_t at_least)
{
	size_t size;
	const void *bytes = rp_encoder_output(merge->encoder, &size);
	int ret;

	if (size == 0 || size < at_least)
		return 0;
	ret = rp_output_write(merge->output, bytes, size);
	rp_encoder_consume(merge->encoder, size);
	return ret;
}

/* Return: whether an earlier process had the thread's id, so that this one's needs another. */
static bool is_reused(const struct merge *merge, const struct strand *strand,
		      const struct rp_thread_slot *slot)
{
	const struct rp_trace_merge_source *owner;

	if (!slot->sequence)
		return false;
	owner = merge->strands[slot->sequence - 1].source;
	/* A program that another one replaced had the same threads. */
	return owner != strand->source &&
	       !(strand->source->replaces && owner->pid == strand->source->pid);
}

/*
 * Find the id that a thread has in the merged trace. TraceEvent identifies threads by their ids
 * alone, so in version 6 each process has ids of its own. `ret_is_new`: this is another process's
 * thread than before.
 */
static int find_thread(struct merge *merge, const struct strand *strand, uint64_t thread,
		       uint64_t *ret_thread, bool *ret_is_new)
{
	const uint32_t index = (uint32_t)(strand - merge->strands) + 1;
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

static int put_own(struct merge *merge, enum own kind, const struct strand *strand,
		   const void *payload, size_t size)
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
static bool has_reused_id(const struct merge *merge, const struct strand *strand)
{
	for (const struct strand *other = merge->strands; other < strand; other++)
		if (other->source->pid == strand->source->pid)
			return !strand->source->replaces;
	return false;
}

/* For TraceEvent, which shows processes by these events. */
static int name_process(struct merge *merge, const struct strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	size_t name = strnlen(source->name, UINT16_MAX / 2), command = strlen(source->command_line);
	uint8_t *payload = malloc(name + command + 64), *at = payload;
	uint16_t length = (uint16_t)name;
	int ret;

	if (!payload)
		return -ENOMEM;
	at = rp_wire_varint_put(at, (uint64_t)source->pid);
	memcpy(at, &length, 2);
	memcpy(at + 2, source->name, name);
	at += 2 + name;
	memset(at, 0, 2);			/* the namespace has no name */
	ret = put_own(merge, source->is_new || has_reused_id(merge, strand) ? PROCESS_CREATE :
		      EXISTING_PROCESS, strand, payload, (size_t)(at + 2 - payload));
	memcpy(payload, source->command_line, command + 1);
	memcpy(payload + command + 1, "Linux\0", 7);
	if (ret == 0)
		ret = put_own(merge, PROCESS_INFO, strand, payload, command + 8);
	free(payload);
	return ret;
}

static int report_process(struct merge *merge, struct strand *strand)
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
	ret = put_own(merge, PROCESS, strand, payload, sizeof(ids) + name + command);
	free(payload);
	if (ret == 0 && merge->version == RP_NETTRACE_V6)
		ret = name_process(merge, strand);
	return ret;
}

/* Find the thread's id in the merged trace. In version 4, an event states its process. */
static int report_thread(struct merge *merge, struct strand *strand, uint64_t *ret_thread)
{
	const struct {
		uint64_t thread;
		uint32_t pid;
	} __attribute__((packed)) payload = {
		strand->event.thread, (uint32_t)strand->source->pid,
	};
	const struct rp_encoder_event event = {
		.type = merge->own[THREAD], .time_ns = merge->time_ns, .thread = payload.thread,
		.payload = &payload, .payload_bytes = sizeof(payload),
	};
	bool is_new;
	int ret = find_thread(merge, strand, payload.thread, ret_thread, &is_new);

	return ret || !is_new || merge->version == RP_NETTRACE_V6 ? ret :
	       rp_encoder_event(merge->encoder, &event);
}

/* State the process of the strand's event, whose thread may get another id. */
static int report(struct merge *merge, struct strand *strand, uint64_t *ret_thread)
{
	int ret = strand->is_reported ? 0 : report_process(merge, strand);

	return ret ? ret : report_thread(merge, strand, ret_thread);
}

static int report_end(struct merge *merge, struct strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	const struct {
		uint32_t pid;
		uint64_t events, lost;
		uint8_t complete;
	} __attribute__((packed)) payload = {
		(uint32_t)source->pid, source->events, source->lost, source->whole,
	};
	int ret;

	if (!source->pid)
		return 0;
	ret = strand->is_reported ? 0 : report_process(merge, strand);
	if (!ret)
		ret = put_own(merge, END, strand, &payload, sizeof(payload));
	return ret || merge->version != RP_NETTRACE_V6 || !source->exited ? ret :
	       put_own(merge, PROCESS_EXIT, strand, NULL, 0);
}

static void free_fields(struct rp_field *fields, size_t count)
{
	for (size_t i = 0; fields && i < count; i++)
		free_fields((struct rp_field *)fields[i].members, fields[i].member_count);
	free(fields);
}

/*
 * The encoder cannot express a decimal. Return: for free_fields(); NULL: a decimal, or no memory.
 */
static struct rp_field *copy_fields(const struct rp_reader_field *from, size_t count)
{
	struct rp_field *fields = calloc(count ? count : 1, sizeof(*fields));

	for (size_t i = 0; fields && i < count; i++) {
		bool fits = from[i].type != RP_TYPE_NONE &&
			    (from[i].type != RP_TYPE_ARRAY || from[i].element != RP_TYPE_NONE);

		fields[i] = (struct rp_field){
			.name = from[i].name, .type = from[i].type, .element = from[i].element,
			.member_count = from[i].member_count,
		};
		if (fits && from[i].member_count)
			fields[i].members = copy_fields(from[i].members, from[i].member_count);
		if (!fits || (from[i].member_count && !fields[i].members)) {
			free_fields(fields, i + 1);
			fields = NULL;
		}
	}
	return fields;
}

/* Finds the kind's type in the encoder, and creates it at the kind's first event. */
static int find_type(struct merge *merge, struct rp_reader_type *kind,
		     struct rp_encoder_event_type **ret_type)
{
	struct rp_field *fields;
	struct rp_definition definition = {
		.provider = kind->provider, .name = kind->name, .id = kind->id,
		.version = (uint8_t)kind->version, .level = (uint8_t)kind->level,
		.opcode = (uint8_t)kind->opcode, .keywords = kind->keywords, .is_wire = true,
	};
	int ret = 0;

	if (!kind->user) {
		fields = copy_fields(kind->fields, kind->field_count);
		definition.fields = fields;
		definition.field_count = fields ? kind->field_count : 0;
		ret = rp_encoder_define(merge->encoder, &definition,
					(struct rp_encoder_event_type **)&kind->user);
		free_fields(fields, kind->field_count);
	}
	*ret_type = kind->user;
	return ret;
}

static const struct rp_guid *guid_or_null(const struct rp_guid *guid)
{
	static const struct rp_guid none;

	return memcmp(guid, &none, sizeof(none)) ? guid : NULL;
}

static int put_event(struct merge *merge, struct strand *strand)
{
	const struct rp_reader_event *from = &strand->event;
	struct rp_encoder_event event = {
		.thread = from->thread,
		.process = (uint32_t)(strand->source->pid ? (uint64_t)strand->source->pid :
							    from->process),
		.processor = from->processor,
		.frame_count = strand->info.pointer_bytes == 8 ? from->frame_count : 0,
		.frames = from->frames,
		.activity = guid_or_null(&from->activity),
		.related_activity = guid_or_null(&from->related_activity),
		.payload = from->payload,
		.payload_bytes = from->payload_bytes,
	};
	int ret;

	if (strand->time_ns > merge->time_ns)
		merge->time_ns = strand->time_ns;
	ret = strand->source->pid ? report(merge, strand, &event.thread) : 0;
	if (!ret)
		ret = find_type(merge, from->type, (struct rp_encoder_event_type **)&event.type);
	event.time_ns = merge->time_ns;
	if (!ret)
		ret = rp_encoder_event(merge->encoder, &event);
	strand->source->events += !ret;
	return ret ? ret : write_out(merge, WRITE_BYTES);
}

/* Updates the losses that the reader has counted up to here. */
static int follow_losses(struct merge *merge, struct strand *strand)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t more;

	rp_reader_get_stats(strand->reader, &stats);
	more = stats.lost - strand->source->lost;
	if (!more)
		return 0;
	strand->source->lost += more;
	merge->lost += more;
	return rp_encoder_sequence_point(merge->encoder, merge->time_ns, merge->lost);
}

/* Reads the strand's next event, or its end. */
static int step(struct merge *merge, struct strand *strand)
{
	int read = rp_reader_next(strand->reader, &strand->event);
	int ret = follow_losses(merge, strand);

	if (ret)
		return ret;
	if (read == 1) {
		strand->time_ns = strand->start_ns + (uint64_t)strand->event.time_ns;
		return 0;
	}
	strand->source->whole = read == 0;
	rp_reader_close(strand->reader);
	strand->reader = NULL;
	return read == -ENOMEM ? read : report_end(merge, strand);
}

/*
 * Finds the strand with the earliest event. Until `ret_until`, no other strand has an earlier one.
 * NULL: none.
 */
static struct strand *find_first(struct merge *merge, uint64_t *ret_until)
{
	struct strand *first = NULL;

	*ret_until = UINT64_MAX;
	for (size_t i = 0; i < merge->count; i++) {
		struct strand *strand = &merge->strands[i];

		if (!strand->reader)
			continue;
		if (!first || strand->time_ns < first->time_ns) {
			if (first)
				*ret_until = first->time_ns;
			first = strand;
		} else if (strand->time_ns < *ret_until) {
			*ret_until = strand->time_ns;
		}
	}
	return first;
}

static int trace_merge_all(struct merge *merge)
{
	struct strand *strand;
	uint64_t until;
	int ret = 0;

	for (size_t i = 0; !ret && i < merge->count; i++) {
		ret = merge->strands[i].reader ? step(merge, &merge->strands[i]) :
		      report_end(merge, &merge->strands[i]);
	}
	while (!ret && (strand = find_first(merge, &until))) {
		while (!ret && strand->reader && strand->time_ns <= until) {
			ret = put_event(merge, strand);
			if (!ret)
				ret = step(merge, strand);
		}
	}
	if (!ret)
		ret = rp_encoder_sequence_point(merge->encoder, merge->time_ns, merge->lost);
	if (!ret)
		ret = rp_encoder_end(merge->encoder);
	return ret ? ret : write_out(merge, 0);
}

static void open_strand(struct strand *strand, struct rp_trace_merge_source *source)
{
	strand->source = source;
	strand->info.size = sizeof(strand->info);
	strand->event.size = sizeof(strand->event);
	source->events = source->lost = 0;
	source->whole = false;
	if (rp_reader_open_fd(source->fd, &strand->reader) != 0) {
		strand->reader = NULL;
		return;
	}
	rp_reader_get_info(strand->reader, &strand->info);
	strand->start_ns = strand->info.ticks_per_second == 1000000000 ? strand->info.start_ticks :
			   (uint64_t)((__int128)strand->info.start_ticks * 1000000000 /
				      strand->info.ticks_per_second);
}

/* The trace begins when the earliest source began. Return: 0; -ENODATA; -ENOMEM. */
static int create_encoder(struct merge *merge, pid_t process_id)
{
	struct rp_encoder_info info = {
		.process_id = (uint32_t)process_id, .version = merge->version,
	};
	const struct strand *first = NULL;
	int ret;

	for (size_t i = 0; i < merge->count; i++) {
		const struct strand *strand = &merge->strands[i];

		if (strand->reader && (!first || strand->start_ns < first->start_ns))
			first = strand;
	}
	if (!first)
		return -ENODATA;
	info.start_ns = merge->time_ns = first->start_ns;
	info.start_utc_ns = first->info.start_utc_ns;
	info.processors = first->info.processors;
	info.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	ret = rp_encoder_create(&info, &merge->encoder);
	if (!ret)
		ret = rp_encoder_sequence_point(merge->encoder, info.start_ns, 0);
	for (size_t i = 0; !ret && i < OWN_COUNT; i++)
		ret = rp_encoder_define(merge->encoder, &own_definitions[i], &merge->own[i]);
	return ret;
}

int rp_trace_merge(struct rp_trace_merge_source *sources, size_t count, pid_t process_id,
		   uint32_t version, struct rp_output *output)
{
	struct merge merge = { .count = count, .version = version, .output = output };
	int ret;

	merge.strands = calloc(count ? count : 1, sizeof(*merge.strands));
	if (!merge.strands)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		open_strand(&merge.strands[i], &sources[i]);
	ret = create_encoder(&merge, process_id);
	if (!ret)
		ret = trace_merge_all(&merge);
	for (size_t i = 0; i < count; i++)
		rp_reader_close(merge.strands[i].reader);
	rp_encoder_destroy(merge.encoder);
	rp_thread_table_fini(&merge.threads);
	free(merge.strands);
	return ret;
}
