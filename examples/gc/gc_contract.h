/* SPDX-License-Identifier: MIT */
/*
 * The contract between the server and its collector, a component that the server loads. The
 * collector reports its collections by these functions. The server writes them as events of the
 * .NET runtime, for which tools have views, and adds what only it knows.
 */
#ifndef GC_CONTRACT_H
#define GC_CONTRACT_H

#include <stddef.h>

#include <ringpipe/component.h>

#define GC_KEYWORD 0x1u			/* of all events of collections, as in .NET */

struct gc_events {
	uint32_t size;
	uint32_t reserved;
	void (*suspend_begin)(void *data, uint32_t collection);
	void (*suspend_end)(void *data);
	void (*start)(void *data, uint32_t collection, bool is_requested);
	void (*end)(void *data, uint32_t collection);
	void (*heap_size)(void *data, uint64_t heap_bytes);
	void (*restart_begin)(void *data);
	void (*restart_end)(void *data);
};

/* The collector's functions, which it exports as "gc_functions". */
struct gc_functions {
	uint32_t size;
	uint32_t reserved;
	void (*init)(void);		/* on the main thread, before all others */
	int (*add_thread)(void);	/* register the calling thread; 0 or -1 */
	void (*remove_thread)(void);
	void *(*allocate)(size_t bytes);	/* zeroed; NULL: no memory */
	void (*collect)(void);
	uint64_t (*collections)(void);	/* since init(), as libgc counts them */
};

#endif
