/* SPDX-License-Identifier: MIT */
#include "base/host_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct rp_host *rp_host_table;

/* A copy of a table and of what it points to. */
struct published_table {
	struct rp_host host;
	struct rp_host_range interpreters[RP_HOST_INTERPRETERS_MAX];
	struct published_table *before;	/* keeps earlier published reachable for leak checkers */
	char strings[];
};

static struct published_table *published;

static char *put_string(const char **string, char *at)
{
	size_t bytes = *string ? strlen(*string) + 1 : 0;

	if (bytes)
		*string = memcpy(at, *string, bytes);
	return at + bytes;
}

static size_t string_bytes(const char *string)
{
	return string ? strlen(string) + 1 : 0;
}

int rp_host_publish(const struct rp_host *host)
{
	const struct rp_host *none = NULL;
	struct published_table *copy = calloc(1, sizeof(*copy) + string_bytes(host->process_name) +
					string_bytes(host->runtime_version));

	if (!copy)
		return -ENOMEM;
	copy->host = *host;
	if (host->interpreter_count)
		memcpy(copy->interpreters, host->interpreters,
		       host->interpreter_count * sizeof(copy->interpreters[0]));
	copy->host.interpreters = copy->interpreters;
	(void)put_string(&copy->host.runtime_version,
			 put_string(&copy->host.process_name, copy->strings));
	if (!rp_cas_seq_cst(&rp_host_table, &none, &copy->host)) {
		free(copy);
		return -EBUSY;
	}
	copy->before = published;
	published = copy;
	return 0;
}

void rp_host_retract(void)
{
	rp_store_release(&rp_host_table, NULL);
}

enum rp_host_process_state rp_host_state(void)
{
	const struct rp_host *host = rp_host_get();

	if (!host || !host->process_state)
		return RP_HOST_RUNNING;
	return (enum rp_host_process_state)host->process_state(host->data);
}

const struct rp_host *rp_host_running(void)
{
	const struct rp_host *host = rp_host_get();

	return host && rp_host_state() == RP_HOST_RUNNING ? host : NULL;
}
