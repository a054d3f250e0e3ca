/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-kernel/kernel_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <seccomp.h>

#define FIELD(field, kind) { .name = field, .type = RP_TYPE_##kind }
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Bits of x86's error code of a page fault. */
#define FAULT_PRESENT 1
#define FAULT_WRITE 2
#define FAULT_USER 4
#define FAULT_EXECUTE 16

enum { LOST = 0 };	/* index of RP_KERNEL_MARK, which is no event */

static const struct rp_field lost_fields[] = { FIELD("count", U64), FIELD("total", U64) };

static const struct rp_field out_fields[] = { FIELD("processor", U16), FIELD("reason", STRING) };

static const struct rp_field in_fields[] = {
	FIELD("processor", U16), FIELD("reason", STRING), FIELD("off_cpu_ns", U64),
};

static const struct rp_field fault_fields[] = {
	FIELD("processor", U16), FIELD("address", POINTER), FIELD("instruction", POINTER),
	FIELD("write", BOOL), FIELD("execute", BOOL), FIELD("user", BOOL), FIELD("present", BOOL),
};

static const struct rp_field request_fields[] = {
	FIELD("processor", U16), FIELD("device", STRING), FIELD("operation", STRING),
	FIELD("sector", U64), FIELD("bytes", U32),
};

static const struct rp_field complete_fields[] = {
	FIELD("processor", U16), FIELD("device", STRING), FIELD("operation", STRING),
	FIELD("sector", U64), FIELD("bytes", U32), FIELD("latency_ns", U64), FIELD("status", U8),
};

static const struct rp_field enter_fields[] = {
	FIELD("processor", U16), FIELD("number", I32), FIELD("name", STRING),
};

static const struct rp_field exit_fields[] = {
	FIELD("processor", U16), FIELD("number", I32), FIELD("name", STRING), FIELD("result", I64),
	FIELD("duration_ns", U64),
};

#define DEFINITION(event, number, event_level, event_fields) { \
	.provider = "Ringpipe-Kernel", .name = event, .id = number, .level = event_level, \
	.fields = event_fields, .field_count = COUNT(event_fields) }

static const struct rp_definition definitions[] = {
	[LOST] = DEFINITION("EventsLost", 1, RP_LEVEL_WARNING, lost_fields),
	[RP_KERNEL_SWITCH_OUT] = DEFINITION("SwitchOut", 2, RP_LEVEL_INFORMATIONAL, out_fields),
	[RP_KERNEL_SWITCH_IN] = DEFINITION("SwitchIn", 3, RP_LEVEL_INFORMATIONAL, in_fields),
	[RP_KERNEL_PAGE_FAULT] = DEFINITION("PageFault", 4, RP_LEVEL_INFORMATIONAL, fault_fields),
	[RP_KERNEL_BLOCK_REQUEST] = DEFINITION("BlockRequest", 5, RP_LEVEL_INFORMATIONAL,
					       request_fields),
	[RP_KERNEL_BLOCK_COMPLETE] = DEFINITION("BlockComplete", 6, RP_LEVEL_INFORMATIONAL,
						complete_fields),
	[RP_KERNEL_SYSCALL_ENTER] = DEFINITION("SyscallEnter", 7, RP_LEVEL_INFORMATIONAL,
					       enter_fields),
	[RP_KERNEL_SYSCALL_EXIT] = DEFINITION("SyscallExit", 8, RP_LEVEL_INFORMATIONAL,
					      exit_fields),
};

static const char *const reasons[] = {
	[RP_KERNEL_UNKNOWN] = "unknown",
	[RP_KERNEL_PREEMPTED] = "preempted",
	[RP_KERNEL_SLEEPING] = "sleeping",
	[RP_KERNEL_BLOCKED] = "blocked",
	[RP_KERNEL_STOPPED] = "stopped",
	[RP_KERNEL_EXITED] = "exited",
};

/* include/linux/blk_types.h: enum req_op; rare operations appear as numbers. */
static const char *const operations[] = {
	"read", "write", "flush", "discard", [5] = "secure-erase", [9] = "write-zeroes",
};

struct kernel_payload {
	uint8_t bytes[128];
	size_t size;
};

static void put(struct kernel_payload *payload, const void *bytes, size_t size)
{
	memcpy(payload->bytes + payload->size, bytes, size);
	payload->size += size;
}

static void put_u8(struct kernel_payload *payload, uint8_t value)
{
	put(payload, &value, sizeof(value));
}

static void put_u32(struct kernel_payload *payload, uint32_t value)
{
	put(payload, &value, sizeof(value));
}

static void put_u64(struct kernel_payload *payload, uint64_t value)
{
	put(payload, &value, sizeof(value));
}

static void put_string(struct kernel_payload *payload, const char *text)
{
	put(payload, text, strlen(text) + 1);
}

/* Writes the name of a system call of this program's architecture. */
static void put_syscall(struct kernel_payload *payload, int number)
{
	static char *names[1024];
	char digits[16];

	if (number >= 0 && number < (int)COUNT(names)) {
		if (!names[number])
			names[number] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
		if (names[number] && strlen(names[number]) < 32) {
			put_string(payload, names[number]);
			return;
		}
	}
	snprintf(digits, sizeof(digits), "%d", number);
	put_string(payload, digits);
}

static void put_request(struct kernel_payload *payload, const struct rp_kernel_record *record)
{
	/* The kernel's internal dev_t: 12 bits major, 20 bits minor. */
	const uint32_t device = (uint32_t)record->values[0];
	char text[32];

	snprintf(text, sizeof(text), "%u:%u", device >> 20, device & 0xfffff);
	put_string(payload, text);
	snprintf(text, sizeof(text), "%u", record->detail);
	/* A flush without data appears as an empty write. */
	if (record->detail == 1 && record->values[2] == 0)
		put_string(payload, operations[2]);
	else
		put_string(payload, record->detail < COUNT(operations) &&
			   operations[record->detail] ? operations[record->detail] : text);
	put_u64(payload, record->values[1]);
	put_u32(payload, (uint32_t)record->values[2]);
}

static void put_fault(struct kernel_payload *payload, const struct rp_kernel_record *record)
{
	put_u64(payload, record->values[0]);
	put_u64(payload, record->values[1]);
	put_u8(payload, !!(record->detail & FAULT_WRITE));
	put_u8(payload, !!(record->detail & FAULT_EXECUTE));
	put_u8(payload, !!(record->detail & FAULT_USER));
	put_u8(payload, !!(record->detail & FAULT_PRESENT));
}

static void put_fields(struct kernel_payload *payload, const struct rp_kernel_record *record)
{
	put(payload, &record->processor, sizeof(record->processor));
	switch (record->kind) {
	case RP_KERNEL_SWITCH_OUT:
		put_string(payload, reasons[record->detail]);
		break;
	case RP_KERNEL_SWITCH_IN:
		put_string(payload, reasons[record->detail]);
		put_u64(payload, record->values[0]);
		break;
	case RP_KERNEL_PAGE_FAULT:
		put_fault(payload, record);
		break;
	case RP_KERNEL_BLOCK_REQUEST:
		put_request(payload, record);
		break;
	case RP_KERNEL_BLOCK_COMPLETE:
		put_request(payload, record);
		put_u64(payload, record->values[3]);
		put_u8(payload, record->failed);
		break;
	case RP_KERNEL_SYSCALL_ENTER:
		put_u32(payload, (uint32_t)record->values[0]);
		put_syscall(payload, (int)record->values[0]);
		break;
	case RP_KERNEL_SYSCALL_EXIT:
		put_u32(payload, (uint32_t)record->values[0]);
		put_syscall(payload, (int)record->values[0]);
		put_u64(payload, record->values[1]);
		put_u64(payload, record->values[2]);
		break;
	}
}

/* Emits the losses since the last mark as one event with this mark's time. */
static int emit_lost(struct rp_emit_kernel *emit, const struct rp_kernel_record *mark)
{
	const uint64_t count = mark->values[0] - emit->lost;
	struct kernel_payload payload = { .size = 0 };
	const struct rp_kernel_inject_event event = {
		.definition = LOST,
		.lost = (uint32_t)count,
		.time_ns = emit->mark_ns,
		.thread = RP_KERNEL_INJECT_THREAD,
		.payload = payload.bytes,
		.payload_bytes = 2 * sizeof(uint64_t),
	};

	if (!count)
		return 0;
	emit->lost = mark->values[0];
	put_u64(&payload, count);
	put_u64(&payload, emit->lost);
	return rp_kernel_inject_put(emit->inject, &event);
}

int rp_emit_kernel_record(struct rp_emit_kernel *emit, const struct rp_kernel_record *record)
{
	const uint64_t time_ns = record->time_ns + (uint64_t)emit->clock_offset_ns;
	struct kernel_payload payload = { .size = 0 };
	struct rp_kernel_inject_event event = {
		.definition = record->kind,
		.time_ns = time_ns,
		.thread = record->thread,
		.processor = record->processor,
		.payload = payload.bytes,
	};

	if (record->kind == RP_KERNEL_MARK) {
		emit->mark_ns = time_ns;
		return emit_lost(emit, record);
	}
	put_fields(&payload, record);
	event.payload_bytes = payload.size;
	return rp_kernel_inject_put(emit->inject, &event);
}

int rp_emit_kernel_init(struct rp_emit_kernel *emit, int64_t clock_offset_ns)
{
	*emit = (struct rp_emit_kernel){ .clock_offset_ns = clock_offset_ns };
	return rp_kernel_inject_create(definitions, COUNT(definitions), &emit->inject);
}

void rp_emit_kernel_fini(struct rp_emit_kernel *emit)
{
	rp_kernel_inject_destroy(emit->inject);
}
