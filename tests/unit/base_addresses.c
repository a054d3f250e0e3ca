/* SPDX-License-Identifier: MIT */
/*
 * Sets of addresses: each is stored once, with its first time, up to a limit; those beyond are
 * counted.
 */
#include <criterion/criterion.h>

#include "base/addresses.h"

#define CEILING 65536u

Test(base_addresses, keeps_each_address_once_with_its_first_time)
{
	const uint64_t frames[] = { 0x1000, 0x2000, 0x1000, 0, 0x3000 };
	struct rp_address_set set = { 0 };
	const struct rp_address *list;
	uint64_t sum = 0;

	rp_address_set_add(&set, frames, 5, 7);
	rp_address_set_add(&set, frames, 5, 8);
	cr_assert_eq(set.count, 3);
	list = rp_address_set_list(&set);
	for (size_t i = 0; i < set.count; i++) {
		sum += list[i].address;
		cr_expect_eq(list[i].time_ns, 7);
	}
	cr_assert_eq(sum, 0x6000);
	cr_assert_eq(set.left_out, 0);
	rp_address_set_fini(&set);
}

Test(base_addresses, counts_what_is_above_the_ceiling)
{
	struct rp_address_set set = { 0 };

	for (uint64_t i = 1; i <= CEILING + 10; i++)
		rp_address_set_add(&set, &i, 1, 0);
	cr_assert_eq(set.count, CEILING);
	cr_assert_eq(set.left_out, 10);
	/* Addresses that are already in the set do not count as omitted. */
	for (uint64_t i = 1; i <= CEILING; i++)
		rp_address_set_add(&set, &i, 1, 0);
	cr_assert_eq(set.left_out, 10);
	rp_address_set_fini(&set);
}

Test(base_addresses, is_empty_without_addresses)
{
	struct rp_address_set set = { 0 };

	rp_address_set_add(&set, "", 0, 0);
	rp_address_set_list(&set);
	cr_assert_eq(set.count, 0);
	rp_address_set_fini(&set);
}
