/* SPDX-License-Identifier: MIT */
/*
 * The executable mappings of this process: the program, its libraries, the vDSO. All streams share
 * one table. Entries remain while a stream holds the table, so unloaded code is still known.
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

/* One executable segment. It does not change once it is in the table. */
struct rp_mapping {
	uint64_t id;			/* from 1 on, unique in this process */
	uint64_t start, end;		/* end is exclusive */
	uint64_t file_offset;
	uint64_t after_ns;		/* CLOCK_MONOTONIC time at which it was not mapped yet */
	uint64_t bias;			/* address in memory minus ELF virtual address */
	uint64_t vaddr, offset;		/* from the segment's program header */
	enum rp_mapping_kind kind;
	uint8_t build_id[RP_BUILD_ID_MAX];
	uint32_t build_id_bytes;	/* 0: it has none */
	char path[];			/* absolute path according to the loader; or "[vdso]" */
};

/* Hold the table, and add the current mappings. */
void rp_mappings_hold(void);

/* Release the table. The last release empties it. */
void rp_mappings_release(void);

/*
 * Add new mappings, if a library was loaded or unloaded since the last call. Does nothing while no
 * stream holds the table. Context: any thread, also a destructor of a library that is being
 * unloaded.
 */
void rp_mappings_refresh(void);

/*
 * Return: the mapping at `index` of the table, or NULL past its end. Valid until the table is
 * released.
 */
const struct rp_mapping *rp_mappings_at(size_t index);

/* Handler for fork(2): ensures that no thread missing in the child holds the loader's lock. */
void rp_mappings_fork_prepare(void);
void rp_mappings_fork_parent(void);
void rp_mappings_fork_child(void);

#endif
