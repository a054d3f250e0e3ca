/* SPDX-License-Identifier: MIT */
/* Which events a session gets, by keywords, level, filters and names. */
#include "core_support.h"

#include <stdint.h>

#define NAME "Test-Enable"

static const uint64_t keywords[] = { 0, 1, 2, 3, 1ull << 63, UINT64_MAX };
#define KEYWORDS (sizeof(keywords) / sizeof(keywords[0]))
#define LEVELS 6u

static struct rp_provider *provider;
static struct rp_event *events[KEYWORDS * LEVELS];

static uint32_t id_of(size_t keyword, unsigned int level)
{
	return (uint32_t)(keyword * LEVELS + level);
}

static void set_up(void)
{
	cr_assert_eq(rp_provider_create(NAME, NULL, NULL, &provider), 0);
	for (size_t k = 0; k < KEYWORDS; k++) {
		for (unsigned int level = 0; level < LEVELS; level++) {
			struct rp_event_decl decl = {
				.size = sizeof(decl),
				.id = id_of(k, level),
				.name = "event",
				.keywords = keywords[k],
				.level = (uint8_t)level,
			};

			cr_assert_eq(rp_event_create(provider, &decl, &events[decl.id]), 0);
		}
	}
}

static void tear_down(void)
{
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

TestSuite(core_enable, .init = set_up, .fini = tear_down);

static struct rp_listener *start(const struct rp_session_provider *wanted, size_t count)
{
	struct rp_session_options options = {
		.size = sizeof(options),
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
		.providers = wanted,
		.provider_count = count,
	};
	struct rp_listener *listener;

	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	return listener;
}

/* Writes every event, and expects exactly those in `wanted`. */
static void expect_exactly(struct rp_listener *listener, const bool wanted[KEYWORDS * LEVELS])
{
	for (uint32_t id = 0; id < KEYWORDS * LEVELS; id++) {
		cr_assert_eq(rp_event_enabled(events[id]), wanted[id], "event %u", id);
		cr_assert_eq(rp_event_write(events[id], NULL, 0), 0);
	}
	for (uint32_t id = 0; id < KEYWORDS * LEVELS; id++) {
		struct rp_listener_event event;

		if (!wanted[id])
			continue;
		expect_event(listener, &event);
		cr_assert_eq(event.id, id);
	}
	expect_end(listener);
	for (uint32_t id = 0; id < KEYWORDS * LEVELS; id++)
		cr_assert_not(rp_event_enabled(events[id]), "event %u is on after the stop", id);
}

Test(core_enable, keywords_and_level_choose_the_events)
{
	for (size_t s = 0; s < 2 * KEYWORDS; s++) {
		const uint64_t asked = keywords[s / 2];
		const bool exact = s & 1;

		for (unsigned int level = 0; level < LEVELS; level++) {
			struct rp_session_provider session = {
				.size = sizeof(session), .name = NAME, .keywords = asked,
				.level = (uint8_t)level,
				.flags = exact ? RP_SESSION_PROVIDER_EXACT : 0,
			};
			bool wanted[KEYWORDS * LEVELS];

			for (size_t k = 0; k < KEYWORDS; k++) {
				for (unsigned int l = 0; l < LEVELS; l++)
					wanted[id_of(k, l)] =
						(keywords[k] == 0 || (asked == 0 && !exact) ||
						 (keywords[k] & asked) != 0) &&
						(l == 0 || level == 0 || level >= l);
			}
			expect_exactly(start(&session, 1), wanted);
		}
	}
}

static void expect_filtered(uint8_t enable, const uint32_t *ids, size_t id_count)
{
	struct rp_event_filter filter = {
		.size = sizeof(filter), .enable = enable, .ids = ids, .id_count = id_count,
	};
	struct rp_session_provider session = {
		.size = sizeof(session), .name = NAME, .keywords = UINT64_MAX, .level = 5,
		.filter = &filter,
	};
	bool wanted[KEYWORDS * LEVELS];

	for (uint32_t id = 0; id < KEYWORDS * LEVELS; id++) {
		bool listed = false;

		for (size_t i = 0; i < id_count; i++)
			listed = listed || ids[i] == id;
		wanted[id] = listed == (enable != 0);
	}
	expect_exactly(start(&session, 1), wanted);
}

Test(core_enable, filter_takes_the_ids_it_names_or_all_others)
{
	static const uint32_t ids[] = { 30, 7, 7, 0, 12, 1000000 };

	expect_filtered(1, ids, 6);
	expect_filtered(0, ids, 6);
	expect_filtered(1, ids, 1);
	expect_filtered(0, NULL, 0);
	expect_filtered(1, NULL, 0);
}

Test(core_enable, filter_does_not_overrule_keywords_and_level)
{
	static const uint32_t ids[] = { 8, 10, 21 };
	struct rp_event_filter filter = {
		.size = sizeof(filter), .enable = 1, .ids = ids, .id_count = 3,
	};
	struct rp_session_provider session = {
		.size = sizeof(session), .name = NAME, .keywords = 1, .level = 3, .filter = &filter,
	};
	bool wanted[KEYWORDS * LEVELS] = { false };

	/* 8 is (1, level 2); 10 is (1, level 4); 21 is (3, level 3). */
	wanted[8] = wanted[21] = true;
	expect_exactly(start(&session, 1), wanted);
}

Test(core_enable, first_entry_of_a_name_wins_and_a_name_beats_the_catch_all)
{
	struct rp_session_provider session[] = {
		{ .size = sizeof(session[0]), .name = "*", .keywords = UINT64_MAX, .level = 5 },
		{ .size = sizeof(session[0]), .name = NAME, .keywords = 1, .level = 1 },
		{ .size = sizeof(session[0]), .name = NAME, .keywords = UINT64_MAX, .level = 5 },
	};
	bool wanted[KEYWORDS * LEVELS];

	for (size_t k = 0; k < KEYWORDS; k++) {
		for (unsigned int l = 0; l < LEVELS; l++)
			wanted[id_of(k, l)] = (keywords[k] == 0 || (keywords[k] & 1)) && l <= 1;
	}
	expect_exactly(start(session, 3), wanted);
}

Test(core_enable, names_are_compared_whole_and_by_case)
{
	static const char *const others[] = {
		"Test-Enabl", "Test-Enable ", "test-enable", "Test-Enable2", "Test-*",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct rp_session_provider session = {
			.size = sizeof(session), .name = others[i], .keywords = UINT64_MAX,
			.level = 5,
		};
		bool wanted[KEYWORDS * LEVELS] = { false };

		expect_exactly(start(&session, 1), wanted);
	}
}

Test(core_enable, event_created_during_the_session_is_on_immediately)
{
	struct rp_listener *listener = listen_to(NAME ":1:3");
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1000, .name = "late", .keywords = 1, .level = 3,
	};
	struct rp_event *on, *off;
	struct rp_listener_event event;

	cr_assert_eq(rp_event_create(provider, &decl, &on), 0);
	decl.id++;
	decl.level = 4;
	cr_assert_eq(rp_event_create(provider, &decl, &off), 0);
	cr_assert(rp_event_enabled(on));
	cr_assert_not(rp_event_enabled(off));
	cr_assert_eq(rp_event_write(on, NULL, 0), 0);
	expect_event(listener, &event);
	cr_assert_eq(event.id, 1000u);
	expect_end(listener);
}

Test(core_enable, stop_takes_only_the_own_bit_and_leaves_the_kernels)
{
	const uint64_t kernels = 3ull << 48;
	struct rp_listener *first = listen_to(NAME), *second = listen_to(NAME);

	/* The kernel does the same when a tracer attaches to the USDT probe. */
	__atomic_fetch_or(&events[0]->enable, kernels, __ATOMIC_SEQ_CST);
	cr_assert_eq(rp_listener_stop(first, NULL), 0);
	cr_assert_eq(__builtin_popcountll(events[0]->enable & ((1ull << 40) - 1)), 1);
	cr_assert_eq(rp_listener_stop(second, NULL), 0);
	cr_assert_eq(events[0]->enable, kernels);
	cr_assert_eq(rp_event_write(events[0], NULL, 0), 0);
	__atomic_fetch_and(&events[0]->enable, ~kernels, __ATOMIC_SEQ_CST);
}
