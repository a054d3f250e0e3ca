/* SPDX-License-Identifier: MIT */
/*
 * The names that a trace has for processes and addresses, from its events of the provider
 * Universal.System and from those of the .NET runtime about methods.
 *
 * A trace reports a mapping before the first stack that needs it, or, in a trace of one process, at
 * the end. At a given time, an address therefore belongs to the mapping that was reported last
 * before that time, or else to the mapping that was reported first afterwards. A process id that is
 * used again after ProcessExit belongs to another process, whose mappings are its own.
 *
 * The memory is bounded: of mappings, functions and build ids together, the first RP_SYMBOLS_MAX
 * are used, and `ignored` counts the others.
 */
#ifndef RP_TOOL_TRACE_SYMBOLS_H
#define RP_TOOL_TRACE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/trace/text_pool.h"
#include "tools/trace/time_range.h"
#include "tools/trace/processes.h"

#define RP_SYMBOLS_MAX (4u << 20)

struct rp_symbol_range;
struct rp_symbol_process;

struct rp_symbol_ranges {
	struct rp_symbol_range *rows;	/* by process and start after rp_symbols_sort() */
	size_t count, capacity;
};

/* Initialise it with zeros. */
struct rp_symbols {
	struct rp_symbol_ranges mappings, functions, metadata;
	struct rp_symbol_process *processes;	/* in the order of their events */
	size_t process_count, process_capacity;
	struct rp_symbol_range **by_id;	/* the mappings by their ids */
	uint64_t ignored;
	struct rp_text_pool texts;
	struct rp_processes tree;
};

/* The names of an address. Texts are valid until rp_symbols_fini(). */
struct rp_symbol {
	const char *function;		/* NULL: unknown */
	uint64_t function_start;
	const char *file;		/* NULL: unknown; the kernel is "vmlinux" */
	uint64_t file_offset;		/* of the address */
	uint64_t mapping_start;
	const char *build_id;		/* in hexadecimal; NULL: unknown */
	bool is_constant;		/* it is the same at any time */
};

/* Called with each event. Return: 0, or an error that ends the reading. */
typedef int (*rp_symbols_visit)(const struct rp_reader_event *event, void *data);

/*
 * Add the names that an event contains. Damaged events and those of other providers are ignored.
 * Return: 0; -ENOMEM.
 */
int rp_symbols_take(struct rp_symbols *symbols, const struct rp_reader_event *event);

/* Prepare for lookups. Call it after the last event. Return: 0; -ENOMEM. */
int rp_symbols_sort(struct rp_symbols *symbols);

/*
 * Read the file at `path`, which may be compressed, and prepare for lookups. The reader skips
 * damage. The function prints why a file cannot be opened.
 * @range: the times of the events to visit; names are read at any time. The function reads only the
 *	blocks that have them if the file's index is stored.
 * @visit: sees each event of the range, and the others that describe events; or NULL.
 * Return: 0; -errno of rp_input_open(); what `visit` returned; -ENOMEM.
 */
int rp_symbols_read(struct rp_symbols *symbols, const char *path,
		    const struct rp_time_range *range, rp_symbols_visit visit, void *data);

/* Look up an address of a process at a time of the trace; `ret_symbol` has what is known. */
void rp_symbols_resolve(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns,
			uint64_t address, struct rp_symbol *ret_symbol);

/*
 * Call `visit` for each mapping of a file whose build id is known, with the name of the file and
 * its build id in hexadecimal.
 */
void rp_symbols_each_build_id(const struct rp_symbols *symbols,
			      void (*visit)(const char *file, const char *build_id, void *data),
			      void *data);

/*
 * Return: the name of a process at a time of the trace, or else its first later name; after the end
 * of the process, its last name; NULL: the trace has none. Valid until rp_symbols_fini().
 */
const char *rp_symbols_process(const struct rp_symbols *symbols, uint64_t process,
			       int64_t time_ns);

/*
 * A life of a process id is one process that had the id; the first one is 0.
 * Return: the life that the time belongs to; until the next process gets the id, the one before.
 */
uint32_t rp_symbols_life(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns);

/*
 * Return: the last name of a life up to a time of the trace, or else what rp_symbols_process()
 * returns. Valid until rp_symbols_fini().
 */
const char *rp_symbols_life_name(const struct rp_symbols *symbols, uint64_t process, uint32_t life,
				 int64_t time_ns);

/*
 * Replace the name of each function by what `render` returns, which is a text for free(), or NULL
 * without memory. Return: 0; -ENOMEM.
 */
int rp_symbols_render(struct rp_symbols *symbols, char *(*render)(const char *name, void *data),
		      void *data);

/*
 * Whether RP_EVENT generated the function (PROVIDER_EVENT_write_): such a frame can be left out,
 * since its caller's frame says the same. Suffixes of compilers and mangled C++ names are
 * recognised.
 */
bool rp_symbol_is_generated(const char *function);

void rp_symbols_fini(struct rp_symbols *symbols);

#endif
