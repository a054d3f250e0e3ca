/* SPDX-License-Identifier: MIT */
/* The executable mappings of one process, sorted by address. */
#ifndef RP_RECORD_ADDRESS_SPACE_H
#define RP_RECORD_ADDRESS_SPACE_H

#include <stddef.h>
#include <stdint.h>

struct rp_image;

struct rp_mapped {
	uint64_t start, end;		/* end is exclusive */
	uint64_t file_offset;
	struct rp_image *image;		/* NULL: there is no file, as for generated code */
	uint32_t id;			/* of the mapping in the trace; 0: not in the trace yet */
};

#define RP_ADDRESS_SPACE_MAX 8192u		/* mappings */
#define RP_ADDRESS_SPACE_COPY_MAX 1024u	/* of a child process; there may be thousands of these */

struct rp_address_space {
	struct rp_mapped *mapped;
	size_t count, capacity;
};

/*
 * Add a mapping; it replaces what was mapped there before. The kernel does not report the end of
 * mappings, so those beyond RP_ADDRESS_SPACE_MAX replace others that no stack has used. 0; -ENOMEM.
 */
int rp_address_space_add(struct rp_address_space *space, const struct rp_mapped *mapped);

/* Return: NULL if nothing executable is mapped there. Valid until the next mapping is added. */
struct rp_mapped *rp_address_space_find(const struct rp_address_space *space, uint64_t address);

/*
 * Make `space` a copy of `from`, as fork(2) does. Above RP_ADDRESS_SPACE_COPY_MAX, it has those
 * that stacks have used, and one for each file. 0; -ENOMEM.
 */
int rp_address_space_copy(struct rp_address_space *space, const struct rp_address_space *from);

void rp_address_space_clear(struct rp_address_space *space);
void rp_address_space_fini(struct rp_address_space *space);

#endif
