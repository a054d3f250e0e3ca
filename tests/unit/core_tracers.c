/* SPDX-License-Identifier: MIT */
/* Tracers that the kernel counts; the test changes the counts instead. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include <ringpipe/ringpipe.h>

#include "base/atomic.h"
#include "core/kernel_probes.h"

#define ONE (1ull << 48)
#define PATIENCE_MS 60000

RP_PROVIDER(traced, "Traced-By-The-Kernel");
RP_EVENT(traced, first, 1, RP_LEVEL_WARNING, 0x1, RP_U64(a));
RP_EVENT(traced, second, 2, RP_LEVEL_VERBOSE, 0x2, RP_STRING(a));

struct reported {
	uint32_t tracers_of_first, tracers_of_second, rows;
};

static int take_row(const struct rp_traced *traced, void *data)
{
	struct reported *reported = data;

	cr_assert_eq(traced->size, sizeof(*traced));
	if (strcmp(traced->provider, "Traced-By-The-Kernel") != 0)
		return 0;
	reported->rows++;
	if (strcmp(traced->event, "first") == 0)
		reported->tracers_of_first = traced->tracers;
	if (strcmp(traced->event, "second") == 0)
		reported->tracers_of_second = traced->tracers;
	return 0;
}

static int refuse_row(const struct rp_traced *traced, void *data)
{
	(void)traced;
	++*(unsigned int *)data;
	return -ECANCELED;
}

Test(core_tracers, listing_has_a_row_for_each_traced_event)
{
	struct reported none = { 0 }, both = { 0 };
	unsigned int calls = 0;

	cr_assert_eq(rp_traced_list(take_row, &none), 0);
	cr_assert_eq(none.rows, 0);
	rp_or_seq_cst(&traced_first_event_.enable, ONE);
	rp_or_seq_cst(&traced_second_event_.enable, 3 * ONE);
	cr_assert_eq(rp_traced_list(take_row, &both), 0);
	cr_assert_eq(both.rows, 2);
	cr_assert_eq(both.tracers_of_first, 1);
	cr_assert_eq(both.tracers_of_second, 3);
	cr_assert_eq(rp_traced_list(refuse_row, &calls), -ECANCELED);
	cr_assert_eq(calls, 1u);
	/* The stubs are called and do nothing. */
	cr_assert_eq(traced_first(1), 0);
	cr_assert_eq(traced_second(NULL), 0);
}

struct news {
	uint32_t enabled, level;
	uint64_t keywords;
};

static void hear(struct rp_provider *provider, const struct rp_provider_state *state, void *data)
{
	struct news *news = data;

	(void)provider;
	news->level = state->level;
	news->keywords = state->keywords;
	rp_store_release(&news->enabled, state->enabled);
}

static bool becomes(const struct news *news, uint32_t enabled)
{
	for (int i = 0; i < PATIENCE_MS && rp_load_acquire(&news->enabled) != enabled; i++)
		usleep(1000);
	return rp_load_acquire(&news->enabled) == enabled;
}

Test(core_tracers, watcher_reports_callbacks_of_tracers)
{
	static struct news news;

	cr_assert_eq(rp_provider_set_callback(traced_provider(), hear, &news), 0);
	cr_assert_eq(rp_tracers_watch(0), -EINVAL);
	cr_assert_eq(rp_tracers_watch(1), 0);
	rp_or_seq_cst(&traced_second_event_.enable, ONE);
	cr_assert(becomes(&news, 1));
	cr_assert_eq(news.level, RP_LEVEL_VERBOSE);
	cr_assert_eq(news.keywords, 0x2);
	rp_and_seq_cst(&traced_second_event_.enable, ONE - 1);
	cr_assert(becomes(&news, 0));
	cr_assert_eq(news.keywords, 0);
}

static struct rp_event *make_event(void)
{
	struct rp_event_decl decl = { .size = sizeof(decl), .id = 1, .name = "made" };
	struct rp_provider *provider;
	struct rp_event *event;

	cr_assert_eq(rp_provider_create("Made-Up", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	return event;
}

Test(core_tracers, dynamic_event_has_the_tracers_of_the_one_probe)
{
	struct rp_event *event = make_event();
	char bytes[100] = { 0 };
	const struct rp_part parts[] = { { bytes, 100 }, { NULL, 0 }, { bytes, 1 } };

	cr_assert_eq(rp_event_tracers(event), 0);
	rp_or_seq_cst(&rp_slow_path_mask, 2 * ONE);
	cr_assert_eq(rp_event_tracers(event), 2);
	cr_assert_eq(rp_event_tracers(&traced_first_event_), 0);
	cr_assert_not(rp_event_enabled(event));
	cr_assert_eq(rp_event_write(event, parts, 3), 0);
	cr_assert_eq(rp_event_write(event, NULL, 0), 0);
	rp_tracers_watch(1);
	for (int i = 0; i < PATIENCE_MS && !rp_event_enabled(event); i++)
		usleep(1000);
	cr_assert(rp_event_enabled(event));
}

Test(core_tracers, forked_child_keeps_the_kernels_counts)
{
	int status;
	pid_t child;

	rp_or_seq_cst(&rp_slow_path_mask, ONE);
	rp_or_seq_cst(&traced_first_event_.enable, ONE);
	child = fork();
	if (child == 0)
		_exit(rp_load_relaxed(&rp_slow_path_mask) >> 48 == 1 &&
		      rp_event_tracers(&traced_first_event_) == 1 ? 0 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
