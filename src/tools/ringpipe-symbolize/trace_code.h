/* SPDX-License-Identifier: MIT */
/*
 * The code in the stacks of a trace: mappings of files, and addresses that have no name yet. Events
 * of Universal.System describe both; machine_trace.c in ringpipe-record names the source.
 */
#ifndef RP_SYMBOLIZE_TRACE_CODE_H
#define RP_SYMBOLIZE_TRACE_CODE_H

#include <ringpipe/reader.h>

#include "host/symbols.h"
#include "nettrace/thread_table.h"

/* An address of an ELF file that a stack has. */
struct rp_code_asked {
	uint64_t address;
	bool is_return;			/* the call is the instruction before it */
};

/* A file that processes had mapped: the one with this build id, or, if it has none, this path. */
struct rp_code_file {
	char *path;			/* where it was */
	uint8_t build_id[RP_BUILD_ID_MAX];
	uint32_t build_id_bytes;	/* 0: unknown */
	struct rp_code_asked *asked;	/* each once, sorted */
	size_t asked_count, asked_capacity;
};

struct rp_code_mapping {
	uint64_t process;
	uint64_t start, end;		/* end: exclusive */
	uint64_t id, metadata_id;
	uint64_t bias;			/* an address minus this is one of the ELF file */
	char *path;
	uint64_t file_offset;
	size_t file;			/* index; SIZE_MAX: not of an ELF file */
};

struct rp_code_address {
	uint64_t process, address;
	bool is_return;			/* as in struct rp_code_asked */
};

struct rp_trace_code {
	bool is_renamed;		/* also ask for addresses of files that have names */
	struct rp_code_file *files;
	size_t file_count, file_capacity;
	struct rp_code_mapping *mappings;	/* sorted by process and start, in the end */
	size_t mapping_count, mapping_capacity;
	struct rp_code_metadata *metadata;
	size_t metadata_count, metadata_capacity;
	struct rp_code_address *addresses;	/* to name; sorted, each once, in the end */
	size_t address_count, address_capacity, address_merged;
	struct rp_code_function *functions;	/* that the trace names */
	size_t function_count, function_capacity;
	uint64_t last_id;		/* of mappings and functions */
};

/* Add what an event contains. 0; -ENOMEM. */
int rp_trace_code_take(struct rp_trace_code *code, const struct rp_reader_info *info,
		       const struct rp_reader_event *event);

/* Call it after the last event: find the files, and what has to be asked of each. 0; -ENOMEM. */
int rp_trace_code_finish(struct rp_trace_code *code);

/* Find the mapping of an address. NULL: none. */
const struct rp_code_mapping *rp_trace_code_find(const struct rp_trace_code *code,
						 const struct rp_code_address *address);

void rp_trace_code_fini(struct rp_trace_code *code);

#endif
