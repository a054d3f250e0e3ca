/* SPDX-License-Identifier: MIT */
#include "tools/client/providers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/cli/tool.h"

#define REPLY_TIMEOUT_MS 5000
#define NAMES_SHOWN 20u

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts, and drops repeats: a provider has a row for each session. */
static void sort(struct rp_provider_names *names)
{
	size_t kept = 0;

	if (names->count)
		qsort(names->rows, names->count, sizeof(*names->rows), compare_names);
	for (size_t i = 0; i < names->count; i++) {
		if (kept && !strcmp(names->rows[kept - 1], names->rows[i]))
			free(names->rows[i]);
		else
			names->rows[kept++] = names->rows[i];
	}
	names->count = kept;
}

/* Reads the first table of the reply that list.c describes. */
static int read_names(const struct rp_exchange *exchange, struct rp_provider_names *names)
{
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	const uint32_t count = rp_cursor_get_u32(&cursor);

	for (uint32_t i = 0; i < count && !rp_cursor_failed(&cursor); i++) {
		char *name = rp_message_take_string(&cursor);
		char **grown = realloc(names->rows, (names->count + 1) * sizeof(*grown));

		if (grown)
			names->rows = grown;
		if (!name || !grown) {
			free(name);
			return rp_cursor_failed(&cursor) ? -EPROTO : -ENOMEM;
		}
		grown[names->count++] = name;
		free(rp_message_take_string(&cursor));
		rp_cursor_skip(&cursor, 8 + 8 + 4 + 4);
		free(rp_message_take_string(&cursor));
	}
	sort(names);
	return rp_cursor_failed(&cursor) ? -EPROTO : 0;
}

int rp_provider_names_get(const struct rp_target *target, const char *what,
			  struct rp_provider_names *ret_names)
{
	struct rp_message_buffer request = { 0 };
	struct rp_provider_names names = { 0 };
	struct rp_exchange exchange;
	int ret;

	rp_message_begin(&request, RP_MESSAGE_RINGPIPE, RP_OWN_LIST_ENABLED);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, target, &request);
	if (ret == 0)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (rp_exchange_unknown_command(&exchange, ret))
		ret = -EOPNOTSUPP;
	if (ret == 0)
		ret = read_names(&exchange, &names);
	if (ret && ret != -EOPNOTSUPP && what)
		rp_exchange_explain(&exchange, what, ret);
	rp_exchange_end(&exchange);
	rp_message_fini(&request);
	if (ret)
		rp_provider_names_fini(&names);
	else
		*ret_names = names;
	return ret;
}

void rp_provider_names_fini(struct rp_provider_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->rows[i]);
	free(names->rows);
}

bool rp_provider_names_have(const struct rp_provider_names *names, const char *name)
{
	return names->count && bsearch(&name, names->rows, names->count, sizeof(*names->rows),
				       compare_names);
}

bool rp_provider_is_always_there(const char *name)
{
	static const char *const always[] = {
		"*", "ringpipe", "System.Runtime", "System.Diagnostics.Metrics",
		"Microsoft-DotNETCore-SampleProfiler",
	};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		if (!strcmp(name, always[i]))
			return true;
	}
	return false;
}

void rp_providers_explain(pid_t pid, const char *missing, const char *existing)
{
	rp_tool_error("process %d has no provider '%s'; it has: %s (--allow-missing accepts "
		      "missing ones)", pid, missing, existing);
}

/* Return: the names with commas between them, for free(); NULL: no memory. */
static char *list_names(const struct rp_provider_names *names)
{
	char *list = NULL;
	size_t size;
	FILE *stream = open_memstream(&list, &size);

	for (size_t i = 0; stream && i < names->count && i < NAMES_SHOWN; i++)
		fprintf(stream, "%s%s", i ? ", " : "", names->rows[i]);
	if (stream && names->count > NAMES_SHOWN)
		fprintf(stream, " and %zu more, see ringpipe list", names->count - NAMES_SHOWN);
	if (stream && !names->count)
		fputs("none", stream);
	if (stream && fclose(stream) != 0) {
		free(list);
		list = NULL;
	}
	return list;
}

static void explain_missing(pid_t pid, const char *missing, const struct rp_provider_names *names)
{
	char *list = list_names(names);

	rp_providers_explain(pid, missing, list ? list : "?");
	free(list);
}

void rp_providers_explain_absent(const char *command, const char *missing,
				 struct rp_provider_names *existing)
{
	char *list;

	if (existing->count)
		qsort(existing->rows, existing->count, sizeof(*existing->rows), compare_names);
	list = list_names(existing);
	rp_tool_error("%s: found no process that has a provider '%s'; there are: %s "
		      "(--allow-missing accepts missing ones)", command, missing,
		      list ? list : "?");
	free(list);
}

/* Ask all processes. Return: 0; the error of the first that does not report its providers. */
static int get_union(const struct rp_target *targets, size_t target_count,
		     struct rp_provider_names *ret_names)
{
	struct rp_provider_names names = { 0 }, more;
	int ret = 0;

	for (size_t i = 0; i < target_count && ret == 0; i++) {
		char **grown;

		ret = rp_provider_names_get(&targets[i], NULL, &more);
		if (ret)
			break;
		grown = realloc(names.rows, (names.count + more.count + 1) * sizeof(*grown));
		if (!grown) {
			rp_provider_names_fini(&more);
			ret = -ENOMEM;
			break;
		}
		names.rows = grown;
		if (more.count)
			memcpy(&grown[names.count], more.rows, more.count * sizeof(*grown));
		names.count += more.count;
		free(more.rows);
	}
	sort(&names);
	if (ret)
		rp_provider_names_fini(&names);
	else
		*ret_names = names;
	return ret;
}

int rp_providers_check_any(const struct rp_target *targets, size_t target_count, pid_t pid,
			   const char *(*name_at)(size_t i, void *data), size_t count, void *data)
{
	struct rp_provider_names names;
	size_t first = 0;
	int ret = 0;

	while (first < count && rp_provider_is_always_there(name_at(first, data)))
		first++;
	/* The later request for the session reports a process that does not answer. */
	if (first == count || get_union(targets, target_count, &names))
		return 0;
	for (size_t i = first; i < count; i++) {
		const char *name = name_at(i, data);

		if (rp_provider_is_always_there(name) || rp_provider_names_have(&names, name))
			continue;
		explain_missing(pid, name, &names);
		ret = -ENOENT;
	}
	rp_provider_names_fini(&names);
	return ret;
}

int rp_providers_check(const struct rp_target *target, const char *(*name_at)(size_t i, void *data),
		       size_t count, void *data)
{
	return rp_providers_check_any(target, 1, target->pid, name_at, count, data);
}

uint32_t rp_providers_choose_format(const struct rp_target *target)
{
	struct rp_provider_names names;
	int ret = rp_provider_names_get(target, NULL, &names);

	if (ret == 0)
		rp_provider_names_fini(&names);
	return ret == -EOPNOTSUPP ? 4 : 6;
}
