/* SPDX-License-Identifier: MIT */
/*
 * The executable mappings of this process: the program, its libraries, the vDSO. All streams share
 * one table. Entries stay while a stream holds the table, so that unloaded code is still known.
 */
#ifndef RP_HOST_MAPPINGS_H
#define RP_HOST_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>

#include "host/symbols.h"

enum rp_mapping_kind {
	RP_MAPPING_LIBRARY,
	RP_MAPPING_PROGRAM,
	RP_MAPPING_VDSO,
};

/* One executable segment. Never changes once it is in the table. */
struct rp_mapping {
	uint64_t id;			/* from 1 on, no other's in this process */
	uint64_t start, end;		/* end is exclusive */
	uint64_t file_offset;
	uint64_t after_ns;		/* it was not there before, on CLOCK_MONOTONIC */
	uint64_t bias;			/* an address less this is one of the file's own */
	uint64_t vaddr, offset;		/* of the segment in the file's own terms */
	enum rp_mapping_kind kind;
	uint8_t build_id[RP_BUILD_ID_MAX];
	uint32_t build_id_bytes;	/* 0: it has none */
	char path[];			/* absolute, as the loader knows it; or "[vdso]" */
};

/* Hold the table, and enter the current mappings. */
void rp_mappings_hold(void);

/* Release the table. The last release empties it. */
void rp_mappings_release(void);

/*
 * Enter new mappings, if a library was loaded or unloaded since. Does nothing while no stream holds
 * the table. Context: any thread, also a destructor of a library that is being unloaded.
 */
void rp_mappings_refresh(void);

/*
 * The mapping at `index` of the table, NULL past its end. Valid until the table is released.
 */
const struct rp_mapping *rp_mappings_at(size_t index);

/* Around fork(2): ensures that no thread missing in the child holds the loader's lock. */
void rp_mappings_fork_prepare(void);
void rp_mappings_fork_parent(void);
void rp_mappings_fork_child(void);

#endif
