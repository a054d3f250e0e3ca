/* SPDX-License-Identifier: MIT */
/*
 * Provisional: this header may still change in ways that need programs to be rebuilt.
 *
 * Functions of the host program for its diagnostics clients.
 */
#ifndef RINGPIPE_HOST_H
#define RINGPIPE_HOST_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/*
 * Sets an environment variable for a client, or removes it if `value` is NULL. `name` is not empty
 * and contains no '='. Both strings are valid during the call only.
 *
 * Context: the thread that serves clients: the library's, all signals masked, or the program's that
 * calls rp_diagnostics_dispatch(). No client is served meanwhile.
 * Return: 0, or -errno, which the client gets as an error.
 */
typedef int (*rp_host_environment_callback)(const char *name, const char *value, void *data);

/*
 * Let clients change the environment while the program runs. setenv(3) is unsafe while another
 * thread calls getenv(3), and only the program knows when no thread does. Without a callback, the
 * library therefore refuses, except while the program's start-up is suspended. NULL removes the
 * callback; a call of it that has begun may end after this function returns.
 * @callback: the callback, or NULL.
 * @data: an argument for each call of it.
 *
 * Context: any thread; not a signal handler; in the callback, too.
 */
RP_PUBLIC void rp_host_set_environment_callback(rp_host_environment_callback callback, void *data);

/*
 * Register generated code, `bytes` from `address` on. perf(1) can then name it while a client has
 * perf maps enabled, now or later. The code must stay readable until rp_code_remove(). It
 * replaces an earlier registration of the address. The name is copied; control characters in it
 * become '?'.
 * @name: the name of the function, for a line of the map.
 *
 * Context: any thread; not a signal handler. Allocates, and writes files in /tmp while perf maps
 * are on.
 * Return: 0; -EINVAL: no name or no bytes; -ENOMEM. Files that cannot be written are no error.
 */
RP_PUBLIC int rp_code_add(const void *address, size_t bytes, const char *name);

/*
 * Forget the code at an address, before its memory is used otherwise.
 * @address: the address that rp_code_add() got.
 *
 * Context: as rp_code_add().
 * Return: 0; -ENOENT: there is none.
 */
RP_PUBLIC int rp_code_remove(const void *address);

/* One copy of this library in the process. Later versions add members at the end. */
struct rp_host_copy {
	uint32_t size;
	uint32_t order;		/* 1: loaded first, 2: the second copy, and so on */
	const char *path;	/* of the object that carries it; "": the program */
	uint32_t is_caller;	/* 1: the copy that was called */
	uint32_t reserved;
};

#define RP_HOST_COPY_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_copy, reserved)

typedef int (*rp_host_copy_callback)(const struct rp_host_copy *copy, void *data);

/*
 * List the copies of this library in the process: the shared library, and static ones in the
 * program and in plugins that hide their symbols. Each copy has events, counters and sessions of
 * its own. The first has the diagnostics socket, so clients find its providers alone; a session of
 * another copy has to be started from the object that carries that copy.
 *
 * Call it from a plugin to learn whether it is a second copy: `is_caller` with an order above 1.
 * @callback: the function to call for each copy.
 * @data: an argument for each call of it.
 *
 * Context: any thread, not a signal handler. Takes the loader's lock; the callback runs under it
 * and must not load or unload libraries. A copy in another namespace of dlmopen(3) is not listed.
 * Return: 0, or what the callback returned unless 0, which ends the list.
 */
RP_PUBLIC int rp_host_list_copies(rp_host_copy_callback callback, void *data);

RP_END_DECLS

#endif
