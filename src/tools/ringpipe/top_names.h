/* SPDX-License-Identifier: MIT */
/*
 * The names of functions in a running process, from its mappings and the symbol tables of their
 * files. The process does nothing for it. The module of the library reads the tables; without it,
 * functions have the name of their file only. The methods of a .NET process have names of their
 * own; see top_methods.h.
 */
#ifndef RP_TOOL_TOP_NAMES_H
#define RP_TOOL_TOP_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/ringpipe/top_board.h"

struct rp_top_methods;
struct rp_top_names;

/* Samples whose innermost function is the same. Texts are valid until rp_top_names_destroy(). */
struct rp_top_function {
	const char *name;		/* NULL: unknown */
	const char *file;		/* NULL: unknown */
	uint64_t address;		/* one of the function's */
	uint64_t now, all;		/* samples of the interval, and since the start */
	bool is_method;			/* of .NET: the name has namespace, class and arguments */
};

/*
 * Prepare for the names of a process.
 * @methods: used until rp_top_names_destroy(); NULL: the process is not a .NET runtime
 * Return: 0; -ENOMEM.
 */
int rp_top_names_create(pid_t pid, struct rp_top_methods *methods, struct rp_top_names **ret_names);
void rp_top_names_destroy(struct rp_top_names *names);

/*
 * Make rows of functions from addresses, most samples of the interval first, for free(). The
 * search for names stops after a second; addresses without a name by then keep none.
 * Return: 0; -ENOMEM.
 */
int rp_top_names_group(struct rp_top_names *names, const struct rp_top_address *addresses,
		       size_t count, struct rp_top_function **ret_rows, size_t *ret_count);

#endif
