/* SPDX-License-Identifier: MIT */
/*
 * Source: perf_event_open(2) and include/uapi/linux/perf_event.h of Linux. Records other than
 * samples end with the thread, the time and the processor (sample_id_all).
 */
#include "tools/ringpipe-record/perf_record.h"

#include <errno.h>
#include <string.h>

#include "base/cursor.h"

/* u32 process, u32 thread, u64 time, u64 id if there are ids, u32 processor, u32 reserved */
#define TRAILER_BYTES 24u
#define ID_BYTES 8u

/* Offset of the time in a sample: after the header, the instruction and the ids. */
#define SAMPLE_TIME_OFFSET 24u

/* The order of registers in a sample, by their DWARF numbers; flags, cs and ss have none. */
static const int8_t register_of_bit[24] = {
	[0] = 0, [1] = 3, [2] = 2, [3] = 1, [4] = 4, [5] = 5, [6] = 6, [7] = 7, [8] = 16,
	[9] = -1, [10] = -1, [11] = -1, [12] = -1, [13] = -1, [14] = -1, [15] = -1,
	[16] = 8, [17] = 9, [18] = 10, [19] = 11, [20] = 12, [21] = 13, [22] = 14, [23] = 15,
};

static size_t trailer_bytes(const struct rp_perf_parts *parts)
{
	return TRAILER_BYTES + (parts->has_ids ? ID_BYTES : 0);
}

/* Its sample type is PERF_SAMPLE_RAW alone, and no other sample is as short. */
bool rp_perf_record_context(const struct perf_event_header *header,
			    struct rp_trace_context *ret_context)
{
	const uint8_t *bytes = (const uint8_t *)header;
	uint32_t size;

	if (header->type != PERF_RECORD_SAMPLE ||
	    header->size != sizeof(*header) + sizeof(size) + sizeof(*ret_context))
		return false;
	memcpy(&size, bytes + sizeof(*header), sizeof(size));
	if (size != sizeof(*ret_context))
		return false;
	memcpy(ret_context, bytes + sizeof(*header) + sizeof(size), sizeof(*ret_context));
	return true;
}

uint64_t rp_perf_record_time(const struct perf_event_header *header,
			     const struct rp_perf_parts *parts)
{
	const uint8_t *bytes = (const uint8_t *)header;
	size_t offset = header->type == PERF_RECORD_SAMPLE ? SAMPLE_TIME_OFFSET :
			header->size - trailer_bytes(parts) + 8u;
	uint64_t time;

	if (header->size < sizeof(*header) + trailer_bytes(parts))
		return 0;
	memcpy(&time, bytes + offset, sizeof(time));
	return time;
}

static const char *get_text(struct rp_cursor *cursor)
{
	size_t left = rp_cursor_left(cursor);
	const uint8_t *bytes;

	if (rp_cursor_take(cursor, left, &bytes) < 0 || !memchr(bytes, '\0', left)) {
		rp_cursor_fail(cursor);
		return "";
	}
	return (const char *)bytes;
}

/* Keeps the frames after PERF_CONTEXT_KERNEL. */
static void parse_frames(struct rp_cursor *cursor, struct rp_perf_parts *parts,
			 struct rp_perf_record *record)
{
	uint64_t count = rp_cursor_get_u64(cursor);
	bool is_kernel = false;

	for (uint64_t i = 0; i < count && !rp_cursor_failed(cursor); i++) {
		uint64_t frame = rp_cursor_get_u64(cursor);

		if (frame >= PERF_CONTEXT_MAX)
			is_kernel = frame == PERF_CONTEXT_KERNEL;
		else if (is_kernel && record->sample.kernel_frame_count < RP_PERF_FRAMES_MAX)
			parts->frames[record->sample.kernel_frame_count++] = frame;
	}
	record->sample.kernel_frames = parts->frames;
}

static void parse_registers(struct rp_cursor *cursor, struct rp_perf_parts *parts,
			    struct rp_perf_record *record)
{
	uint64_t abi = rp_cursor_get_u64(cursor);

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	memset(&parts->registers, 0, sizeof(parts->registers));
	for (unsigned int bit = 0; bit < 24; bit++) {
		uint64_t value;

		if (!(RP_PERF_REGISTERS >> bit & 1))
			continue;
		value = rp_cursor_get_u64(cursor);
		if (register_of_bit[bit] >= 0) {
			parts->registers.value[register_of_bit[bit]] = value;
			parts->registers.known |= 1u << register_of_bit[bit];
		}
	}
	/* The stack of 32-bit code has other frames. */
	if (abi == PERF_SAMPLE_REGS_ABI_64)
		record->sample.registers = &parts->registers;
}

static void parse_stack(struct rp_cursor *cursor, struct rp_perf_record *record)
{
	uint64_t size = rp_cursor_get_u64(cursor);
	const uint8_t *bytes;

	if (size == 0)
		return;
	if (rp_cursor_take(cursor, size, &bytes) < 0) {
		rp_cursor_fail(cursor);
		return;
	}
	record->sample.stack = bytes;
	record->sample.stack_bytes = rp_cursor_get_u64(cursor);
	if (record->sample.stack_bytes > size)
		record->sample.stack_bytes = size;
}

/* Return: the event with that id; NULL, and a failure of the cursor: there is none. */
static const struct rp_perf_point *find_point(struct rp_cursor *cursor,
					      const struct rp_perf_parts *parts,
					      struct rp_perf_record *record)
{
	const struct rp_thread_slot *slot;

	record->sample.address = rp_cursor_get_u64(cursor);
	slot = rp_thread_table_find(&parts->ids, rp_cursor_get_u64(cursor));
	if (!slot) {
		rp_cursor_fail(cursor);
		return NULL;
	}
	record->sample.point = slot->index - 1;
	return &parts->points[record->sample.point];
}

/* The rest of a sample of a tracepoint or a counter. */
static void parse_point(struct rp_cursor *cursor, struct rp_perf_parts *parts,
			const struct rp_perf_point *point, struct rp_perf_record *record)
{
	const uint8_t *bytes;
	uint32_t size = rp_cursor_get_u32(cursor);

	if (rp_cursor_take(cursor, size, &bytes) < 0)
		return;
	record->sample.fields = bytes;
	record->sample.field_bytes = size;
	if (!point->has_registers)
		return;
	parse_registers(cursor, parts, record);
	if (point->stack_bytes)
		parse_stack(cursor, record);
}

static void parse_sample(struct rp_cursor *cursor, struct rp_perf_parts *parts,
			 struct rp_perf_record *record)
{
	const struct rp_perf_point *point;

	record->kind = RP_PERF_SAMPLE;
	rp_cursor_skip(cursor, 8);		/* the instruction, which the frames contain */
	record->process = (pid_t)rp_cursor_get_u32(cursor);
	record->thread = (pid_t)rp_cursor_get_u32(cursor);
	record->time_ns = rp_cursor_get_u64(cursor);
	point = parts->has_ids ? find_point(cursor, parts, record) : NULL;
	record->processor = rp_cursor_get_u32(cursor);
	rp_cursor_skip(cursor, 4);
	record->sample.period_ns = rp_cursor_get_u64(cursor);
	if (point)
		parse_point(cursor, parts, point, record);
	if (parts->has_ids)
		return;
	parse_frames(cursor, parts, record);
	/* Samples of switches end here. */
	if (rp_cursor_left(cursor) == 0)
		return;
	parse_registers(cursor, parts, record);
	parse_stack(cursor, record);
}

static void parse_mapping(struct rp_cursor *cursor, uint16_t misc, struct rp_perf_record *record)
{
	record->kind = RP_PERF_MAPPING;
	record->process = (pid_t)rp_cursor_get_u32(cursor);
	record->thread = (pid_t)rp_cursor_get_u32(cursor);
	record->mapping.start = rp_cursor_get_u64(cursor);
	record->mapping.end = record->mapping.start + rp_cursor_get_u64(cursor);
	record->mapping.file_offset = rp_cursor_get_u64(cursor);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		uint8_t bytes = rp_cursor_get_u8(cursor);

		rp_cursor_skip(cursor, 3);
		record->mapping.build_id = cursor->at;
		record->mapping.build_id_bytes = bytes <= 20 ? bytes : 0;
		rp_cursor_skip(cursor, 20);
	} else {
		uint64_t major = rp_cursor_get_u32(cursor), minor = rp_cursor_get_u32(cursor);

		record->mapping.device = major << 20 | minor;
		record->mapping.inode = rp_cursor_get_u64(cursor);
		rp_cursor_skip(cursor, 8);	/* the generation of the inode */
	}
	rp_cursor_skip(cursor, 8);			/* protection and flags */
	record->mapping.path = get_text(cursor);
}

static void parse_name(struct rp_cursor *cursor, uint16_t misc, struct rp_perf_record *record)
{
	record->kind = RP_PERF_NAME;
	record->process = (pid_t)rp_cursor_get_u32(cursor);
	record->thread = (pid_t)rp_cursor_get_u32(cursor);
	record->name.is_exec = misc & PERF_RECORD_MISC_COMM_EXEC;
	record->name.text = get_text(cursor);
}

static void parse_task(struct rp_cursor *cursor, bool is_start, struct rp_perf_record *record)
{
	pid_t parent;

	record->kind = is_start ? RP_PERF_START : RP_PERF_END;
	record->process = (pid_t)rp_cursor_get_u32(cursor);
	parent = (pid_t)rp_cursor_get_u32(cursor);
	record->thread = (pid_t)rp_cursor_get_u32(cursor);
	if (is_start)
		record->start.process = parent;
	rp_cursor_skip(cursor, 4);
	rp_cursor_skip(cursor, 8);
}

static void parse_switch(const struct perf_event_header *header, struct rp_perf_record *record)
{
	record->kind = RP_PERF_SWITCH;
	record->is_switch_out = header->misc & PERF_RECORD_MISC_SWITCH_OUT;
	record->is_preempted = header->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
}

static int parse_lost(const struct perf_event_header *header, struct rp_cursor *cursor,
		      uint64_t *ret_lost)
{
	if (header->type == PERF_RECORD_LOST)
		rp_cursor_skip(cursor, 8);		/* the id of the event */
	*ret_lost = rp_cursor_get_u64(cursor);
	return 2;
}

static int parse_content(const struct perf_event_header *header, struct rp_cursor *cursor,
			 struct rp_perf_parts *parts, struct rp_perf_record *record,
			 uint64_t *ret_lost)
{
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		parse_sample(cursor, parts, record);
		return 0;
	case PERF_RECORD_MMAP2:
		parse_mapping(cursor, header->misc, record);
		return 0;
	case PERF_RECORD_COMM:
		parse_name(cursor, header->misc, record);
		return 0;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		parse_task(cursor, header->type == PERF_RECORD_FORK, record);
		return 0;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		parse_switch(header, record);
		return 0;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return parse_lost(header, cursor, ret_lost);
	default:
		return 1;
	}
}

/* The event that states a loss may be a BPF program's output, whose records have no trailer. */
static bool is_loss_of_output(const struct perf_event_header *header)
{
	return header->type == PERF_RECORD_LOST &&
	       header->size == sizeof(*header) + 2 * sizeof(uint64_t);
}

int rp_perf_record_parse(const struct perf_event_header *header, struct rp_perf_parts *parts,
			 struct rp_perf_record *ret_record, uint64_t *ret_lost)
{
	const uint8_t *bytes = (const uint8_t *)header;
	size_t trailer = header->type == PERF_RECORD_SAMPLE || is_loss_of_output(header) ? 0 :
			 trailer_bytes(parts);
	struct rp_cursor cursor;
	int ret;

	if (header->size < sizeof(*header) + trailer)
		return -EBADMSG;
	memset(ret_record, 0, sizeof(*ret_record));
	if (trailer) {
		ret_record->time_ns = rp_perf_record_time(header, parts);
		memcpy(&ret_record->process, bytes + header->size - trailer, 4);
		memcpy(&ret_record->thread, bytes + header->size - trailer + 4, 4);
		memcpy(&ret_record->processor, bytes + header->size - 8, 4);
	}
	cursor = rp_cursor_over(bytes + sizeof(*header), header->size - sizeof(*header) - trailer);
	ret = parse_content(header, &cursor, parts, ret_record, ret_lost);
	return rp_cursor_failed(&cursor) ? -EBADMSG : ret;
}

void rp_perf_record_find_ended(struct rp_perf_record *record, struct rp_perf_ended *ended)
{
	if (record->kind == RP_PERF_END) {
		ended->process = record->process;
		ended->thread = record->thread;
	} else if (record->thread == -1) {
		if (record->process == -1)
			record->process = ended->process;
		record->thread = record->process == ended->process ? ended->thread :
				 record->process;
	}
}
