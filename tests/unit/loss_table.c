/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/trace/loss_event.h"
#include "tools/trace/loss_table.h"

#define NAME "a\xef\xbf\xbd" "b"	/* as a terminal shows it */

Test(loss_table, losses_by_process_ring_and_reason_are_summed_and_the_largest_printed)
{
	struct rp_loss_table table = { 0 };
	struct rp_loss_worst worst;
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	for (uint32_t i = 0; i < 3 * 11; i++) {
		struct rp_loss_sum sum = {
			.process = 10 + (pid_t)(i % 11), .ring = i % 11 ? 3 : RP_LOSS_NO_RING,
			.name = "a\nb", .reason = "full", .lost = 100 - i % 11,
		};

		cr_assert_eq(rp_loss_table_add(&table, &sum), 0);
	}
	rp_loss_table_find_worst(&table, &worst);
	rp_loss_worst_print(&worst, 3 * (11 * 100 - 55) + 7, " (", stream);
	fclose(stream);
	cr_expect_eq(table.count, 11);
	cr_expect(strstr(text, " (300 full of " NAME " (10), 297 full in ring 3 of " NAME " (11)")
		  == text, "%s", text);
	cr_expect(strstr(text, ", 279 full in ring 3 of " NAME " (17), 819 in 3 more rings, "
			 "7 without a reason"), "%s", text);
	rp_loss_table_fini(&table);
	free(text);
}

Test(loss_table, sums_are_limited_and_further_losses_printed_as_those_of_other_rings)
{
	struct rp_loss_table table = { 0 };
	struct rp_loss_worst worst;
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	/* Each loss has a ring of its own, twice. */
	for (uint32_t i = 0; i < 200000; i++) {
		struct rp_loss_sum sum = {
			.process = 10, .ring = i % 100000, .name = "a", .reason = "full",
			.lost = 1,
		};

		cr_assert_eq(rp_loss_table_add(&table, &sum), 0);
	}
	rp_loss_table_find_worst(&table, &worst);
	rp_loss_worst_print(&worst, 200003, "", stream);
	fclose(stream);
	cr_expect_leq(table.count, 4096);
	cr_expect(strstr(text, "2 full in ring 0 of a (10), 2 full in ring 1 of a (10), ") == text,
		  "%s", text);
	cr_expect(strstr(text, ", 8,176 in 4,088 more rings, 191,808 in other rings, "
			 "3 without a reason"), "%s", text);
	rp_loss_table_fini(&table);
	free(text);
}

Test(loss_table, losses_of_a_ring_differ_by_reason_and_equal_ones_are_in_order_of_process_and_ring)
{
	static const struct rp_loss_sum sums[] = {
		{ .process = 11, .ring = 1, .name = "a", .reason = "full", .lost = 5 },
		{ .process = 10, .ring = 2, .name = "a", .reason = "full", .lost = 5 },
		{ .process = 10, .ring = 1, .name = "a", .reason = "full", .lost = 5 },
		{ .process = 10, .ring = 1, .name = "a", .reason = "busy", .lost = 7 },
		{ .process = 10, .ring = 1, .name = "a", .reason = "busy", .lost = 1 },
	};
	struct rp_loss_table table = { 0 };
	struct rp_loss_worst worst;
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		cr_assert_eq(rp_loss_table_add(&table, &sums[i]), 0);
	rp_loss_table_find_worst(&table, &worst);
	rp_loss_worst_print(&worst, 23, "", stream);
	fclose(stream);
	cr_expect_str_eq(text, "8 busy in ring 1 of a (10), 5 full in ring 1 of a (10), "
			 "5 full in ring 2 of a (10), 5 full in ring 1 of a (11)");
	rp_loss_table_fini(&table);
	free(text);
}

Test(loss_table, each_reason_of_a_ring_has_a_sum_of_its_own)
{
	struct rp_loss_table table = { 0 };

	for (uint64_t i = 0; i < 2 * 1000; i++) {
		struct rp_loss_sum sum = { .process = 10, .ring = 1, .lost = 1 + i % 1000 };

		snprintf(sum.reason, sizeof(sum.reason), "%u", (unsigned int)(i % 1000));
		cr_assert_eq(rp_loss_table_add(&table, &sum), 0);
	}
	cr_assert_eq(table.count, 1000);
	for (size_t i = 0; i < table.count; i++)
		cr_expect_eq(table.sums[i].lost,
			     2 * (strtoull(table.sums[i].reason, NULL, 10) + 1));
	rp_loss_table_fini(&table);
}

Test(display_text, a_count_of_one_has_the_singular_of_its_noun)
{
	char text[RP_TEXT_MAX];

	cr_expect_str_eq(rp_text_counted(1, "event", text), "1 event");
	cr_expect_str_eq(rp_text_counted(0, "event", text), "0 events");
	cr_expect_str_eq(rp_text_counted(1234, "system call", text), "1,234 system calls");
	cr_expect_str_eq(rp_text_counted(1, "process", text), "1 process");
	cr_expect_str_eq(rp_text_counted(2, "process", text), "2 processes");
	cr_expect_str_eq(rp_text_counted(3, "batch", text), "3 batches");
	/* The largest number and a long noun fit the buffer. */
	cr_expect_str_eq(rp_text_counted(UINT64_MAX, "abcdefghijklmnopqr", text),
			 "18,446,744,073,709,551,615 abcdefghijklmnopqrs");
}
