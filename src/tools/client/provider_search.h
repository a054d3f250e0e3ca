/* SPDX-License-Identifier: MIT */
/*
 * Finds providers that a command requests from many processes but no process has. Each recorder
 * asks its process when the session begins, and again one second later, because libraries and the
 * program itself register providers after libringpipe. The command reports the providers that no
 * recorder found when all recorders have asked twice and two seconds have passed, or at its end.
 */
#ifndef RP_TOOL_PROVIDER_SEARCH_H
#define RP_TOOL_PROVIDER_SEARCH_H

#include <stdbool.h>

#include <ringpipe/session.h>

#include "tools/client/target.h"

struct rp_provider_search;

/*
 * Create a search, in memory that this process shares with those that it forks. `command`: for the
 * error line. `providers` remain the caller's. Return: 0; -errno, after an error line.
 */
int rp_provider_search_create(const char *command, const struct rp_session_provider *providers,
			      size_t count, struct rp_provider_search **ret_search);
void rp_provider_search_destroy(struct rp_provider_search *search);

/* After a recorder was started: wait for its last question. NULL: do nothing. */
void rp_provider_search_expect(struct rp_provider_search *search);

/*
 * In a recorder whose session has begun: ask the process for its providers. If it does not answer,
 * it may have each of them. So may a .NET runtime, which does not report them.
 */
void rp_provider_search_ask(struct rp_provider_search *search, const struct rp_target *target);

/* In a recorder: it has asked for the last time. */
void rp_provider_search_end(struct rp_provider_search *search);

/*
 * A process was not recorded, or it ended before it was asked twice: it may have each of the
 * providers. NULL: do nothing.
 */
void rp_provider_search_skip(struct rp_provider_search *search);

/*
 * In the command, repeatedly: print an error line for each provider that no process has, once, when
 * it is time, or now if the command ends. The time starts with the first call. A process that has
 * not answered after ten more seconds counts as one without the providers; if the command ends
 * earlier, the function prints nothing. `has_status_line`: clear it first. NULL: do nothing.
 */
void rp_provider_search_step(struct rp_provider_search *search, bool is_end, bool has_status_line);

/*
 * Return: whether an error line was printed for a provider that no process has had since. NULL:
 * false.
 */
bool rp_provider_search_has_failed(const struct rp_provider_search *search);

#endif
