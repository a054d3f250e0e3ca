/* SPDX-License-Identifier: MIT */
/*
 * Payloads of Universal.System, as TraceEvent reads them: integers are ULEB128, strings a u16 of
 * bytes and UTF-8.
 *
 *	ExistingProcess		process id, name, name of the namespace
 *	ProcessMapping		id, start, end (exclusive), file offset, file, id of the metadata
 *	ProcessMappingMetadata	id, JSON of the symbols, JSON of the version
 *	ProcessSymbol		id, id of the mapping, start, end (inclusive; once exclusive), name
 *
 * Source: UniversalSystemTraceEventParser.cs in the repository microsoft/perfview.
 */
#include "host/rundown.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf.h"
#include "host/mappings.h"
#include "host/process.h"
#include "host/resolve.h"
#include "host/uleb.h"

/* Three integers at most, a path, and a bit. */
#define PAYLOAD_BYTES (PATH_MAX + 256u)

struct rp_rundown {
	bool told_process, told_metadata;
	bool symbols_are_due;
	enum rp_rundown_id offered;	/* by the last rp_rundown_next() */
	size_t index;			/* of the mapping to tell next */
	size_t symbol;			/* offset of the symbol to tell next */
	struct rp_resolve *resolve;
	struct rp_rundown_result result;
	uint32_t payload_bytes;
	uint8_t payload[PAYLOAD_BYTES];
};

static void put_text(struct rp_rundown *rundown, const char *text)
{
	size_t room = sizeof(rundown->payload) - rundown->payload_bytes - 2;
	size_t size = strnlen(text, room);
	uint16_t length = (uint16_t)size;
	uint8_t *at = rundown->payload + rundown->payload_bytes;

	memcpy(at, &length, sizeof(length));
	memcpy(at + 2, text, size);
	/* A file's name is bytes of any kind. */
	if (!rp_utf8_is_valid(text, size)) {
		for (size_t i = 0; i < size; i++)
			at[2 + i] = at[2 + i] < 0x80 ? at[2 + i] : '?';
	}
	rundown->payload_bytes += 2 + (uint32_t)size;
}

static void put_number(struct rp_rundown *rundown, uint64_t value)
{
	rundown->payload_bytes += rp_uleb_put(rundown->payload + rundown->payload_bytes, value);
}

static void lay_out_process(struct rp_rundown *rundown)
{
	char name[RP_PROCESS_NAME_BYTES];

	rp_process_name(name);
	put_number(rundown, (uint64_t)getpid());
	put_text(rundown, name);
	put_text(rundown, "");
}

static void lay_out_mapping(struct rp_rundown *rundown, const struct rp_mapping *mapping)
{
	put_number(rundown, mapping->id);
	put_number(rundown, mapping->start);
	put_number(rundown, mapping->end);
	put_number(rundown, mapping->file_offset);
	put_text(rundown, mapping->path);
	put_number(rundown, mapping->id);
}

static void lay_out_metadata(struct rp_rundown *rundown, const struct rp_mapping *mapping)
{
	char build_id[2 * RP_BUILD_ID_MAX + 1] = "", json[256];

	for (uint32_t i = 0; i < mapping->build_id_bytes; i++)
		snprintf(build_id + 2 * i, 3, "%02x", mapping->build_id[i]);
	snprintf(json, sizeof(json),
		 "{\"type\":\"ELF\",\"build_id\":\"%s\","
		 "\"p_vaddr\":\"0x%llx\",\"p_offset\":\"0x%llx\"}",
		 build_id, (unsigned long long)mapping->vaddr,
		 (unsigned long long)mapping->offset);
	put_number(rundown, mapping->id);
	put_text(rundown, json);
	put_text(rundown, "");
}

int rp_rundown_create(struct rp_rundown **ret_rundown)
{
	struct rp_rundown *rundown = calloc(1, sizeof(*rundown));

	if (!rundown)
		return -ENOMEM;
	rp_mappings_hold();
	*ret_rundown = rundown;
	return 0;
}

void rp_rundown_destroy(struct rp_rundown *rundown)
{
	if (!rundown)
		return;
	rp_resolve_destroy(rundown->resolve);
	rp_mappings_release();
	free(rundown);
}

void rp_rundown_look(struct rp_rundown *rundown)
{
	(void)rundown;
	rp_mappings_refresh();
}

static bool next_symbol(struct rp_rundown *rundown, struct rp_rundown_record *ret_record)
{
	const void *payload;
	size_t size;

	if (!rundown->symbols_are_due)
		return false;
	payload = rp_resolve_symbol(rundown->resolve, rundown->symbol, &size);
	if (!payload)
		return false;
	rundown->offered = RP_RUNDOWN_SYMBOL;
	*ret_record = (struct rp_rundown_record){ RP_RUNDOWN_SYMBOL, (uint32_t)size, payload };
	return true;
}

bool rp_rundown_next(struct rp_rundown *rundown, struct rp_rundown_record *ret_record)
{
	const struct rp_mapping *mapping = rp_mappings_at(rundown->index);

	rundown->payload_bytes = 0;
	if (!rundown->told_process) {
		rundown->offered = RP_RUNDOWN_PROCESS;
		lay_out_process(rundown);
	} else if (!mapping) {
		return next_symbol(rundown, ret_record);
	} else if (!rundown->told_metadata) {
		rundown->offered = RP_RUNDOWN_METADATA;
		lay_out_metadata(rundown, mapping);
	} else {
		rundown->offered = RP_RUNDOWN_MAPPING;
		lay_out_mapping(rundown, mapping);
	}
	*ret_record = (struct rp_rundown_record){
		rundown->offered, rundown->payload_bytes, rundown->payload,
	};
	return true;
}

void rp_rundown_told(struct rp_rundown *rundown)
{
	switch (rundown->offered) {
	case RP_RUNDOWN_PROCESS:
		rundown->told_process = true;
		break;
	case RP_RUNDOWN_METADATA:
		rundown->told_metadata = true;
		break;
	case RP_RUNDOWN_MAPPING:
		rundown->told_metadata = false;
		rundown->index++;
		break;
	case RP_RUNDOWN_SYMBOL:
		rundown->symbol = rp_resolve_after(rundown->resolve, rundown->symbol);
		break;
	}
}

int rp_rundown_start(struct rp_rundown *rundown, const struct rp_address *addresses, size_t count,
		     uint64_t more)
{
	rundown->result.addresses = (uint32_t)(count + more);
	rundown->result.left_out = (uint32_t)(count + more);
	rundown->result.note = more ? "too many addresses" : "";
	return rp_resolve_start(addresses, count, &rundown->resolve);
}

bool rp_rundown_is_busy(struct rp_rundown *rundown)
{
	struct rp_resolve_result result;

	if (!rundown->resolve || rundown->symbols_are_due)
		return false;
	if (rp_resolve_is_busy(rundown->resolve))
		return true;
	if (rp_resolve_end(rundown->resolve, &result) != 0) {
		rundown->resolve = NULL;
		rundown->result.note = "the symbols could not be read in time";
		return false;
	}
	rundown->symbols_are_due = true;
	rundown->result.time_ms = result.time_ms;
	rundown->result.symbols = result.symbols;
	rundown->result.left_out -= result.named;
	rundown->result.bytes = result.bytes;
	if (*result.note)
		rundown->result.note = result.note;
	return false;
}

void rp_rundown_result(const struct rp_rundown *rundown, struct rp_rundown_result *ret_result)
{
	*ret_result = rundown->result;
}
