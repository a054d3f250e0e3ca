/* SPDX-License-Identifier: MIT */
/* The table of generated code: which code was at an address at a time. */
#include <criterion/criterion.h>

#include <stdint.h>

#include "base/clock.h"
#include "host/generated_code.h"

#define AT 0x10000u

static void put(uint64_t address, uint64_t bytes, const char *name)
{
	rp_generated_code_lock();
	cr_assert_not_null(rp_generated_code_put(address, bytes, name));
	rp_generated_code_unlock();
}

static bool remove_code(uint64_t address)
{
	bool ret;

	rp_generated_code_lock();
	ret = rp_generated_code_remove(address);
	rp_generated_code_unlock();
	return ret;
}

/* Return: the name of the code that contained the address; "": none. */
static const char *name_at(const struct rp_code_list *list, uint64_t address, uint64_t time_ns)
{
	const struct rp_generated_code *code = rp_code_list_find(list, address, time_ns);

	return code ? code->name : "";
}

Test(generated_code, an_address_has_the_code_that_contains_it)
{
	struct rp_code_list list;
	uint64_t now;

	put(AT + 0x40, 0x20, "second");
	put(AT, 0x40, "first");
	now = rp_clock_monotonic_ns();
	rp_generated_code_list(&list);
	cr_assert_str_eq(name_at(&list, AT - 1, now), "");
	cr_assert_str_eq(name_at(&list, AT, now), "first");
	cr_assert_str_eq(name_at(&list, AT + 0x3f, now), "first");
	cr_assert_str_eq(name_at(&list, AT + 0x40, now), "second");
	cr_assert_str_eq(name_at(&list, AT + 0x60, now), "");
	rp_code_list_fini(&list);
}

Test(generated_code, removed_code_keeps_its_name_while_a_session_needs_it)
{
	struct rp_code_list list;
	uint64_t before, after;

	rp_generated_code_hold();
	put(AT, 0x40, "old");
	before = rp_clock_monotonic_ns();
	cr_assert(remove_code(AT));
	cr_assert_not(remove_code(AT));
	put(AT, 0x40, "new");
	after = rp_clock_monotonic_ns();
	rp_generated_code_list(&list);
	cr_assert_str_eq(name_at(&list, AT + 1, before), "old");
	cr_assert_str_eq(name_at(&list, AT + 1, after), "new");
	rp_code_list_fini(&list);
	rp_generated_code_release();
	rp_generated_code_list(&list);
	cr_assert_eq(list.count, 1);
	rp_code_list_fini(&list);
}

Test(generated_code, code_inside_of_other_code_is_found)
{
	struct rp_code_list list;
	uint64_t now;

	put(AT, 0x1000, "whole");
	put(AT + 0x100, 0x10, "part");
	now = rp_clock_monotonic_ns();
	rp_generated_code_list(&list);
	cr_assert_str_eq(name_at(&list, AT + 0x108, now), "part");
	cr_assert_str_eq(name_at(&list, AT + 0x200, now), "whole");
	rp_code_list_fini(&list);
}

Test(generated_code, names_are_one_line)
{
	struct rp_code_list list;

	put(AT, 1, "a\nb\x7f");
	rp_generated_code_list(&list);
	cr_assert_str_eq(name_at(&list, AT, 0), "a?b?");
	rp_code_list_fini(&list);
}
