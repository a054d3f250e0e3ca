/* SPDX-License-Identifier: MIT */
/*
 * What the program around the library can do for its diagnostics clients.
 */
#ifndef RINGPIPE_HOST_H
#define RINGPIPE_HOST_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/*
 * Sets an environment variable for a client, or takes it away when `value` is NULL. `name` is not
 * empty and holds no '='. Both strings are valid during the call only.
 *
 * Context: the thread that serves clients: the library's, all signals masked, or the program's that
 * calls rp_diagnostics_dispatch(). No client is served meanwhile.
 * Return: 0, or -errno, which the client is told as a failure.
 */
typedef int (*rp_host_environment_callback)(const char *name, const char *value, void *data);

/*
 * Lets clients change the environment while the program runs. setenv(3) beside a getenv(3) in
 * another thread crashes, and only the program knows when it is safe, so without a callback the
 * library refuses, except while the program's start-up is suspended. NULL: refuse again; a call
 * that is under way may still end after this returns.
 *
 * Context: any thread; not a signal handler; in the callback, too.
 */
RP_PUBLIC void rp_host_set_environment_callback(rp_host_environment_callback callback, void *data);

/*
 * Tells of code that the program made at run time, `bytes` from `address` on, so that perf(1) can
 * name it while a client has perf maps turned on; the client may come later. The code has to be
 * readable until rp_code_remove(). What was told of the same address before is forgotten. The name
 * is copied; control characters in it become '?'.
 *
 * Context: any thread; not a signal handler. Allocates, and writes files in /tmp while perf maps
 * are on.
 * Return: 0; -EINVAL: no name or no bytes; -ENOMEM. Files that cannot be written are no error.
 */
RP_PUBLIC int rp_code_add(const void *address, size_t bytes, const char *name);

/*
 * Forgets the code at an address, before its memory is used otherwise. Context: as rp_code_add().
 * Return: 0; -ENOENT: there is none.
 */
RP_PUBLIC int rp_code_remove(const void *address);

RP_END_DECLS

#endif
