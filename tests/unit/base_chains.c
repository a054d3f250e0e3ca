/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdlib.h>

#include <criterion/criterion.h>

#include "base/chains.h"

#define MANY 20000u

struct thing {
	struct rp_chain_node chain;
	uint32_t number;
	bool in;
};

static struct rp_chains chains;
static struct thing things[MANY];

/* Every seventh number has the hash of the previous one. */
static uint64_t hash_of(uint32_t number)
{
	return (number - (number % 7 == 0)) * 0x9e3779b97f4a7c15ull;
}

static unsigned int times_found(uint32_t number)
{
	uint64_t hash = hash_of(number);
	unsigned int times = 0;
	struct thing *each;

	cds_hlist_for_each_entry_2(each, rp_chains_at(&chains, hash), chain.node)
		times += each->number == number && each->chain.hash == hash;
	return times;
}

static void expect_all(void)
{
	size_t in = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		cr_assert_eq(times_found(i), things[i].in, "%u", i);
		in += things[i].in;
	}
	cr_assert_eq(chains.count, in);
}

Test(base_chains, what_was_added_and_not_removed_is_found_once)
{
	for (uint32_t i = 0; i < MANY; i++) {
		things[i].number = i;
		things[i].in = true;
		rp_chains_add(&chains, &things[i].chain, hash_of(i));
		if (i == RP_CHAINS_AT_FIRST || i == MANY / 2)
			expect_all();
	}
	expect_all();
	for (uint32_t i = 0; i < MANY; i += 3) {
		rp_chains_remove(&chains, &things[i].chain);
		things[i].in = false;
	}
	expect_all();
	for (uint32_t i = 0; i < MANY; i += 6) {
		things[i].in = true;
		rp_chains_add(&chains, &things[i].chain, hash_of(i));
	}
	expect_all();
	free(chains.grown);
}

Test(base_chains, chains_stay_short)
{
	size_t longest = 0;

	for (uint32_t i = 0; i < MANY; i++)
		rp_chains_add(&chains, &things[i].chain, (uint64_t)i << 32);
	cr_assert_geq(chains.capacity, MANY / 2);
	for (size_t i = 0; i < chains.capacity; i++) {
		struct rp_chain_node *each;
		size_t length = 0;

		cds_hlist_for_each_entry_2(each, &chains.grown[i], node)
			length++;
		longest = length > longest ? length : longest;
	}
	cr_assert_leq(longest, 8);
	free(chains.grown);
}
