/* SPDX-License-Identifier: MIT */
#include "tools/trace/perf_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cursor.h"
#include "nettrace/objects.h"
#include "tools/cli/tool.h"
#include "tools/trace/perf_copy.h"

#define MAPPINGS_MAX 65536u		/* of a process */
#define ALL_MAPPINGS_MAX (4u << 20)
#define LOST_MAX (1ull << 40)		/* a damaged record may state any number */
#define MMAP2_FIELDS 32u		/* of a MMAP2 between the offset and the path */
#define YEAR_2200_NS 7258118400000000000ull

bool rp_perf_data_is_magic(const uint8_t start[4])
{
	return memcmp(start, "PERF", 4) == 0 || memcmp(start, "2ELI", 4) == 0;
}

static int take_sample(struct rp_perf_copy *copy, const struct rp_perf_entry *record)
{
	struct rp_perf_sample sample;
	struct rp_perf_process *process;
	uint64_t frames[RP_PERF_FRAMES_MAX];
	uint32_t count;
	int ret;

	if (!rp_perf_read_sample(&copy->file, record, &sample))
		return 0;
	if (sample.event->attr.type == PERF_TYPE_TRACEPOINT)
		return rp_perf_take_tracepoint(copy, &sample);
	ret = rp_perf_note_running(copy, &sample.place);
	if (ret || sample.event != copy->sampled)
		return ret;
	process = rp_perf_get_process(copy, sample.place.process);
	if (!process)
		return -ENOMEM;
	ret = rp_perf_put_process(copy, process);
	count = rp_perf_copy_frames(sample.frames, sample.frame_count, frames);
	if (count == 0 && sample.event->attr.sample_type & PERF_SAMPLE_IP)
		frames[count++] = sample.address;
	if (ret == 0)
		ret = rp_perf_put_frames(copy, process, frames, count);
	rp_perf_put_number(copy, sample.period);
	return ret ? ret : rp_perf_put(copy, RP_MACHINE_SAMPLE, &sample.place, frames, count);
}

/* Return: whether a NUL ends the text at the start of the rest of the record. */
static bool take_text(struct rp_cursor *cursor, const char **ret_text)
{
	*ret_text = (const char *)cursor->at;
	return !rp_cursor_failed(cursor) &&
	       memchr(cursor->at, '\0', (size_t)(cursor->end - cursor->at));
}

/* Forget the mappings of a program that the process no longer runs. */
static void drop_mappings(struct rp_perf_copy *copy, struct rp_perf_process *process)
{
	copy->mapping_count -= process->count;
	free(process->mappings);
	process->mappings = NULL;
	process->count = process->capacity = 0;
}

static int take_name(struct rp_perf_copy *copy, struct rp_cursor *cursor, uint16_t misc)
{
	struct rp_perf_process *process;
	uint32_t pid, tid;
	const char *name;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &tid) ||
	    !take_text(cursor, &name) || pid != tid)
		return 0;
	process = rp_perf_get_process(copy, pid);
	if (!process)
		return -ENOMEM;
	/* Another program has other mappings. */
	if (misc & PERF_RECORD_MISC_COMM_EXEC)
		drop_mappings(copy, process);
	process->is_put &= strncmp(process->name, name, sizeof(process->name) - 1) == 0;
	snprintf(process->name, sizeof(process->name), "%s", name);
	return 0;
}

/* Return: space for `count` more mappings of the process; NULL: no memory, or too many. */
static struct rp_perf_mapped *reserve(struct rp_perf_copy *copy, struct rp_perf_process *process,
			      size_t count)
{
	struct rp_perf_mapped *grown;

	if (process->count + count > MAPPINGS_MAX ||
	    copy->mapping_count + count > ALL_MAPPINGS_MAX)
		return NULL;
	grown = rp_array_reserve(process->mappings, process->count, &process->capacity, count,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	process->mappings = grown;
	copy->mapping_count += count;
	grown += process->count;
	process->count += count;
	return grown;
}

/* The mapping of the kernel has the address of _text instead of an offset. */
static void take_kernel(struct rp_perf_copy *copy, const struct rp_perf_mapped *mapped)
{
	if (strcmp(mapped->path, RP_PERF_KERNEL "_text") != 0)
		return;
	copy->kernel.text = mapped->offset;
	copy->kernel.build_id_bytes = mapped->build_id_bytes;
	memcpy(copy->kernel.build_id, mapped->build_id, sizeof(mapped->build_id));
}

static int take_mapping(struct rp_perf_copy *copy, struct rp_cursor *cursor,
			const struct perf_event_header *header)
{
	struct rp_perf_mapped mapped = { 0 }, *added;
	const uint8_t *fields = NULL;
	struct rp_perf_process *process;
	uint32_t pid, tid;
	uint64_t length;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &tid) ||
	    rp_cursor_u64(cursor, &mapped.start) || rp_cursor_u64(cursor, &length) ||
	    rp_cursor_u64(cursor, &mapped.offset) ||
	    (header->type == PERF_RECORD_MMAP2 && rp_cursor_take(cursor, MMAP2_FIELDS, &fields)) ||
	    !take_text(cursor, &mapped.path) ||
	    __builtin_add_overflow(mapped.start, length, &mapped.end))
		return 0;
	if (fields && header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID && fields[0] <= 20) {
		mapped.build_id_bytes = fields[0];
		memcpy(mapped.build_id, fields + 4, sizeof(mapped.build_id));
	}
	if (pid == UINT32_MAX) {
		take_kernel(copy, &mapped);
		return 0;
	}
	process = rp_perf_get_process(copy, pid);
	if (!process)
		return -ENOMEM;
	added = reserve(copy, process, 1);
	if (added)
		*added = mapped;
	return 0;
}

static int take_fork(struct rp_perf_copy *copy, struct rp_cursor *cursor)
{
	struct rp_perf_process *child, *parent;
	struct rp_perf_mapped *added;
	uint32_t pid, parent_pid;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &parent_pid) ||
	    pid == parent_pid)
		return 0;
	child = rp_perf_get_process(copy, pid);
	parent = rp_perf_get_process(copy, parent_pid);
	if (!child || !parent)
		return -ENOMEM;
	drop_mappings(copy, child);
	child->is_put = false;
	memcpy(child->name, parent->name, sizeof(child->name));
	added = parent->count ? reserve(copy, child, parent->count) : NULL;
	for (size_t i = 0; added && i < parent->count; i++) {
		added[i] = parent->mappings[i];
		added[i].is_put = false;
	}
	return 0;
}

static int take_exit(struct rp_perf_copy *copy, struct rp_cursor *cursor)
{
	struct rp_perf_process *process;
	uint32_t pid, parent, tid;

	if (rp_cursor_u32(cursor, &pid) || rp_cursor_u32(cursor, &parent) ||
	    rp_cursor_u32(cursor, &tid) || pid != tid)
		return 0;
	process = rp_perf_get_process(copy, pid);
	if (!process)
		return -ENOMEM;
	if (!process->is_put)
		return 0;
	process->is_put = false;
	return rp_perf_put(copy, RP_MACHINE_PROCESS_EXIT,
			   &(struct rp_perf_place){ .process = pid, .thread = tid }, NULL, 0);
}

static void count_lost(struct rp_perf_copy *copy, struct rp_cursor *cursor, bool has_id)
{
	uint64_t lost;

	if (has_id && rp_cursor_u64(cursor, &lost))
		return;
	if (rp_cursor_u64(cursor, &lost) == 0)
		copy->lost = lost < LOST_MAX - copy->lost ? copy->lost + lost :
									LOST_MAX;
}

static int take_record(struct rp_perf_copy *copy, const struct rp_perf_entry *record)
{
	const struct perf_event_header header = rp_perf_header(&copy->file, record);
	struct rp_cursor cursor = rp_cursor_over(copy->file.bytes + record->at +
						 sizeof(header), header.size - sizeof(header));

	if (record->time > copy->last)
		copy->last = record->time;
	switch (header.type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(copy, record);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return rp_perf_take_switch(copy, record);
	case PERF_RECORD_COMM:
		return take_name(copy, &cursor, header.misc);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return take_mapping(copy, &cursor, &header);
	case PERF_RECORD_FORK:
		return take_fork(copy, &cursor);
	case PERF_RECORD_EXIT:
		return take_exit(copy, &cursor);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		count_lost(copy, &cursor, header.type == PERF_RECORD_LOST);
		return 0;
	default:
		return 0;
	}
}

/* Tracepoints and the like have samples that are no share of the time. */
static void choose_event(struct rp_perf_copy *copy)
{
	const struct rp_perf_file *file = &copy->file;

	for (size_t i = 0; i < file->event_count && !copy->sampled; i++) {
		const struct perf_event_attr *attr = &file->events[i].attr;

		if (attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT ||
		    (attr->type == PERF_TYPE_SOFTWARE &&
		     attr->config != PERF_COUNT_SW_CPU_CLOCK &&
		     attr->config != PERF_COUNT_SW_TASK_CLOCK))
			continue;
		copy->sampled = &file->events[i];
	}
	for (size_t i = 0; i < file->event_count; i++)
		copy->has_switches |= file->events[i].attr.context_switch;
	/* Records that perf made before the recording have the time 0. */
	for (size_t i = 0; i < file->record_count && !copy->start; i++)
		copy->start = file->records[i].time;
	copy->last = copy->start;
}

/* Return: when the recording began, since 1970; 0: the file has no time of day. */
static int64_t start_utc(const struct rp_perf_copy *copy)
{
	const struct rp_perf_features *features = &copy->file.features;
	const uint64_t ns = features->utc_ns - features->clock_ns + copy->start;

	return features->has_clock && ns < YEAR_2200_NS ? (int64_t)ns : 0;
}

static int begin(struct rp_perf_copy *copy)
{
	const struct rp_encoder_info info = {
		.start_ns = copy->start, .start_utc_ns = start_utc(copy),
		.version = RP_NETTRACE_V6, .processors = copy->file.features.processors,
	};
	int ret = rp_encoder_create(&info, &copy->encoder);

	for (int i = 0; ret == 0 && i < RP_MACHINE_EVENT_COUNT; i++)
		ret = rp_encoder_define(copy->encoder, &rp_machine_definitions[i],
					&copy->types[i]);
	if (ret == 0)
		ret = rp_encoder_sequence_point(copy->encoder, copy->start, 0);
	return ret ? ret : rp_perf_put_features(copy);
}

static int convert(struct rp_perf_copy *copy)
{
	int ret;

	choose_event(copy);
	ret = begin(copy);
	for (size_t i = 0; ret == 0 && i < copy->file.record_count; i++)
		ret = take_record(copy, &copy->file.records[i]);
	if (ret == 0)
		ret = rp_encoder_sequence_point(copy->encoder, copy->last,
						copy->lost);
	if (ret == 0)
		ret = rp_encoder_end(copy->encoder);
	if (ret == 0)
		ret = rp_perf_put_output(copy);
	return ret == 0 && fflush(copy->out) != 0 ? -errno : ret;
}

int rp_perf_data_convert(const void *bytes, size_t size, const char *path, int *ret_fd)
{
	struct rp_perf_copy *copy = calloc(1, sizeof(*copy));
	int fd, ret = copy ? rp_perf_file_read(&copy->file, bytes, size) : -ENOMEM;

	if (ret == 0) {
		copy->out = tmpfile();
		ret = copy->out ? convert(copy) : -errno;
	}
	if (ret == 0) {
		fd = dup(fileno(copy->out));
		ret = fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
		if (ret == 0)
			*ret_fd = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (ret && copy && copy->file.error)
		rp_tool_error("%s: perf.data: %s", path, copy->file.error);
	else if (ret)
		rp_tool_error("%s: perf.data: %s", path, strerror(-ret));
	else if (copy->file.is_cut)
		rp_tool_error("%s: perf.data: it is cut or damaged; the records before that are "
			      "read", path);
	if (copy) {
		if (copy->out)
			fclose(copy->out);
		rp_encoder_destroy(copy->encoder);
		rp_perf_tables_fini(copy);
		rp_kernel_symbols_fini(&copy->kernel.symbols);
		rp_perf_file_fini(&copy->file);
	}
	free(copy);
	return ret;
}
