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

#include <ringpipe/types.h>

#include "base/utf.h"
#include "host/generated_code.h"
#include "host/mappings.h"
#include "host/identity.h"
#include "host/resolve.h"
#include "host/uleb.h"

/* At most three integers and a path, with some reserve. */
#define PAYLOAD_BYTES (PATH_MAX + 256u)

/*
 * A stack that was cut ends with RP_FRAME_CUT (ringpipe/types.h), an address in the first page,
 * where nothing is mapped. The rundown has a symbol for it, so that viewers show why a stack ends.
 * TraceEvent drops symbols outside of all mappings, so the rundown also has a mapping for it, which
 * has no file. The range begins below RP_FRAME_CUT, because some readers look up the byte before a
 * return address. Only this mapping and this symbol have the id CUT_ID.
 */
#define CUT_NAME "[cut: unwind rules not cached yet]"
#define CUT_START (RP_FRAME_CUT & ~0xffu)
#define CUT_END (CUT_START + 0x100u)
#define CUT_ID UINT32_MAX

struct rp_rundown {
	bool reported_process, reported_metadata;
	bool symbols_are_due;
	enum rp_rundown_id offered;	/* the record that rp_rundown_next() last returned */
	size_t index;			/* the next mapping to return */
	bool has_cut;			/* a stack was cut */
	bool reported_cut_mapping, reported_cut_symbol;
	size_t record;			/* offset of the next record of `resolve` to return */
	bool offers_resolved;		/* the record that rp_rundown_next() last returned is it */
	struct rp_resolve *resolve;
	struct rp_rundown_result result;
	uint32_t payload_bytes;
	uint8_t payload[PAYLOAD_BYTES];
};

static void put_text(struct rp_rundown *rundown, const char *text)
{
	size_t space = sizeof(rundown->payload) - rundown->payload_bytes - 2;
	size_t size = strnlen(text, space);
	uint16_t length = (uint16_t)size;
	uint8_t *at = rundown->payload + rundown->payload_bytes;

	memcpy(at, &length, sizeof(length));
	memcpy(at + 2, text, size);
	/* A file name may contain any bytes. */
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
	rp_generated_code_hold();
	*ret_rundown = rundown;
	return 0;
}

void rp_rundown_destroy(struct rp_rundown *rundown)
{
	if (!rundown)
		return;
	rp_resolve_destroy(rundown->resolve);
	rp_generated_code_release();
	rp_mappings_release();
	free(rundown);
}

void rp_rundown_look(struct rp_rundown *rundown)
{
	(void)rundown;
	rp_mappings_refresh();
}

static void lay_out_cut_mapping(struct rp_rundown *rundown)
{
	put_number(rundown, CUT_ID);
	put_number(rundown, CUT_START);
	put_number(rundown, CUT_END);
	put_number(rundown, 0);
	put_text(rundown, "");
	put_number(rundown, 0);
}

static void lay_out_cut_symbol(struct rp_rundown *rundown)
{
	put_number(rundown, CUT_ID);
	put_number(rundown, CUT_ID);
	put_number(rundown, CUT_START);
	put_number(rundown, CUT_END - 1);
	put_text(rundown, CUT_NAME);
}

static bool next_resolved(struct rp_rundown *rundown, struct rp_rundown_record *ret_record)
{
	const void *payload;
	size_t size;

	if (!rundown->symbols_are_due)
		return false;
	payload = rp_resolve_record(rundown->resolve, rundown->record, &rundown->offered, &size);
	if (!payload)
		return false;
	*ret_record = (struct rp_rundown_record){ rundown->offered, (uint32_t)size, payload };
	rundown->offers_resolved = true;
	return true;
}

bool rp_rundown_next(struct rp_rundown *rundown, struct rp_rundown_record *ret_record)
{
	const struct rp_mapping *mapping = rp_mappings_at(rundown->index);

	rundown->payload_bytes = 0;
	rundown->offers_resolved = false;
	if (!rundown->reported_process) {
		rundown->offered = RP_RUNDOWN_PROCESS;
		lay_out_process(rundown);
	} else if (!mapping && rundown->has_cut && !rundown->reported_cut_mapping) {
		rundown->offered = RP_RUNDOWN_MAPPING;
		lay_out_cut_mapping(rundown);
	} else if (!mapping && rundown->has_cut && !rundown->reported_cut_symbol) {
		rundown->offered = RP_RUNDOWN_SYMBOL;
		lay_out_cut_symbol(rundown);
	} else if (!mapping) {
		return next_resolved(rundown, ret_record);
	} else if (!rundown->reported_metadata) {
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

void rp_rundown_reported(struct rp_rundown *rundown)
{
	if (rundown->offers_resolved) {
		rundown->record = rp_resolve_after(rundown->resolve, rundown->record);
		return;
	}
	switch (rundown->offered) {
	case RP_RUNDOWN_PROCESS:
		rundown->reported_process = true;
		break;
	case RP_RUNDOWN_METADATA:
		rundown->reported_metadata = true;
		break;
	case RP_RUNDOWN_MAPPING:
		if (!rundown->reported_metadata) {
			rundown->reported_cut_mapping = true;
			break;
		}
		rundown->reported_metadata = false;
		rundown->index++;
		break;
	case RP_RUNDOWN_SYMBOL:
		rundown->reported_cut_symbol = true;
		break;
	}
}

int rp_rundown_start(struct rp_rundown *rundown, const struct rp_address *addresses, size_t count,
		     uint64_t more)
{
	for (size_t i = 0; i < count; i++)
		rundown->has_cut |= addresses[i].address == RP_FRAME_CUT;
	rundown->result.addresses = (uint32_t)(count + more);
	rundown->result.left_out = (uint32_t)(count + more - rundown->has_cut);
	rundown->result.symbols = rundown->has_cut;
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
	rundown->result.symbols += result.symbols;
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
