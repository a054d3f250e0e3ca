/* SPDX-License-Identifier: MIT */
#include "tools/client/provider_search.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"
#include "tools/cli/tool.h"
#include "tools/client/providers.h"

#define DELAY_MS 2000
#define ANSWER_MS 10000
#define NAMES_MAX 256u

struct existing_name {
	bool is_complete;		/* set last */
	char text[RP_NAME_MAX + 1];
};

struct rp_provider_search {
	const char *command;
	const struct rp_session_provider *providers;
	size_t count;
	int64_t due_ms;			/* 0: not started */
	bool is_over;
	bool has_reported;		/* a provider that is missing */
	uint32_t recorders;		/* atomic: recorders that will ask (again) */
	bool may_have_all;		/* a process does not report its providers */
	uint32_t name_count;		/* atomic; can be above NAMES_MAX */
	struct existing_name names[NAMES_MAX];	/* of existing providers, also repeatedly */
	bool found[];			/* by provider */
};

static size_t size_of(size_t count)
{
	return sizeof(struct rp_provider_search) + count * sizeof(bool);
}

int rp_provider_search_create(const char *command, const struct rp_session_provider *providers,
			      size_t count, struct rp_provider_search **ret_search)
{
	struct rp_provider_search *search = mmap(NULL, size_of(count), PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (search == MAP_FAILED) {
		const int error = errno;

		rp_tool_error("%s: %s", command, strerror(error));
		return -error;
	}
	search->command = command;
	search->providers = providers;
	search->count = count;
	for (size_t i = 0; i < count; i++)
		search->found[i] = rp_provider_is_always_there(providers[i].name);
	*ret_search = search;
	return 0;
}

void rp_provider_search_destroy(struct rp_provider_search *search)
{
	if (search)
		munmap(search, size_of(search->count));
}

/* Whether one of the first `count` names is this one. */
static bool has_name(const struct rp_provider_search *search, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++) {
		if (rp_load_acquire(&search->names[i].is_complete) &&
		    strcmp(search->names[i].text, text) == 0)
			return true;
	}
	return false;
}

/* Two recorders may add the same name. */
static void add_name(struct rp_provider_search *search, const char *text)
{
	uint32_t at;

	if (strlen(text) > RP_NAME_MAX || has_name(search, NAMES_MAX, text))
		return;
	at = rp_add_relaxed(&search->name_count, 1);
	if (at >= NAMES_MAX)
		return;
	strcpy(search->names[at].text, text);
	rp_store_release(&search->names[at].is_complete, true);
}

void rp_provider_search_expect(struct rp_provider_search *search)
{
	if (search)
		rp_add_relaxed(&search->recorders, 1);
}

static void take_names(struct rp_provider_search *search, const struct rp_provider_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		add_name(search, names->rows[i]);
	for (size_t i = 0; i < search->count; i++) {
		if (rp_provider_names_have(names, search->providers[i].name))
			rp_store_relaxed(&search->found[i], true);
	}
}

void rp_provider_search_ask(struct rp_provider_search *search, const struct rp_target *target)
{
	struct rp_provider_names names;

	if (rp_provider_names_get(target, NULL, &names)) {
		rp_provider_search_skip(search);
		return;
	}
	take_names(search, &names);
	rp_provider_names_fini(&names);
}

void rp_provider_search_end(struct rp_provider_search *search)
{
	/* After the providers were stored, for rp_load_acquire(). */
	rp_add_seq_cst(&search->recorders, -1u);
}

void rp_provider_search_skip(struct rp_provider_search *search)
{
	if (search)
		rp_store_relaxed(&search->may_have_all, true);
}

static bool is_found(const struct rp_provider_search *search, size_t i)
{
	return rp_load_relaxed(&search->may_have_all) || rp_load_relaxed(&search->found[i]);
}

static void report(struct rp_provider_search *search, bool has_status_line)
{
	char *rows[NAMES_MAX];
	struct rp_provider_names names = { .rows = rows };

	for (size_t i = 0; i < NAMES_MAX; i++) {
		char *text = search->names[i].text;

		if (rp_load_acquire(&search->names[i].is_complete) && !has_name(search, i, text))
			rows[names.count++] = text;
	}
	for (size_t i = 0; i < search->count; i++) {
		if (is_found(search, i))
			continue;
		if (has_status_line && !search->has_reported)
			rp_status_line_clear();
		rp_providers_explain_absent(search->command, search->providers[i].name, &names);
		search->has_reported = true;
	}
}

void rp_provider_search_step(struct rp_provider_search *search, bool is_end, bool has_status_line)
{
	const int64_t now_ms = rp_now_ms();
	bool has_answers;

	if (!search || search->is_over)
		return;
	if (!search->due_ms)
		search->due_ms = now_ms + DELAY_MS;
	if (!is_end && now_ms < search->due_ms)
		return;
	has_answers = rp_load_acquire(&search->recorders) == 0 ||
		      now_ms >= search->due_ms + ANSWER_MS;
	search->is_over = is_end || has_answers;
	if (has_answers)
		report(search, has_status_line);
}

bool rp_provider_search_has_failed(const struct rp_provider_search *search)
{
	for (size_t i = 0; search && search->has_reported && i < search->count; i++) {
		if (!is_found(search, i))
			return true;
	}
	return false;
}
