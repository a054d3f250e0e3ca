/* SPDX-License-Identifier: MIT */
/* The set of GUIDs that counts the activities of a trace. */
#include <criterion/criterion.h>

#include <string.h>

#include <ringpipe/ringpipe.h>

#include "tools/trace/guids.h"

#define COUNT 24000u		/* the set then has 32,768 slots */

/* A search ends at a free slot, so the longest run of used slots limits its steps. */
static size_t longest_run(const struct rp_guids *set)
{
	static const struct rp_guid none;
	size_t run = 0, longest = 0;

	for (size_t i = 0; i < set->capacity; i++) {
		run = memcmp(&set->slots[i], &none, sizeof(none)) ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

Test(guids, ids_that_a_process_generates_are_found_within_few_steps)
{
	struct rp_guids set = { 0 };
	struct rp_guid id;

	for (unsigned int i = 0; i < COUNT; i++) {
		rp_activity_generate(&id);
		cr_assert_eq(rp_guids_add(&set, &id), 0);
		cr_assert_eq(rp_guids_add(&set, &id), 0);
	}
	cr_assert_eq(set.count, COUNT);
	cr_assert_lt(longest_run(&set), 500, "%zu slots", longest_run(&set));
	rp_guids_fini(&set);
}

Test(guids, ids_that_differ_in_any_two_bytes_are_found_within_few_steps)
{
	for (unsigned int i = 0; i < 16; i += 2) {
		struct rp_guids set = { 0 };
		struct rp_guid id = { 0 };

		id.bytes[(i + 2) % 16] = 1;
		for (unsigned int n = 0; n < COUNT; n++) {
			id.bytes[i] = (uint8_t)n;
			id.bytes[i + 1] = (uint8_t)(n >> 8);
			cr_assert_eq(rp_guids_add(&set, &id), 0);
		}
		cr_assert_eq(set.count, COUNT);
		cr_assert_lt(longest_run(&set), 500, "byte %u: %zu slots", i, longest_run(&set));
		rp_guids_fini(&set);
	}
}
