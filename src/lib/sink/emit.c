/* SPDX-License-Identifier: MIT */
#include "sink/emit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "host/identity.h"

#define WAITING_BYTES (1u << 20)	/* limit of waiting output in the encoder */
#define RECORDS_AT_ONCE 4096u		/* so that the drain thread also serves other sessions */

#define STRING(field) { field, NULL, 0, RP_TYPE_STRING, 0, 0, NULL }

static const struct rp_field info_fields[] = {
	STRING("CommandLine"), STRING("OSInformation"), STRING("ArchInformation"),
};

/* Declared as in the .NET runtime. */
static const struct rp_definition info = {
	.provider = "Microsoft-DotNETCore-EventPipe",
	.name = "ProcessInfo",
	.id = 1,
	.version = 1,
	.fields = info_fields,
	.field_count = 3,
	.is_internal = true,
};

static const struct rp_field done_fields[] = {
	{ "time_ms", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
	{ "symbols", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
	{ "addresses", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
	{ "left_out", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
	{ "bytes", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	STRING("note"),
};

static const struct rp_definition done = {
	.provider = "ringpipe",
	.name = "RundownDone",
	.id = 3,
	.level = RP_LEVEL_INFORMATIONAL,
	.fields = done_fields,
	.field_count = 6,
	.is_internal = true,
};

/* Without fields: metadata cannot describe the layout of these payloads. */
static const struct rp_definition universal[] = {
	[RP_RUNDOWN_PROCESS] = {
		.provider = "Universal.System", .name = "ExistingProcess",
		.id = RP_RUNDOWN_PROCESS,
		.is_internal = true,
	},
	[RP_RUNDOWN_MAPPING] = {
		.provider = "Universal.System", .name = "ProcessMapping",
		.id = RP_RUNDOWN_MAPPING,
		.is_internal = true,
	},
	[RP_RUNDOWN_SYMBOL] = {
		.provider = "Universal.System", .name = "ProcessSymbol",
		.id = RP_RUNDOWN_SYMBOL,
		.is_internal = true,
	},
	[RP_RUNDOWN_METADATA] = {
		.provider = "Universal.System", .name = "ProcessMappingMetadata",
		.id = RP_RUNDOWN_METADATA,
		.is_internal = true,
	},
};

int rp_emit_init(struct rp_emit *emit, struct rp_encoder *encoder, bool rundown)
{
	emit->encoder = encoder;
	return rundown ? rp_rundown_create(&emit->rundown) : 0;
}

void rp_emit_fini(struct rp_emit *emit)
{
	rp_rundown_destroy(emit->rundown);
}

static int put(struct rp_emit *emit, const struct rp_encoder_event_type *type, uint64_t time_ns,
	       const void *payload, size_t payload_bytes)
{
	const struct rp_encoder_event event = {
		.type = type,
		.time_ns = time_ns,
		.thread = rp_thread_id(),
		.payload = payload,
		.payload_bytes = payload_bytes,
	};

	return rp_encoder_event(emit->encoder, &event);
}

/* Put all records. -EAGAIN: at WAITING_BYTES, or after RECORDS_AT_ONCE records. */
static int put_records(struct rp_emit *emit, uint64_t time_ns)
{
	struct rp_rundown_record record;
	size_t waiting;
	int ret = 0;

	for (unsigned int i = 0; ret == 0 && rp_rundown_next(emit->rundown, &record); i++) {
		struct rp_encoder_event_type **type = &emit->types[record.id];

		(void)rp_encoder_output(emit->encoder, &waiting);
		if (waiting >= WAITING_BYTES || i == RECORDS_AT_ONCE)
			return -EAGAIN;
		if (!*type)
			ret = rp_encoder_define(emit->encoder, &universal[record.id], type);
		if (ret == 0)
			ret = put(emit, *type, time_ns, record.payload, record.payload_bytes);
		if (ret == 0)
			rp_rundown_reported(emit->rundown);
	}
	return ret;
}

int rp_emit_mappings(struct rp_emit *emit, uint64_t time_ns)
{
	int ret;

	emit->has_stacks = true;
	if (!emit->rundown || emit->looked)
		return 0;
	rp_rundown_look(emit->rundown);
	ret = put_records(emit, time_ns);
	emit->looked = ret == 0;
	return ret;
}

void rp_emit_rest(struct rp_emit *emit)
{
	emit->looked = false;
}

/* Put ProcessInfo: the command line, the system and the architecture, one after another. */
static int put_info(struct rp_emit *emit, uint64_t time_ns)
{
	static const char *const rest[] = { RP_PROCESS_SYSTEM, RP_PROCESS_ARCHITECTURE };
	char *command_line = rp_process_command_line(), *payload = NULL;
	size_t size, rest_size = sizeof(RP_PROCESS_SYSTEM) + sizeof(RP_PROCESS_ARCHITECTURE);
	struct rp_encoder_event_type *type;
	int ret = -ENOMEM;

	if (command_line) {
		size = strlen(command_line) + 1;
		payload = realloc(command_line, size + rest_size);
	}
	if (!payload) {
		free(command_line);
		return ret;
	}
	memcpy(payload + size, rest[0], sizeof(RP_PROCESS_SYSTEM));
	memcpy(payload + size + sizeof(RP_PROCESS_SYSTEM), rest[1],
	       sizeof(RP_PROCESS_ARCHITECTURE));
	ret = rp_encoder_define(emit->encoder, &info, &type);
	if (ret == 0)
		ret = put(emit, type, time_ns, payload, size + rest_size);
	free(payload);
	return ret;
}

static int put_result(struct rp_emit *emit, uint64_t time_ns)
{
	struct rp_rundown_result result;
	struct rp_encoder_event_type *type;
	uint32_t numbers[4];
	char payload[512];
	int ret = rp_encoder_define(emit->encoder, &done, &type);

	if (ret != 0)
		return ret;
	rp_rundown_result(emit->rundown, &result);
	numbers[0] = result.time_ms;
	numbers[1] = result.symbols;
	numbers[2] = result.addresses;
	numbers[3] = result.left_out;
	memcpy(payload, numbers, 16);
	memcpy(payload + 16, &result.bytes, 8);
	strncpy(payload + 24, result.note, sizeof(payload) - 25);
	payload[sizeof(payload) - 1] = '\0';
	return put(emit, type, time_ns, payload, 24 + strlen(payload + 24) + 1);
}

static enum rp_emit_stage begin_symbols(struct rp_emit *emit)
{
	const struct rp_address *addresses;
	uint64_t more;
	size_t count;

	if (!emit->rundown || !emit->has_stacks)
		return RP_EMIT_DONE;
	rp_rundown_look(emit->rundown);
	addresses = rp_encoder_addresses(emit->encoder, &count, &more);
	rp_rundown_start(emit->rundown, addresses, count, more);
	return RP_EMIT_WAIT;
}

int rp_emit_end(struct rp_emit *emit, uint64_t time_ns)
{
	int ret = 0;

	while (ret == 0 && emit->stage != RP_EMIT_DONE) {
		switch (emit->stage) {
		case RP_EMIT_PROCESS:
			ret = put_info(emit, time_ns);
			if (ret == 0)
				emit->stage = begin_symbols(emit);
			break;
		case RP_EMIT_WAIT:
			if (rp_rundown_is_busy(emit->rundown))
				return -EAGAIN;
			emit->stage = RP_EMIT_RECORDS;
			break;
		case RP_EMIT_RECORDS:
			ret = put_records(emit, time_ns);
			if (ret == 0)
				emit->stage = RP_EMIT_RESULT;
			break;
		case RP_EMIT_RESULT:
			ret = put_result(emit, time_ns);
			if (ret == 0)
				emit->stage = RP_EMIT_DONE;
			break;
		case RP_EMIT_DONE:
			break;
		}
	}
	return ret;
}
