/* SPDX-License-Identifier: MIT */
#include "tools/analysis/call_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/analysis/call_parts.h"

#define FIRST_CAPACITY 1024u
#define NEAR_CHILDREN 2u		/* children that are examined before the table */

static uint64_t add_up(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

void rp_call_weight_add(struct rp_call_weight *sum, const struct rp_call_weight *weight)
{
	sum->count = add_up(sum->count, weight->count);
	sum->time_ns = add_up(sum->time_ns, weight->time_ns);
	sum->runnable_ns = add_up(sum->runnable_ns, weight->runnable_ns);
}

uint64_t rp_call_hash(uint64_t a, uint64_t b)
{
	/* The last steps of MurmurHash3: every bit changes the low bits, which choose the slot. */
	uint64_t hash = a ^ (b + 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;

	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ull;
	return hash ^ hash >> 33;
}

int rp_call_index_reserve(struct rp_call_index *index, size_t count, rp_call_index_hash hash,
			  const void *rows)
{
	const size_t capacity = index->capacity ? index->capacity * 2 : FIRST_CAPACITY;
	uint32_t *slots;

	if (count < index->capacity / 2)
		return 0;
	slots = calloc(capacity, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < index->capacity; i++) {
		size_t at;

		if (!index->slots[i])
			continue;
		at = hash(rows, index->slots[i] - 1) & (capacity - 1);
		while (slots[at])
			at = (at + 1) & (capacity - 1);
		slots[at] = index->slots[i];
	}
	free(index->slots);
	index->slots = slots;
	index->capacity = capacity;
	return 0;
}

static uint64_t hash_node(const void *rows, uint32_t number)
{
	const struct rp_call_node *node = (const struct rp_call_node *)rows + number;

	return rp_call_hash((uint64_t)node->parent << 32 | node->function, node->group);
}

static uint64_t hash_function(const void *rows, uint32_t number)
{
	const struct rp_call_function *function = (const struct rp_call_function *)rows + number;

	return rp_call_hash((uintptr_t)function->name, (uintptr_t)function->file);
}

static uint64_t hash_group(const void *rows, uint32_t number)
{
	const struct rp_call_group *group = (const struct rp_call_group *)rows + number;

	return rp_call_hash(group->process + group->life, group->thread);
}

/* The function 0 is RP_CALL_REST, which no name of a trace can mean: it is not in the index. */
int rp_call_tree_init(struct rp_call_tree *tree)
{
	*tree = (struct rp_call_tree){ 0 };
	tree->functions = rp_array_reserve(NULL, 0, &tree->function_capacity, 1,
					   sizeof(*tree->functions));
	if (!tree->functions)
		return -ENOMEM;
	tree->functions[tree->function_count++] = (struct rp_call_function){ .name = "…" };
	return 0;
}

void rp_call_tree_fini(struct rp_call_tree *tree)
{
	free(tree->nodes);
	free(tree->functions);
	free(tree->groups);
	free(tree->by_path.slots);
	free(tree->by_function.slots);
	free(tree->by_group.slots);
	rp_text_pool_fini(&tree->texts);
	*tree = (struct rp_call_tree){ 0 };
}

int rp_call_tree_function(struct rp_call_tree *tree, const char *name, const char *file,
			  uint32_t *ret_function)
{
	struct rp_call_function *rows = tree->functions, key;
	size_t at;

	key.name = name ? rp_text_pool_add(&tree->texts, name) : NULL;
	key.file = file ? rp_text_pool_add(&tree->texts, file) : NULL;
	if ((name && !key.name) || (file && !key.file) ||
	    rp_call_index_reserve(&tree->by_function, tree->function_count, hash_function, rows))
		return -ENOMEM;
	at = hash_function(&key, 0) & (tree->by_function.capacity - 1);
	for (; tree->by_function.slots[at]; at = (at + 1) & (tree->by_function.capacity - 1)) {
		*ret_function = tree->by_function.slots[at] - 1;
		if (rows[*ret_function].name == key.name && rows[*ret_function].file == key.file)
			return 0;
	}
	if (tree->function_count >= RP_CALL_FUNCTIONS_MAX) {
		*ret_function = RP_CALL_REST;
		return 0;
	}
	rows = rp_array_reserve(rows, tree->function_count, &tree->function_capacity, 1,
				sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	tree->functions = rows;
	rows[tree->function_count] = key;
	*ret_function = (uint32_t)tree->function_count++;
	tree->by_function.slots[at] = *ret_function + 1;
	return 0;
}

int rp_call_tree_group(struct rp_call_tree *tree, uint64_t process, uint32_t life, uint64_t thread,
		       uint32_t *ret_group)
{
	struct rp_call_group *rows = tree->groups;
	const bool is_full = tree->group_count >= RP_CALL_GROUPS_MAX;
	size_t at;

	if (rp_call_index_reserve(&tree->by_group, tree->group_count, hash_group, rows))
		return -ENOMEM;
	at = rp_call_hash(process + life, thread) & (tree->by_group.capacity - 1);
	for (; tree->by_group.slots[at]; at = (at + 1) & (tree->by_group.capacity - 1)) {
		*ret_group = tree->by_group.slots[at] - 1;
		if (rows[*ret_group].process == process && rows[*ret_group].life == life &&
		    rows[*ret_group].thread == thread)
			return 0;
	}
	if (is_full && rows[tree->group_count - 1].is_rest) {
		*ret_group = (uint32_t)tree->group_count - 1;
		return 0;
	}
	rows = rp_array_reserve(rows, tree->group_count, &tree->group_capacity, 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	tree->groups = rows;
	*ret_group = (uint32_t)tree->group_count++;
	rows[*ret_group] = (struct rp_call_group){
		.process = is_full ? 0 : process, .life = is_full ? 0 : life,
		.thread = is_full ? 0 : thread,
		.is_rest = is_full, .first_root = RP_CALL_NONE, .number = *ret_group,
	};
	if (!is_full)
		tree->by_group.slots[at] = *ret_group + 1;
	return 0;
}

/*
 * Look among the latest children. The nodes of one path were added together and are neighbours in
 * memory, which the table's slots are not. Return: the child's number, or RP_CALL_NONE.
 */
static uint32_t find_near(const struct rp_call_tree *tree, const struct rp_call_node *key)
{
	uint32_t number = key->parent == RP_CALL_NONE ? tree->groups[key->group].first_root :
			  tree->nodes[key->parent].first_child;

	for (unsigned int i = 0; i < NEAR_CHILDREN && number != RP_CALL_NONE; i++) {
		if (tree->nodes[number].function == key->function)
			return number;
		number = tree->nodes[number].next_sibling;
	}
	return RP_CALL_NONE;
}

/* Find the child. Return: its number; RP_CALL_NONE: there is none, and its slot is `ret_at`. */
static uint32_t find_child(const struct rp_call_tree *tree, const struct rp_call_node *key,
			   size_t *ret_at)
{
	const size_t mask = tree->by_path.capacity - 1;
	size_t at = hash_node(key, 0) & mask;

	for (; tree->by_path.slots[at]; at = (at + 1) & mask) {
		const uint32_t number = tree->by_path.slots[at] - 1;
		const struct rp_call_node *node = &tree->nodes[number];

		if (node->parent == key->parent && node->function == key->function &&
		    node->group == key->group)
			return number;
	}
	*ret_at = at;
	return RP_CALL_NONE;
}

static int add_child(struct rp_call_tree *tree, const struct rp_call_node *key, size_t at,
		     uint32_t *ret_node)
{
	struct rp_call_node *nodes = rp_array_reserve(tree->nodes, tree->node_count,
						      &tree->node_capacity, 1, sizeof(*nodes));
	uint32_t *first;

	if (!nodes)
		return -ENOMEM;
	tree->nodes = nodes;
	*ret_node = (uint32_t)tree->node_count++;
	first = key->parent == RP_CALL_NONE ? &tree->groups[key->group].first_root :
		&nodes[key->parent].first_child;
	nodes[*ret_node] = *key;
	nodes[*ret_node].next_sibling = *first;
	*first = *ret_node;
	tree->by_path.slots[at] = *ret_node + 1;
	return 0;
}

/*
 * Find or add the child of `*node`, and make it `*node`. Return: 1: it is the node RP_CALL_REST
 * because the tree is full; 0; -ENOMEM.
 */
static int step(struct rp_call_tree *tree, uint32_t group, uint32_t function, uint32_t *node)
{
	struct rp_call_node key = {
		.parent = *node, .function = function, .group = group,
		.first_child = RP_CALL_NONE, .next_sibling = RP_CALL_NONE,
	};
	bool is_full = false;
	uint32_t found = find_near(tree, &key);
	size_t at;
	int ret;

	if (found != RP_CALL_NONE) {
		*node = found;
		return 0;
	}
	ret = rp_call_index_reserve(&tree->by_path, tree->node_count, hash_node, tree->nodes);
	if (ret)
		return ret;
	found = find_child(tree, &key, &at);
	if (found == RP_CALL_NONE && tree->node_count >= RP_CALL_NODES_MAX) {
		is_full = true;
		/* One node "…" takes the rest of all paths that leave the tree at this point. */
		key.function = RP_CALL_REST;
		if (*node != RP_CALL_NONE && tree->nodes[*node].function == RP_CALL_REST)
			return 1;
		found = find_child(tree, &key, &at);
	}
	if (found == RP_CALL_NONE)
		ret = add_child(tree, &key, at, &found);
	if (ret == 0)
		*node = found;
	return ret ? ret : is_full;
}

void rp_call_tree_add_to(struct rp_call_tree *tree, uint32_t group, uint32_t node,
			 const struct rp_call_weight *weight)
{
	rp_call_weight_add(&tree->weight, weight);
	rp_call_weight_add(&tree->groups[group].weight, weight);
	if (node != RP_CALL_NONE)
		rp_call_weight_add(&tree->nodes[node].own, weight);
}

int rp_call_tree_add(struct rp_call_tree *tree, uint32_t group, const uint32_t *functions,
		     size_t count, const struct rp_call_weight *weight, uint32_t *ret_node)
{
	const bool is_deep = count > RP_CALL_DEPTH_MAX;
	uint32_t node = RP_CALL_NONE;
	int ret = 0;

	if (is_deep) {
		count = RP_CALL_DEPTH_MAX;
		ret = step(tree, group, RP_CALL_REST, &node);
	}
	while (ret == 0 && count > 0)
		ret = step(tree, group, functions[--count], &node);
	if (ret < 0)
		return ret;
	tree->cut += is_deep || ret == 1;
	rp_call_tree_add_to(tree, group, node, weight);
	if (ret_node)
		*ret_node = node;
	return 0;
}

void rp_call_tree_finish(struct rp_call_tree *tree)
{
	for (size_t i = 0; i < tree->node_count; i++)
		tree->nodes[i].sum = tree->nodes[i].own;
	for (size_t i = tree->node_count; i > 0; i--) {
		const struct rp_call_node *node = &tree->nodes[i - 1];

		if (node->parent != RP_CALL_NONE)
			rp_call_weight_add(&tree->nodes[node->parent].sum, &node->sum);
	}
}
