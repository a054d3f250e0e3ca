/* SPDX-License-Identifier: MIT */
/* Finds the functions of a trace's code in files on this machine. */
#ifndef RP_SYMBOLIZE_CODE_NAMES_H
#define RP_SYMBOLIZE_CODE_NAMES_H

#include <stdbool.h>

#include "tools/ringpipe-symbolize/trace_code.h"
#include "tools/trace/trace_convert.h"

struct rp_code_names {
	const struct rp_trace_code *code;
	const char *directories;	/* to search first, with ':' between them; or NULL */
	bool (*is_over)(void *data);	/* called at intervals; true: stop the search */
	void *data;			/* its argument */
	bool has_inlines;		/* names state inlined functions */
	struct rp_file_names *files;	/* one for each file of the code */
	uint64_t functions;		/* added to the trace */
	uint64_t named, nameless;	/* addresses in stacks */
};

/*
 * Look up the names of all addresses that were added, file by file. A file is searched for in the
 * directories, at its path, in the system's directory of debug files, and then on the servers in
 * DEBUGINFOD_URLS. Return: 0; -ENOMEM.
 */
int rp_code_names_find(struct rp_code_names *names);

/*
 * Return: whether names that were found replace those of the trace for a function that starts
 * there.
 */
bool rp_code_names_replace(const struct rp_code_names *names, uint64_t process, uint64_t start);

/* Add the functions to a trace. Return: as rp_trace_convert_add_function(). */
int rp_code_names_add(struct rp_code_names *names, struct rp_trace_convert *convert);

/* Return: how many addresses of a file have no name. `ret_is_found`: a file with its build id. */
size_t rp_code_names_missing(const struct rp_code_names *names, size_t file, bool *ret_is_found);

void rp_code_names_fini(struct rp_code_names *names);

#endif
