/* SPDX-License-Identifier: MIT */
#include "tools/trace/perf_data.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cursor.h"
#include "nettrace/encoder.h"
#include "nettrace/objects.h"
#include "tools/cli/tool.h"
#include "tools/trace/perf_file.h"
#include "tools/trace/system_event.h"

#define PATH_BYTES_MAX 4096u
#define FRAMES_MAX 1024u
#define MAPPINGS_MAX 65536u		/* of a process */
#define PROCESSES_MAX (1u << 20)
#define ALL_MAPPINGS_MAX (4u << 20)
#define OUTPUT_BYTES (1u << 20)
#define LOST_MAX (1ull << 40)		/* a damaged record may state any number */
#define KERNEL_START 0xffff800000000000ull
#define CONTEXT_MAX 4095u		/* frames from -4095 on are marks of contexts */
#define MMAP2_FIELDS 32u		/* of a MMAP2 between the offset and the path */

enum copied { PROCESS, EXIT, MAPPING, METADATA, SAMPLE, SWITCH, KINDS };

static const struct rp_definition definitions[KINDS] = {
	[PROCESS] = { "Universal.System", "ExistingProcess", .id = RP_SYSTEM_EXISTING_PROCESS },
	[EXIT] = { "Universal.System", "ProcessExit", .id = RP_SYSTEM_PROCESS_EXIT },
	[MAPPING] = { "Universal.System", "ProcessMapping", .id = RP_SYSTEM_MAPPING },
	[METADATA] = { "Universal.System", "ProcessMappingMetadata", .id = RP_SYSTEM_METADATA },
	[SAMPLE] = { "Universal.Events", "cpu", .id = 1 },
	[SWITCH] = { "Universal.Events", "cswitch", .id = 2 },
};

struct mapped {
	uint64_t start, end, offset;
	const char *path;		/* in the file */
	uint8_t build_id[20], build_id_bytes;
	bool is_put;
};

struct process {
	uint32_t pid;			/* the key */
	char name[64];
	bool is_put;
	struct mapped *mappings;
	size_t count, capacity;
};

/* A thread that is off its processor. */
struct off_cpu {
	uint32_t tid;			/* the key */
	uint64_t out;			/* 0: it is on one */
};

struct perf_copy {
	struct rp_perf_file file;
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *types[KINDS];
	FILE *out;
	void *processes, *threads;	/* trees */
	size_t process_count, thread_count, mapping_count;
	const struct rp_perf_event *sampled;	/* the event whose samples count */
	uint64_t start, last, lost;
	uint32_t next_id;
	uint8_t payload[2 * PATH_BYTES_MAX];	/* a path or two names, and numbers */
	size_t used;
};

bool rp_perf_data_is_magic(const uint8_t start[4])
{
	return memcmp(start, "PERF", 4) == 0 || memcmp(start, "2ELI", 4) == 0;
}

/* Both structs begin with their key. */
static int compare_keys(const void *left, const void *right)
{
	uint32_t a, b;

	memcpy(&a, left, sizeof(a));
	memcpy(&b, right, sizeof(b));
	return (a > b) - (a < b);
}

/* Return: the struct of the key, of `size` bytes; NULL: no memory, or `max` of them exist. */
static void *get(void **tree, uint32_t key, size_t size, size_t *count, size_t max)
{
	void **found = tfind(&key, tree, compare_keys), *made;

	if (found)
		return *found;
	made = *count < max ? calloc(1, size) : NULL;
	if (!made)
		return NULL;
	memcpy(made, &key, sizeof(key));
	if (!tsearch(made, tree, compare_keys)) {
		free(made);
		return NULL;
	}
	++*count;
	return made;
}

static struct process *get_process(struct perf_copy *conversion, uint32_t pid)
{
	return get(&conversion->processes, pid, sizeof(struct process),
		   &conversion->process_count, PROCESSES_MAX);
}

static void put_number(struct perf_copy *conversion, uint64_t value)
{
	do {
		const uint8_t byte = value & 0x7f;

		value >>= 7;
		conversion->payload[conversion->used++] = byte | (value ? 0x80 : 0);
	} while (value);
}

static void put_text(struct perf_copy *conversion, const char *text)
{
	const size_t length = strlen(text);
	const uint16_t bytes = (uint16_t)(length < PATH_BYTES_MAX ? length : PATH_BYTES_MAX);

	memcpy(conversion->payload + conversion->used, &bytes, sizeof(bytes));
	memcpy(conversion->payload + conversion->used + sizeof(bytes), text, bytes);
	conversion->used += sizeof(bytes) + bytes;
}

static int write_output(struct perf_copy *conversion)
{
	size_t size;
	const void *bytes = rp_encoder_output(conversion->encoder, &size);

	if (size && fwrite(bytes, 1, size, conversion->out) != size)
		return -EIO;
	rp_encoder_consume(conversion->encoder, size);
	return 0;
}

static int put(struct perf_copy *conversion, enum copied kind, const struct rp_perf_place *place,
	       const uint64_t *frames, uint32_t frame_count)
{
	const struct rp_encoder_event event = {
		.type = conversion->types[kind], .time_ns = conversion->last,
		.thread = place->thread, .process = place->process,
		.processor = place->processor, .frames = frames, .frame_count = frame_count,
		.payload = conversion->payload, .payload_bytes = conversion->used,
	};
	size_t size;
	int ret = rp_encoder_event(conversion->encoder, &event);

	conversion->used = 0;
	(void)rp_encoder_output(conversion->encoder, &size);
	return ret == 0 && size >= OUTPUT_BYTES ? write_output(conversion) : ret;
}

static int put_process(struct perf_copy *conversion, struct process *process)
{
	const struct rp_perf_place place = { .process = process->pid, .thread = process->pid };

	/* The idle thread of a processor belongs to no process. */
	if (process->is_put || process->pid == 0)
		return 0;
	process->is_put = true;
	put_number(conversion, process->pid);
	put_text(conversion, process->name);
	put_text(conversion, "");
	return put(conversion, PROCESS, &place, NULL, 0);
}

static void find_build_id(const struct perf_copy *conversion, struct mapped *mapped)
{
	const struct rp_perf_file *file = &conversion->file;

	for (size_t i = 0; !mapped->build_id_bytes && i < file->build_id_count; i++) {
		if (strcmp(file->build_ids[i].path, mapped->path) == 0) {
			memcpy(mapped->build_id, file->build_ids[i].id, sizeof(mapped->build_id));
			mapped->build_id_bytes = file->build_ids[i].bytes;
		}
	}
}

static int put_mapping(struct perf_copy *conversion, const struct process *process,
		       struct mapped *mapped)
{
	const struct rp_perf_place place = { .process = process->pid, .thread = process->pid };
	char id[2 * sizeof(mapped->build_id) + 1] = "", json[128];
	const uint32_t number = ++conversion->next_id;
	int ret = 0;

	mapped->is_put = true;
	find_build_id(conversion, mapped);
	for (unsigned int i = 0; i < mapped->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", mapped->build_id[i]);
	if (*id) {
		snprintf(json, sizeof(json), "{\"type\":\"ELF\",\"build_id\":\"%s\"}", id);
		put_number(conversion, number);
		put_text(conversion, json);
		put_text(conversion, "");
		ret = put(conversion, METADATA, &place, NULL, 0);
	}
	put_number(conversion, number);
	put_number(conversion, mapped->start);
	put_number(conversion, mapped->end);
	put_number(conversion, mapped->offset);
	put_text(conversion, mapped->path);
	put_number(conversion, *id ? number : 0);
	return ret ? ret : put(conversion, MAPPING, &place, NULL, 0);
}

/* Put the mapping of an address, before the first stack that has the address. */
static int put_mapping_of(struct perf_copy *conversion, struct process *process,
			  uint64_t address)
{
	for (size_t i = process->count; i > 0; i--) {
		struct mapped *mapped = &process->mappings[i - 1];

		if (address >= mapped->start && address < mapped->end)
			return mapped->is_put ? 0 : put_mapping(conversion, process, mapped);
	}
	return 0;
}

static int take_sample(struct perf_copy *conversion, const struct rp_perf_entry *record)
{
	struct rp_perf_sample sample;
	struct process *process;
	uint64_t frames[FRAMES_MAX];
	uint32_t count = 0;
	int ret;

	if (!rp_perf_read_sample(&conversion->file, record, &sample) ||
	    sample.event != conversion->sampled)
		return 0;
	process = get_process(conversion, sample.place.process);
	if (!process)
		return -ENOMEM;
	ret = put_process(conversion, process);
	for (uint64_t i = 0; i < sample.frame_count && count < FRAMES_MAX; i++) {
		uint64_t frame;

		memcpy(&frame, sample.frames + 8 * i, sizeof(frame));
		if (frame < -(uint64_t)CONTEXT_MAX)
			frames[count++] = frame;
	}
	if (count == 0 && sample.event->attr.sample_type & PERF_SAMPLE_IP)
		frames[count++] = sample.address;
	for (uint32_t i = 0; ret == 0 && i < count; i++) {
		if (frames[i] < KERNEL_START)
			ret = put_mapping_of(conversion, process, frames[i]);
	}
	put_number(conversion, sample.period);
	return ret ? ret : put(conversion, SAMPLE, &sample.place, frames, count);
}

static int take_switch(struct perf_copy *conversion, const struct rp_perf_entry *record)
{
	struct rp_perf_place place;
	struct process *process;
	struct off_cpu *thread;
	int ret;

	rp_perf_read_trailer(&conversion->file, record, &place);
	/* The idle threads of all processors have the id 0. */
	if (place.thread == 0)
		return 0;
	thread = get(&conversion->threads, place.thread, sizeof(*thread),
		     &conversion->thread_count, PROCESSES_MAX);
	process = get_process(conversion, place.process);
	if (!thread || !process)
		return -ENOMEM;
	if (rp_perf_header(&conversion->file, record).misc & PERF_RECORD_MISC_SWITCH_OUT) {
		thread->out = place.time;
		return 0;
	}
	if (!thread->out || place.time < thread->out)
		return 0;
	ret = put_process(conversion, process);
	put_number(conversion, place.time - thread->out);
	thread->out = 0;
	return ret ? ret : put(conversion, SWITCH, &place, NULL, 0);
}

/* Return: whether a NUL ends the text at the start of the rest of the record. */
static bool take_text(struct rp_cursor *cursor, const char **ret_text)
{
	*ret_text = (const char *)cursor->at;
	return !rp_cursor_failed(cursor) &&
	       memchr(cursor->at, '\0', (size_t)(cursor->end - cursor->at));
}

static int take_name(struct perf_copy *conversion, struct rp_cursor *cursor, uint16_t misc)
{
	struct process *process;
	uint32_t pid, tid;
	const char *name;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &tid) ||
	    !take_text(cursor, &name) || pid != tid)
		return 0;
	process = get_process(conversion, pid);
	if (!process)
		return -ENOMEM;
	/* Another program has other mappings. */
	if (misc & PERF_RECORD_MISC_COMM_EXEC) {
		conversion->mapping_count -= process->count;
		process->count = 0;
	}
	process->is_put &= strncmp(process->name, name, sizeof(process->name) - 1) == 0;
	snprintf(process->name, sizeof(process->name), "%s", name);
	return 0;
}

/* Return: space for `count` more mappings of the process; NULL: no memory, or too many. */
static struct mapped *reserve(struct perf_copy *conversion, struct process *process,
			      size_t count)
{
	struct mapped *grown;

	if (process->count + count > MAPPINGS_MAX ||
	    conversion->mapping_count + count > ALL_MAPPINGS_MAX)
		return NULL;
	grown = rp_array_reserve(process->mappings, process->count, &process->capacity, count,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	process->mappings = grown;
	conversion->mapping_count += count;
	grown += process->count;
	process->count += count;
	return grown;
}

static int take_mapping(struct perf_copy *conversion, struct rp_cursor *cursor,
			const struct perf_event_header *header)
{
	struct mapped mapped = { 0 }, *added;
	const uint8_t *fields = NULL;
	struct process *process;
	uint32_t pid, tid;
	uint64_t length;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &tid) ||
	    rp_cursor_u64(cursor, &mapped.start) || rp_cursor_u64(cursor, &length) ||
	    rp_cursor_u64(cursor, &mapped.offset) ||
	    (header->type == PERF_RECORD_MMAP2 && rp_cursor_take(cursor, MMAP2_FIELDS, &fields)) ||
	    !take_text(cursor, &mapped.path) || pid == UINT32_MAX ||
	    __builtin_add_overflow(mapped.start, length, &mapped.end))
		return 0;
	if (fields && header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID && fields[0] <= 20) {
		mapped.build_id_bytes = fields[0];
		memcpy(mapped.build_id, fields + 4, sizeof(mapped.build_id));
	}
	process = get_process(conversion, pid);
	if (!process)
		return -ENOMEM;
	added = reserve(conversion, process, 1);
	if (added)
		*added = mapped;
	return 0;
}

static int take_fork(struct perf_copy *conversion, struct rp_cursor *cursor)
{
	struct process *child, *parent;
	struct mapped *added;
	uint32_t pid, parent_pid;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &parent_pid) ||
	    pid == parent_pid)
		return 0;
	child = get_process(conversion, pid);
	parent = get_process(conversion, parent_pid);
	if (!child || !parent)
		return -ENOMEM;
	conversion->mapping_count -= child->count;
	child->count = 0;
	child->is_put = false;
	memcpy(child->name, parent->name, sizeof(child->name));
	added = parent->count ? reserve(conversion, child, parent->count) : NULL;
	for (size_t i = 0; added && i < parent->count; i++) {
		added[i] = parent->mappings[i];
		added[i].is_put = false;
	}
	return 0;
}

static int take_exit(struct perf_copy *conversion, struct rp_cursor *cursor)
{
	struct process *process;
	uint32_t pid, parent, tid;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &parent) ||
	    rp_cursor_u32(cursor, &tid) || pid != tid)
		return 0;
	process = get_process(conversion, pid);
	if (!process)
		return -ENOMEM;
	if (!process->is_put)
		return 0;
	process->is_put = false;
	return put(conversion, EXIT, &(struct rp_perf_place){ .process = pid, .thread = tid },
		   NULL, 0);
}

static void count_lost(struct perf_copy *conversion, struct rp_cursor *cursor, bool has_id)
{
	uint64_t lost;

	if (has_id && rp_cursor_u64(cursor, &lost))
		return;
	if (rp_cursor_u64(cursor, &lost) == 0)
		conversion->lost = lost < LOST_MAX - conversion->lost ? conversion->lost + lost :
									LOST_MAX;
}

static int take_record(struct perf_copy *conversion, const struct rp_perf_entry *record)
{
	const struct perf_event_header header = rp_perf_header(&conversion->file, record);
	struct rp_cursor cursor = rp_cursor_over(conversion->file.bytes + record->at +
						 sizeof(header), header.size - sizeof(header));

	if (record->time > conversion->last)
		conversion->last = record->time;
	switch (header.type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(conversion, record);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return take_switch(conversion, record);
	case PERF_RECORD_COMM:
		return take_name(conversion, &cursor, header.misc);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return take_mapping(conversion, &cursor, &header);
	case PERF_RECORD_FORK:
		return take_fork(conversion, &cursor);
	case PERF_RECORD_EXIT:
		return take_exit(conversion, &cursor);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		count_lost(conversion, &cursor, header.type == PERF_RECORD_LOST);
		return 0;
	default:
		return 0;
	}
}

/* Tracepoints and the like have samples that are no share of the time. */
static void choose_event(struct perf_copy *conversion)
{
	const struct rp_perf_file *file = &conversion->file;

	for (size_t i = 0; i < file->event_count && !conversion->sampled; i++) {
		const struct perf_event_attr *attr = &file->events[i].attr;

		if (attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT ||
		    (attr->type == PERF_TYPE_SOFTWARE &&
		     attr->config != PERF_COUNT_SW_CPU_CLOCK &&
		     attr->config != PERF_COUNT_SW_TASK_CLOCK))
			continue;
		conversion->sampled = &file->events[i];
	}
	/* Records that perf made before the recording have the time 0. */
	for (size_t i = 0; i < file->record_count && !conversion->start; i++)
		conversion->start = file->records[i].time;
	conversion->last = conversion->start;
}

static int begin(struct perf_copy *conversion)
{
	const struct rp_encoder_info info = {
		.start_ns = conversion->start, .version = RP_NETTRACE_V6, .processors = 1,
	};
	int ret = rp_encoder_create(&info, &conversion->encoder);

	for (int i = 0; ret == 0 && i < KINDS; i++)
		ret = rp_encoder_define(conversion->encoder, &definitions[i],
					&conversion->types[i]);
	return ret ? ret : rp_encoder_sequence_point(conversion->encoder, conversion->start, 0);
}

static int convert(struct perf_copy *conversion)
{
	int ret;

	choose_event(conversion);
	ret = begin(conversion);
	for (size_t i = 0; ret == 0 && i < conversion->file.record_count; i++)
		ret = take_record(conversion, &conversion->file.records[i]);
	if (ret == 0)
		ret = rp_encoder_sequence_point(conversion->encoder, conversion->last,
						conversion->lost);
	if (ret == 0)
		ret = rp_encoder_end(conversion->encoder);
	if (ret == 0)
		ret = write_output(conversion);
	return ret == 0 && fflush(conversion->out) != 0 ? -errno : ret;
}

static void free_process(void *node)
{
	struct process *process = node;

	free(process->mappings);
	free(process);
}

int rp_perf_data_convert(const void *bytes, size_t size, const char *path, int *ret_fd)
{
	struct perf_copy *conversion = calloc(1, sizeof(*conversion));
	int fd, ret = conversion ? rp_perf_file_read(&conversion->file, bytes, size) : -ENOMEM;

	if (ret == 0) {
		conversion->out = tmpfile();
		ret = conversion->out ? convert(conversion) : -errno;
	}
	if (ret == 0) {
		fd = dup(fileno(conversion->out));
		ret = fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
		if (ret == 0)
			*ret_fd = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (ret && conversion && conversion->file.error)
		rp_tool_error("%s: perf.data: %s", path, conversion->file.error);
	else if (ret)
		rp_tool_error("%s: perf.data: %s", path, strerror(-ret));
	else if (conversion->file.is_cut)
		rp_tool_error("%s: perf.data: it is cut or damaged; the records before that are "
			      "read", path);
	if (conversion) {
		if (conversion->out)
			fclose(conversion->out);
		rp_encoder_destroy(conversion->encoder);
		tdestroy(conversion->processes, free_process);
		tdestroy(conversion->threads, free);
		rp_perf_file_fini(&conversion->file);
	}
	free(conversion);
	return ret;
}
