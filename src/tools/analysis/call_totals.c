/* SPDX-License-Identifier: MIT */
/*
 * The sums over a call tree. A walk from the roots knows which functions, or calls, are on the
 * path to the current node; only the outermost of each adds its node's sum, so recursion does not
 * count twice. The walk has no recursion of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/analysis/call_parts.h"

/* Called for a node before its children (`enters`) and after them. */
typedef int (*walk_visit)(const struct rp_call_node *node, bool enters, void *data);

static int walk(const struct rp_call_tree *tree, uint32_t group, walk_visit visit, void *data)
{
	uint32_t at = tree->groups[group].first_root;
	bool enters = true;

	while (at != RP_CALL_NONE) {
		const struct rp_call_node *node = &tree->nodes[at];
		const int ret = visit(node, enters, data);

		if (ret)
			return ret;
		if (enters && node->first_child != RP_CALL_NONE) {
			at = node->first_child;
		} else if (enters) {
			enters = false;
		} else if (node->next_sibling != RP_CALL_NONE) {
			at = node->next_sibling;
			enters = true;
		} else {
			at = node->parent;
		}
	}
	return 0;
}

static int walk_all(const struct rp_call_tree *tree, uint32_t group, walk_visit visit, void *data)
{
	int ret = 0;

	if (group != RP_CALL_NONE)
		return walk(tree, group, visit, data);
	for (size_t i = 0; ret == 0 && i < tree->group_count; i++)
		ret = walk(tree, (uint32_t)i, visit, data);
	return ret;
}

struct totals {
	struct rp_call_index by_function;
	struct rp_call_total *rows;
	uint32_t *active;		/* per row: the calls on the path to the current node */
	size_t count, capacity, active_capacity;
};

static uint64_t hash_total(const void *rows, uint32_t number)
{
	return rp_call_hash(((const struct rp_call_total *)rows)[number].function, 0);
}

static int find_total(struct totals *totals, uint32_t function, uint32_t *ret_row)
{
	struct rp_call_total *rows = totals->rows;
	uint32_t *active = totals->active;
	size_t at;

	if (rp_call_index_reserve(&totals->by_function, totals->count, hash_total, rows))
		return -ENOMEM;
	at = rp_call_hash(function, 0) & (totals->by_function.capacity - 1);
	for (; totals->by_function.slots[at]; at = (at + 1) & (totals->by_function.capacity - 1)) {
		*ret_row = totals->by_function.slots[at] - 1;
		if (rows[*ret_row].function == function)
			return 0;
	}
	rows = rp_array_reserve(rows, totals->count, &totals->capacity, 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	totals->rows = rows;
	active = rp_array_reserve(active, totals->count, &totals->active_capacity, 1,
				  sizeof(*active));
	if (!active)
		return -ENOMEM;
	totals->active = active;
	*ret_row = (uint32_t)totals->count++;
	rows[*ret_row] = (struct rp_call_total){ .function = function };
	active[*ret_row] = 0;
	totals->by_function.slots[at] = *ret_row + 1;
	return 0;
}

static int count_node(const struct rp_call_node *node, bool enters, void *data)
{
	struct totals *totals = data;
	uint32_t row;

	if (find_total(totals, node->function, &row))
		return -ENOMEM;
	if (!enters) {
		totals->active[row]--;
		return 0;
	}
	rp_call_weight_add(&totals->rows[row].exclusive, &node->own);
	if (totals->active[row]++ == 0)
		rp_call_weight_add(&totals->rows[row].inclusive, &node->sum);
	return 0;
}

int rp_call_tree_totals(const struct rp_call_tree *tree, uint32_t group,
			struct rp_call_total **ret_totals, size_t *ret_count)
{
	struct totals totals = { 0 };
	const int ret = walk_all(tree, group, count_node, &totals);

	free(totals.by_function.slots);
	free(totals.active);
	if (ret) {
		free(totals.rows);
		return ret;
	}
	*ret_totals = totals.rows;
	*ret_count = totals.count;
	return 0;
}

struct edges {
	const struct rp_call_tree *tree;
	struct rp_call_index by_pair;
	struct rp_call_edge *rows;
	uint32_t *active;
	size_t count, capacity, active_capacity;
};

static uint64_t hash_edge(const void *rows, uint32_t number)
{
	const struct rp_call_edge *edge = (const struct rp_call_edge *)rows + number;

	return rp_call_hash(edge->caller, edge->callee);
}

static int find_edge(struct edges *edges, uint32_t caller, uint32_t callee, uint32_t *ret_row)
{
	struct rp_call_edge *rows = edges->rows;
	uint32_t *active = edges->active;
	size_t at;

	if (rp_call_index_reserve(&edges->by_pair, edges->count, hash_edge, rows))
		return -ENOMEM;
	at = rp_call_hash(caller, callee) & (edges->by_pair.capacity - 1);
	for (; edges->by_pair.slots[at]; at = (at + 1) & (edges->by_pair.capacity - 1)) {
		*ret_row = edges->by_pair.slots[at] - 1;
		if (rows[*ret_row].caller == caller && rows[*ret_row].callee == callee)
			return 0;
	}
	rows = rp_array_reserve(rows, edges->count, &edges->capacity, 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	edges->rows = rows;
	active = rp_array_reserve(active, edges->count, &edges->active_capacity, 1,
				  sizeof(*active));
	if (!active)
		return -ENOMEM;
	edges->active = active;
	*ret_row = (uint32_t)edges->count++;
	rows[*ret_row] = (struct rp_call_edge){ .caller = caller, .callee = callee };
	active[*ret_row] = 0;
	edges->by_pair.slots[at] = *ret_row + 1;
	return 0;
}

static int count_edge(const struct rp_call_node *node, bool enters, void *data)
{
	struct edges *edges = data;
	const uint32_t caller = node->parent == RP_CALL_NONE ? RP_CALL_NONE :
				edges->tree->nodes[node->parent].function;
	uint32_t row;

	if (find_edge(edges, caller, node->function, &row))
		return -ENOMEM;
	if (!enters)
		edges->active[row]--;
	else if (edges->active[row]++ == 0)
		rp_call_weight_add(&edges->rows[row].weight, &node->sum);
	return 0;
}

int rp_call_tree_edges(const struct rp_call_tree *tree, struct rp_call_edge **ret_edges,
		       size_t *ret_count)
{
	struct edges edges = { .tree = tree };
	const int ret = walk_all(tree, RP_CALL_NONE, count_edge, &edges);

	free(edges.by_pair.slots);
	free(edges.active);
	if (ret) {
		free(edges.rows);
		return ret;
	}
	*ret_edges = edges.rows;
	*ret_count = edges.count;
	return 0;
}

uint64_t rp_call_weight_count(const struct rp_call_weight *weight)
{
	return weight->count;
}

uint64_t rp_call_weight_time(const struct rp_call_weight *weight)
{
	return weight->time_ns;
}

static int compare_texts(const char *a, const char *b)
{
	return !a || !b ? !a - !b : strcmp(a, b);
}

int rp_call_function_compare(const struct rp_call_tree *tree, uint32_t left, uint32_t right)
{
	const struct rp_call_function *functions = tree->functions;
	int order;

	if (left == RP_CALL_NONE || right == RP_CALL_NONE)
		return (left == RP_CALL_NONE) - (right == RP_CALL_NONE);
	order = compare_texts(functions[left].name, functions[right].name);
	return order ? order : compare_texts(functions[left].file, functions[right].file);
}

struct order_of_totals {
	const struct rp_call_tree *tree;
	rp_call_value value;
};

static int compare_totals(const void *left, const void *right, void *data)
{
	const struct order_of_totals *order = data;
	const struct rp_call_total *a = left, *b = right;
	uint64_t values[] = { order->value(&a->exclusive), order->value(&b->exclusive) };

	if (values[0] == values[1]) {
		values[0] = order->value(&a->inclusive);
		values[1] = order->value(&b->inclusive);
	}
	if (values[0] != values[1])
		return values[0] < values[1] ? 1 : -1;
	return rp_call_function_compare(order->tree, a->function, b->function);
}

void rp_call_totals_sort(const struct rp_call_tree *tree, struct rp_call_total *totals,
			 size_t count, rp_call_value value)
{
	struct order_of_totals order = { .tree = tree, .value = value };

	if (count)
		qsort_r(totals, count, sizeof(*totals), compare_totals, &order);
}
