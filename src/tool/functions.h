/* SPDX-License-Identifier: MIT */
/* The names of functions that a recording tells at its end, for the stacks before it. */
#ifndef RP_TOOL_FUNCTIONS_H
#define RP_TOOL_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

struct rp_function {
	uint64_t start, last;
	size_t told;			/* the how manieth, of those with one start */
	char *json;			/* its name as a JSON string */
};

struct rp_functions {
	struct rp_function *items;	/* by start */
	size_t count, room;
};

/*
 * Reads the file at `path` through, as far as it is whole. None is fine. -ENOMEM; call
 * rp_functions_fini() in any case.
 */
int rp_functions_read(const char *path, struct rp_functions *ret_functions);
void rp_functions_fini(struct rp_functions *functions);

/* The name, as a JSON string, of the function that holds the address; NULL: nobody told. */
const char *rp_functions_find(const struct rp_functions *functions, uint64_t address);

#endif
