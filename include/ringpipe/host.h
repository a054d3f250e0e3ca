/* SPDX-License-Identifier: MIT */
/*
 * Provisional: later versions may change this header in ways that require programs to be rebuilt.
 *
 * Functions with which the host program supports its diagnostics clients.
 */
#ifndef RINGPIPE_HOST_H
#define RINGPIPE_HOST_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/*
 * Sets an environment variable for a client, or removes it if `value` is NULL. `name` is not empty
 * and contains no '='. Both strings are valid only during the call.
 *
 * Context: the thread that serves clients. That is a thread of the library with all signals masked,
 * or the program's thread that calls rp_diagnostics_dispatch(). No client is served during the
 * call.
 * Return: 0, or -errno, which the client receives as an error.
 */
typedef int (*rp_host_environment_callback)(const char *name, const char *value, void *data);

/*
 * Let clients change the environment while the program runs. setenv(3) is unsafe while another
 * thread calls getenv(3), and only the program knows when no thread does. Without a callback, the
 * library therefore refuses such requests, except while the program's start-up is suspended. A NULL
 * `callback` removes the callback; a call that has already begun may end after this function
 * returns.
 *
 * Context: any thread, also in the callback; not a signal handler.
 */
RP_PUBLIC void rp_host_set_environment_callback(rp_host_environment_callback callback, void *data);

/*
 * Register generated code. The code has `bytes` bytes from `address` on. perf(1) can then show its
 * name while a client has perf maps enabled, now or later. The code must stay readable until
 * rp_code_remove(). A new registration replaces an earlier one of the same address. The function
 * copies the name and replaces control characters in the copy with '?'.
 *
 * Context: any thread, not a signal handler. Allocates, and writes files in /tmp while perf maps
 * are enabled.
 * Return: 0, also if those files cannot be written; -EINVAL if there is no name or `bytes` is 0;
 * -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_code_add(const void *address, size_t bytes, const char *name);

/*
 * Remove the registration of the code at an address. Call this function before the memory is
 * reused.
 * Context: as rp_code_add().
 * Return: 0; -ENOENT if no code is registered at the address.
 */
RP_PUBLIC int rp_code_remove(const void *address);

/* One copy of this library in the process. Later versions add members at the end. */
struct rp_host_copy {
	uint32_t size;
	uint32_t order;		/* 1: loaded first, 2: the second copy, and so on */
	const char *path;	/* of the object that contains it; "": the program */
	uint32_t is_caller;	/* 1: the copy whose function was called */
	uint32_t reserved;
};

#define RP_HOST_COPY_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_copy, reserved)

typedef int (*rp_host_copy_callback)(const struct rp_host_copy *copy, void *data);

/*
 * List the copies of this library in the process: the shared library, and static copies in the
 * program or in plugins with hidden symbols. Each copy has its own events, counters and sessions.
 * Only the first copy has the diagnostics socket, so clients see only its providers. Start a
 * session of another copy from the object that contains that copy.
 *
 * A plugin can call this function to find out whether it uses a second copy: in the entry with
 * `is_caller` 1, `order` is then above 1.
 *
 * Context: any thread, not a signal handler. The callback runs while the loader's lock is held, and
 * must not load or unload libraries. The list does not contain copies in other namespaces of
 * dlmopen(3).
 * Return: 0, or the first result of the callback that is not 0, which ends the list.
 */
RP_PUBLIC int rp_host_list_copies(rp_host_copy_callback callback, void *data);

RP_END_DECLS

#endif
