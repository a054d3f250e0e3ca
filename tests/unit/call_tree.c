/* SPDX-License-Identifier: MIT */
/* The call tree of src/tools/analysis/, compared with sums over all stacks, computed here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tools/analysis/call_tree.h"

#define STACKS 4000u
#define DEPTH 12u
#define FUNCTIONS 9u			/* few, so that most stacks have recursion */
#define GROUPS 5u

struct stack {
	uint32_t functions[DEPTH];	/* numbers of this test; innermost first */
	uint32_t count, group;
	uint64_t weight;
};

static struct stack stacks[STACKS];
static uint32_t ids[FUNCTIONS];		/* the tree's numbers */

static uint32_t random_below(uint32_t limit)
{
	static uint64_t state = 42;

	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % limit;
}

static void make_stacks(void)
{
	for (uint32_t i = 0; i < STACKS; i++) {
		struct stack *stack = &stacks[i];

		stack->count = random_below(DEPTH + 1);
		stack->group = random_below(GROUPS);
		stack->weight = random_below(1000);
		for (uint32_t j = 0; j < stack->count; j++)
			stack->functions[j] = random_below(FUNCTIONS);
	}
}

static void fill(struct rp_call_tree *tree)
{
	make_stacks();
	cr_assert_eq(rp_call_tree_init(tree), 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		char name[16];

		/* Two functions have one name and differ by file; one has no name. */
		snprintf(name, sizeof(name), "f%u", i / 2);
		cr_assert_eq(rp_call_tree_function(tree, i ? name : NULL, i % 2 ? "a" : "b",
						   &ids[i]), 0);
	}
	for (uint32_t i = 0; i < STACKS; i++) {
		const struct rp_call_weight weight = { 1, stacks[i].weight, stacks[i].weight / 2 };
		uint32_t group, functions[DEPTH];

		cr_assert_eq(rp_call_tree_group(tree, stacks[i].group / 2, 0, stacks[i].group,
						&group), 0);
		for (uint32_t j = 0; j < stacks[i].count; j++)
			functions[j] = ids[stacks[i].functions[j]];
		cr_assert_eq(rp_call_tree_add(tree, group, functions, stacks[i].count, &weight,
					      NULL), 0);
	}
	rp_call_tree_finish(tree);
}

static bool has_function(const struct stack *stack, uint32_t function)
{
	for (uint32_t i = 0; i < stack->count; i++) {
		if (stack->functions[i] == function)
			return true;
	}
	return false;
}

/* `caller` FUNCTIONS: the callee is outermost. */
static bool has_call(const struct stack *stack, uint32_t caller, uint32_t callee)
{
	for (uint32_t i = 0; i < stack->count; i++) {
		const uint32_t above = i + 1 < stack->count ? stack->functions[i + 1] : FUNCTIONS;

		if (stack->functions[i] == callee && above == caller)
			return true;
	}
	return false;
}

static const struct rp_call_total *find_total(const struct rp_call_total *totals, size_t count,
					      uint32_t function)
{
	static const struct rp_call_total none;

	for (size_t i = 0; i < count; i++) {
		if (totals[i].function == function)
			return &totals[i];
	}
	return &none;
}

/* Compare the sums of one group; GROUPS: of all. */
static void check_totals(const struct rp_call_tree *tree, uint32_t of, uint32_t group)
{
	struct rp_call_total *totals;
	size_t count;

	cr_assert_eq(rp_call_tree_totals(tree, group, &totals, &count), 0);
	cr_expect_eq(count, FUNCTIONS);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const struct rp_call_total *total = find_total(totals, count, ids[i]);
		uint64_t exclusive = 0, inclusive = 0, inclusive_ns = 0;

		for (uint32_t j = 0; j < STACKS; j++) {
			if (of != GROUPS && stacks[j].group != of)
				continue;
			exclusive += stacks[j].count && stacks[j].functions[0] == i;
			if (has_function(&stacks[j], i)) {
				inclusive++;
				inclusive_ns += stacks[j].weight;
			}
		}
		cr_expect_eq(total->exclusive.count, exclusive);
		cr_expect_eq(total->inclusive.count, inclusive);
		cr_expect_eq(total->inclusive.time_ns, inclusive_ns);
	}
	free(totals);
}

Test(call_tree, weights_of_functions_equal_the_sums_over_all_stacks)
{
	struct rp_call_tree tree;

	fill(&tree);
	cr_expect_eq(tree.weight.count, STACKS);
	cr_expect_eq(tree.group_count, GROUPS);
	check_totals(&tree, GROUPS, RP_CALL_NONE);
	for (size_t i = 0; i < tree.group_count; i++) {
		const struct rp_call_group *group = &tree.groups[i];
		uint64_t weight = 0;

		for (uint32_t j = 0; j < STACKS; j++)
			weight += stacks[j].group == group->thread ? stacks[j].weight : 0;
		cr_expect_eq(group->process, group->thread / 2);
		cr_expect_eq(group->weight.time_ns, weight);
		check_totals(&tree, (uint32_t)group->thread, group->number);
	}
	rp_call_tree_fini(&tree);
}

Test(call_tree, callers_and_callees_equal_the_sums_over_all_stacks)
{
	struct rp_call_tree tree;
	struct rp_call_edge *edges;
	size_t count, found = 0;

	fill(&tree);
	cr_assert_eq(rp_call_tree_edges(&tree, &edges, &count), 0);
	for (uint32_t caller = 0; caller <= FUNCTIONS; caller++) {
		for (uint32_t callee = 0; callee < FUNCTIONS; callee++) {
			const uint32_t id = caller == FUNCTIONS ? RP_CALL_NONE : ids[caller];
			uint64_t expected = 0;

			for (uint32_t j = 0; j < STACKS; j++)
				expected += has_call(&stacks[j], caller, callee);
			for (size_t j = 0; j < count; j++) {
				if (edges[j].caller != id || edges[j].callee != ids[callee])
					continue;
				found++;
				cr_expect_eq(edges[j].weight.count, expected);
				expected = 0;
			}
			cr_expect_eq(expected, 0, "the tree lacks a call");
		}
	}
	cr_expect_eq(found, count);
	free(edges);
	rp_call_tree_fini(&tree);
}

Test(call_tree, a_recursive_function_counts_once_in_a_stack)
{
	const struct rp_call_weight weight = { .count = 3 };
	struct rp_call_total *totals;
	struct rp_call_tree tree;
	uint32_t group, stack[500];
	size_t count;

	cr_assert_eq(rp_call_tree_init(&tree), 0);
	cr_assert_eq(rp_call_tree_group(&tree, 1, 0, 1, &group), 0);
	for (size_t i = 0; i < 500; i++)
		cr_assert_eq(rp_call_tree_function(&tree, "f", NULL, &stack[i]), 0);
	cr_assert_eq(rp_call_tree_add(&tree, group, stack, 500, &weight, NULL), 0);
	rp_call_tree_finish(&tree);
	cr_assert_eq(rp_call_tree_totals(&tree, RP_CALL_NONE, &totals, &count), 0);
	cr_assert_eq(count, 1);
	cr_expect_eq(totals[0].exclusive.count, 3);
	cr_expect_eq(totals[0].inclusive.count, 3);
	free(totals);
	rp_call_tree_fini(&tree);
}

Test(call_tree, a_deep_stack_keeps_its_innermost_functions)
{
	const struct rp_call_weight weight = { .count = 1 };
	static uint32_t stack[RP_CALL_DEPTH_MAX + 100];
	struct rp_call_total *totals;
	struct rp_call_tree tree;
	uint32_t group;
	size_t count;

	cr_assert_eq(rp_call_tree_init(&tree), 0);
	cr_assert_eq(rp_call_tree_group(&tree, 1, 0, 1, &group), 0);
	for (uint32_t i = 0; i < RP_CALL_DEPTH_MAX + 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		cr_assert_eq(rp_call_tree_function(&tree, name, NULL, &stack[i]), 0);
	}
	cr_assert_eq(rp_call_tree_add(&tree, group, stack, RP_CALL_DEPTH_MAX + 100, &weight, NULL),
		     0);
	rp_call_tree_finish(&tree);
	cr_assert_eq(rp_call_tree_totals(&tree, RP_CALL_NONE, &totals, &count), 0);
	cr_expect_eq(count, RP_CALL_DEPTH_MAX + 1);
	cr_expect_eq(find_total(totals, count, RP_CALL_REST)->inclusive.count, 1);
	cr_expect_eq(find_total(totals, count, stack[0])->exclusive.count, 1);
	cr_expect_eq(find_total(totals, count, stack[RP_CALL_DEPTH_MAX])->inclusive.count, 0);
	cr_expect_eq(tree.cut, 1);
	free(totals);
	rp_call_tree_fini(&tree);
}

Test(call_tree, a_full_tree_keeps_the_sum_of_all_weights)
{
	const struct rp_call_weight weight = { .count = 1 };
	const uint32_t more = RP_CALL_NODES_MAX + 5000;
	struct rp_call_total *totals;
	uint32_t group, stack[3];
	struct rp_call_tree tree;
	uint64_t exclusive = 0;
	size_t count;

	cr_assert_eq(rp_call_tree_init(&tree), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		char name[16];
		uint32_t id;

		snprintf(name, sizeof(name), "%u", i);
		cr_assert_eq(rp_call_tree_function(&tree, name, NULL, &id), 0);
	}
	cr_assert_eq(rp_call_tree_group(&tree, 1, 0, 1, &group), 0);
	for (uint32_t i = 0; i < more; i++) {
		stack[2] = 1 + i % 1000;
		stack[1] = 1 + i / 1000 % 1000;
		stack[0] = 1 + i / 1000000;
		cr_assert_eq(rp_call_tree_add(&tree, group, stack, 3, &weight, NULL), 0);
	}
	rp_call_tree_finish(&tree);
	cr_expect_leq(tree.node_count, 2 * RP_CALL_NODES_MAX);
	cr_expect_gt(tree.cut, 0);
	cr_assert_eq(rp_call_tree_totals(&tree, RP_CALL_NONE, &totals, &count), 0);
	for (size_t i = 0; i < count; i++)
		exclusive += totals[i].exclusive.count;
	cr_expect_eq(exclusive, more);
	cr_expect_eq(find_total(totals, count, RP_CALL_REST)->exclusive.count, tree.cut);
	free(totals);
	rp_call_tree_fini(&tree);
}

Test(call_tree, groups_above_the_bound_share_the_last_one)
{
	const struct rp_call_weight weight = { .count = 1 };
	struct rp_call_tree tree;
	uint32_t group;

	cr_assert_eq(rp_call_tree_init(&tree), 0);
	for (uint32_t i = 0; i < RP_CALL_GROUPS_MAX + 10; i++) {
		cr_assert_eq(rp_call_tree_group(&tree, 1, 0, i + 1, &group), 0);
		cr_assert_eq(rp_call_tree_add(&tree, group, NULL, 0, &weight, NULL), 0);
	}
	cr_assert_eq(tree.group_count, RP_CALL_GROUPS_MAX + 1);
	cr_expect(tree.groups[RP_CALL_GROUPS_MAX].is_rest);
	cr_expect_eq(tree.groups[RP_CALL_GROUPS_MAX].weight.count, 10);
	rp_call_tree_fini(&tree);
}
