/* SPDX-License-Identifier: MIT */
/*
 * The methods of a .NET process whose code its runtime generated. No file has their names. The
 * runtime reports the methods that exist at the end of a session of their own, which a child
 * process runs, and each later method when it generates its code.
 */
#ifndef RP_TOOL_TOP_METHODS_H
#define RP_TOOL_TOP_METHODS_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>
#include <ringpipe/session.h>

#include "tools/client/target.h"

struct rp_top_methods;

/*
 * Return: the provider of the runtime's events, with the keywords and the level of those about
 * later methods besides those of `asked`.
 * @asked: what the user asked the provider for; a zeroed struct: nothing.
 */
struct rp_session_provider rp_top_methods_provider(const struct rp_session_provider *asked);

bool rp_top_methods_is_runtime(const char *provider);

/* Return: whether the user did not ask for the events of the type. They serve only the names. */
bool rp_top_methods_is_added(const struct rp_session_provider *asked,
			     const struct rp_reader_type *type);

/*
 * Start the session of the child process. Without the child, only later methods have names.
 * Context: the calling process has no other thread yet.
 * Return: 0; -ENOMEM.
 */
int rp_top_methods_create(const struct rp_target *target, struct rp_top_methods **ret_methods);

/* End the child process too. NULL is permitted. */
void rp_top_methods_destroy(struct rp_top_methods *methods);

/*
 * Add the method if the event reports one.
 * Context: any thread.
 * Return: 0; -ENOMEM.
 */
int rp_top_methods_take(struct rp_top_methods *methods, const struct rp_reader_event *event);

/*
 * Prepare for lookups of all methods that were reported until now. Return: whether there are more
 * than before.
 */
bool rp_top_methods_update(struct rp_top_methods *methods);

/* Return: the name of the method that contains the address, for free(); NULL: it is unknown. */
char *rp_top_methods_find(struct rp_top_methods *methods, uint64_t address);

#endif
