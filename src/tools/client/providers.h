/* SPDX-License-Identifier: MIT */
/* The providers of a process, and the check of those that a command names. */
#ifndef RP_TOOL_PROVIDERS_H
#define RP_TOOL_PROVIDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/client/target.h"

struct rp_provider_names {
	char **rows;			/* sorted, without repeats */
	size_t count;
};

/*
 * Ask a process for its providers. `what` begins the error line on a failure; NULL: no line.
 * Return: 0; -EOPNOTSUPP, without a line: a .NET runtime, which does not report them; the result of
 * rp_exchange_run(); -EPROTO; -ENOMEM.
 */
int rp_provider_names_get(const struct rp_target *target, const char *what,
			  struct rp_provider_names *ret_names);
void rp_provider_names_fini(struct rp_provider_names *names);
bool rp_provider_names_have(const struct rp_provider_names *names, const char *name);

/* Whether the name needs no check: a provider that the library creates on demand, or "*". */
bool rp_provider_is_always_there(const char *name);

/* Print the error line for a provider that the process lacks; `existing`: those that it has. */
void rp_providers_explain(pid_t pid, const char *missing, const char *existing);
/*
 * Print the error line of a command for a provider that no process has. The function sorts
 * `existing`.
 */
void rp_providers_explain_absent(const char *command, const char *missing,
				 struct rp_provider_names *existing);

/*
 * Check that the process has each of the providers; `name_at(i, data)` returns the name of one. A
 * process that does not report its providers passes the check. Return: 0; -ENOENT, after an error
 * line with the providers that exist.
 */
int rp_providers_check(const struct rp_target *target, const char *(*name_at)(size_t i, void *data),
		       size_t count, void *data);
/* The same: each provider must be in one of several processes. `pid`: for the error line. */
int rp_providers_check_any(const struct rp_target *targets, size_t target_count, pid_t pid,
			   const char *(*name_at)(size_t i, void *data), size_t count, void *data);

/*
 * Return: the version of nettrace to request. Version 6 has names of threads and trace ids, but
 * .NET's runtimes write version 4.
 */
uint32_t rp_providers_choose_format(const struct rp_target *target);

#endif
