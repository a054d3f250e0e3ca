/* SPDX-License-Identifier: MIT */
/* The executable mappings of a process, of which there may be very many. */
#include <criterion/criterion.h>

#include "tools/ringpipe-record/address_space.h"

#define PAGE 4096ull
#define FIRST 0x7f0000000000ull

/* Only the addresses of the images count. */
static char images[2];

static struct rp_mapped mapping(uint64_t number, size_t image)
{
	return (struct rp_mapped){
		.start = FIRST + number * PAGE, .end = FIRST + (number + 1) * PAGE,
		.image = (struct rp_image *)&images[image],
	};
}

static void add(struct rp_address_space *space, struct rp_mapped mapped)
{
	cr_assert(rp_address_space_add(space, &mapped) == 0);
}

static void use(const struct rp_address_space *space, uint64_t number)
{
	struct rp_mapped *found = rp_address_space_find(space, FIRST + number * PAGE);

	cr_assert_not_null(found);
	found->id = 1;
}

static void expect(const struct rp_address_space *space, uint64_t number)
{
	const struct rp_mapped *found = rp_address_space_find(space, FIRST + number * PAGE + 1);

	cr_expect(found && found->start == FIRST + number * PAGE, "mapping %lu",
		  (unsigned long)number);
}

Test(record_address_space, a_million_mappings_leave_the_memory_bounded, .timeout = 120)
{
	struct rp_address_space space = { 0 };

	add(&space, mapping(0, 0));
	add(&space, mapping(2, 1));
	use(&space, 0);
	for (uint64_t i = 0; i < 1000000; i++) {
		add(&space, mapping(4 + 2 * i, 1));
		if (i == 500)
			use(&space, 4 + 2 * i);
		cr_assert_leq(space.count, RP_ADDRESS_SPACE_MAX);
	}
	cr_expect_leq(space.capacity, 2 * RP_ADDRESS_SPACE_MAX);
	/* The mappings that stacks have used, the library as it was loaded, and the newest one. */
	expect(&space, 0);
	expect(&space, 2);
	expect(&space, 4 + 2 * 500);
	expect(&space, 4 + 2 * 999999);
	rp_address_space_fini(&space);
}

Test(record_address_space, mappings_that_are_all_used_leave_the_memory_bounded)
{
	struct rp_address_space space = { 0 };

	/* The kernel maps downwards. */
	for (uint64_t i = 100000; i > 0; i--) {
		add(&space, mapping(i, i % 2));
		use(&space, i);
		cr_assert_leq(space.count, RP_ADDRESS_SPACE_MAX);
	}
	expect(&space, 1);
	rp_address_space_fini(&space);
}

Test(record_address_space, generated_code_does_not_displace_the_files)
{
	struct rp_address_space space = { 0 };

	add(&space, mapping(0, 0));
	use(&space, 0);
	for (uint64_t i = 1; i < 2 * RP_ADDRESS_SPACE_MAX; i++) {
		struct rp_mapped generated = mapping(i, 0);

		generated.image = NULL;
		add(&space, generated);
		use(&space, i);
		cr_assert_leq(space.count, RP_ADDRESS_SPACE_MAX);
	}
	expect(&space, 0);
	expect(&space, 2 * RP_ADDRESS_SPACE_MAX - 1);
	rp_address_space_fini(&space);
}

Test(record_address_space, a_child_has_a_copy_without_ids)
{
	struct rp_address_space space = { 0 }, copy = { 0 };

	for (uint64_t i = 0; i < RP_ADDRESS_SPACE_COPY_MAX; i++)
		add(&space, mapping(i, 0));
	use(&space, 7);
	cr_assert(rp_address_space_copy(&copy, &space) == 0);
	cr_assert_eq(copy.count, space.count);
	for (uint64_t i = 0; i < RP_ADDRESS_SPACE_COPY_MAX; i++) {
		expect(&copy, i);
		cr_expect_eq(copy.mapped[i].id, 0);
	}
	rp_address_space_fini(&copy);
	/* A larger one costs each of many children little. */
	for (uint64_t i = RP_ADDRESS_SPACE_COPY_MAX; i < 4000; i++)
		add(&space, mapping(2 * i, i % 3 == 0));
	use(&space, 2 * 3000);
	cr_assert(rp_address_space_copy(&copy, &space) == 0);
	expect(&copy, 0);
	expect(&copy, 7);
	expect(&copy, 2 * 3000);
	cr_expect_lt(copy.count, space.count);
	cr_expect_eq(copy.capacity, copy.count);
	rp_address_space_fini(&copy);
	rp_address_space_fini(&space);
}

Test(record_address_space, a_mapping_replaces_what_it_overlaps)
{
	struct rp_address_space space = { 0 };
	struct rp_mapped whole = mapping(0, 0), middle = mapping(1, 1);
	const struct rp_mapped *found;

	whole.end += 2 * PAGE;
	add(&space, whole);
	add(&space, middle);
	cr_assert_eq(space.count, 3);
	expect(&space, 1);
	found = rp_address_space_find(&space, FIRST + 2 * PAGE);
	cr_assert(found && found->image == whole.image);
	cr_expect_eq(found->file_offset, 2 * PAGE);
	cr_expect_null(rp_address_space_find(&space, FIRST + 3 * PAGE));
	whole.file_offset = PAGE;
	add(&space, whole);
	cr_expect_eq(space.count, 1);
	rp_address_space_fini(&space);
}
