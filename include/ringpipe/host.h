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
 * Context: the diagnostics server's thread, all signals masked. No client is served meanwhile.
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

RP_END_DECLS

#endif
