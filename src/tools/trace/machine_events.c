/* SPDX-License-Identifier: MIT */
#include "tools/trace/machine_events.h"

#include "tools/trace/machine_clock.h"

#define SYSTEM(name_, id_) { .provider = "Universal.System", .name = name_, .id = id_ }
#define EVENTS(name_, id_) { .provider = "Universal.Events", .name = name_, .id = id_ }
#define STRING(name_) { .name = name_, .type = RP_TYPE_STRING }

static const struct rp_field info_fields[] = {
	STRING("CommandLine"), STRING("OSInformation"), STRING("ArchInformation"),
};

static const struct rp_field wait_fields[] = {
	{ "duration_ns", .type = RP_TYPE_U64 },
	{ "runnable_ns", .type = RP_TYPE_U64 },
	{ "state", .type = RP_TYPE_U32 },
	{ "waker_process", .type = RP_TYPE_U32 },
	{ "waker_thread", .type = RP_TYPE_U64 },
	{ "previous_process", .type = RP_TYPE_U32 },
	{ "previous_thread", .type = RP_TYPE_U64 },
	{ "previous_ns", .type = RP_TYPE_U64 },
	STRING("previous_name"),
};

static const struct rp_field waking_fields[] = {
	{ "woken_process", .type = RP_TYPE_U32 },
	{ "woken_thread", .type = RP_TYPE_U64 },
	{ "waited_ns", .type = RP_TYPE_U64 },
};

static const struct rp_field syscall_fields[] = {
	{ "number", .type = RP_TYPE_U32 },
	STRING("name"),
	{ "result", .type = RP_TYPE_I64 },
	{ "duration_ns", .type = RP_TYPE_U64 },
	{ "argument0", .type = RP_TYPE_U64 }, { "argument1", .type = RP_TYPE_U64 },
	{ "argument2", .type = RP_TYPE_U64 }, { "argument3", .type = RP_TYPE_U64 },
	{ "argument4", .type = RP_TYPE_U64 }, { "argument5", .type = RP_TYPE_U64 },
	STRING("file"),
};

static const struct rp_field futex_fields[] = {
	{ "address", .type = RP_TYPE_POINTER },
	{ "result", .type = RP_TYPE_I64 },
	{ "duration_ns", .type = RP_TYPE_U64 },
	{ "waker_process", .type = RP_TYPE_U32 },
	{ "waker_thread", .type = RP_TYPE_U64 },
};

static const struct rp_field fault_fields[] = {
	{ "address", .type = RP_TYPE_POINTER }, { "is_write", .type = RP_TYPE_BOOL },
	{ "is_major", .type = RP_TYPE_BOOL }, { "duration_ns", .type = RP_TYPE_U64 },
};

static const struct rp_field block_fields[] = {
	{ "major", .type = RP_TYPE_U32 }, { "minor", .type = RP_TYPE_U32 },
	STRING("operation"),
	{ "sector", .type = RP_TYPE_U64 },
	{ "bytes", .type = RP_TYPE_U32 },
	{ "status", .type = RP_TYPE_I32 },
	{ "duration_ns", .type = RP_TYPE_U64 },
	STRING("device"),
};

static const struct rp_field interrupt_fields[] = {
	STRING("kind"),
	{ "number", .type = RP_TYPE_U32 },
	STRING("name"),
	{ "is_handled", .type = RP_TYPE_BOOL },
	{ "duration_ns", .type = RP_TYPE_U64 },
	{ "processor", .type = RP_TYPE_U32 },
};

static const struct rp_field loss_fields[] = {
	STRING("reason"), { "lost", .type = RP_TYPE_U64 },
};

static const struct rp_field machine_fields[] = {
	STRING("host"), STRING("boot_id"),
};

static const struct rp_field clock_fields[] = {
	{ "monotonic_ns", .type = RP_TYPE_U64 },
	{ "utc_ns", .type = RP_TYPE_I64 },
	{ "boottime_ns", .type = RP_TYPE_U64 },
	{ "uncertainty_ns", .type = RP_TYPE_U64 },
};

static const struct rp_field suspend_fields[] = {
	{ "duration_ns", .type = RP_TYPE_U64 },
};

static const struct rp_field groups_fields[] = {
	STRING("groups"), { "threshold_ns", .type = RP_TYPE_U64 },
};

static const struct rp_field attribute_fields[] = {
	{ "published_ns", .type = RP_TYPE_U64 },
	STRING("key"), STRING("value"), STRING("type"),
};

#define MACHINE(name_, id_, fields_) { \
	.provider = RP_MACHINE_PROVIDER, .name = name_, .id = id_, \
	.level = RP_LEVEL_INFORMATIONAL, .fields = fields_, \
	.field_count = sizeof(fields_) / sizeof(fields_[0]), \
}

const struct rp_definition rp_machine_definitions[RP_MACHINE_EVENT_COUNT] = {
	[RP_MACHINE_EXISTING_PROCESS] = SYSTEM("ExistingProcess", 0),
	[RP_MACHINE_PROCESS_CREATE] = SYSTEM("ProcessCreate", 1),
	[RP_MACHINE_PROCESS_EXIT] = SYSTEM("ProcessExit", 2),
	[RP_MACHINE_MAPPING] = SYSTEM("ProcessMapping", 3),
	[RP_MACHINE_FUNCTION] = SYSTEM("ProcessSymbol", 4),
	[RP_MACHINE_METADATA] = SYSTEM("ProcessMappingMetadata", 5),
	[RP_MACHINE_SAMPLE] = EVENTS("cpu", 1),
	[RP_MACHINE_WAIT] = EVENTS("cswitch", 2),
	[RP_MACHINE_PROCESS_INFO] = {
		.provider = "Microsoft-DotNETCore-EventPipe", .name = "ProcessInfo", .id = 1,
		.version = 1, .fields = info_fields, .field_count = 3,
	},
	[RP_MACHINE_WAIT_DETAILS] = MACHINE("Wait", 1, wait_fields),
	[RP_MACHINE_WAKING] = MACHINE("Waking", 2, waking_fields),
	[RP_MACHINE_SYSCALL] = MACHINE("Syscall", 3, syscall_fields),
	[RP_MACHINE_FUTEX_WAIT] = MACHINE("FutexWait", 4, futex_fields),
	[RP_MACHINE_PAGE_FAULT] = MACHINE("PageFault", 5, fault_fields),
	[RP_MACHINE_BLOCK_REQUEST] = MACHINE("BlockRequest", 6, block_fields),
	[RP_MACHINE_LOSS] = MACHINE("Loss", 7, loss_fields),
	[RP_MACHINE_DESCRIPTION] = MACHINE(RP_MACHINE_EVENT_DESCRIPTION, 8, machine_fields),
	[RP_MACHINE_CLOCK] = MACHINE(RP_MACHINE_EVENT_CLOCK, 9, clock_fields),
	[RP_MACHINE_SUSPEND] = MACHINE("Suspend", 10, suspend_fields),
	[RP_MACHINE_INTERRUPT] = MACHINE("Interrupt", 11, interrupt_fields),
	[RP_MACHINE_GROUPS] = MACHINE(RP_MACHINE_EVENT_GROUPS, 12, groups_fields),
	[RP_MACHINE_ATTRIBUTE] = MACHINE(RP_MACHINE_EVENT_ATTRIBUTE, 13, attribute_fields),
};
