/* SPDX-License-Identifier: MIT */
/*
 * A call tree (calling context tree): each node is a function as called along one path from the
 * outermost function of a stack. A stack adds its weight to the node of its innermost function. A
 * group, which is a process or a thread, has a tree of its own; functions are shared.
 *
 * The memory is bounded, to about 200 MB without names, and the sum of all weights stays exact:
 *  - The innermost RP_CALL_DEPTH_MAX functions of a stack count; RP_CALL_REST replaces the others.
 *  - After RP_CALL_NODES_MAX nodes, a stack that needs another node adds its weight to a node
 *    RP_CALL_REST at the end of the part of its path that is in the tree.
 *  - After RP_CALL_FUNCTIONS_MAX functions, each further one is RP_CALL_REST.
 *  - After RP_CALL_GROUPS_MAX groups, each further one is one last group, `is_rest`.
 */
#ifndef RP_TOOL_CALL_TREE_H
#define RP_TOOL_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace/text_pool.h"

#define RP_CALL_DEPTH_MAX 1024u
#define RP_CALL_NODES_MAX (1u << 20)
#define RP_CALL_FUNCTIONS_MAX (1u << 19)
#define RP_CALL_GROUPS_MAX (1u << 19)

#define RP_CALL_REST 0u			/* the function "…", for what is beyond the bounds */
#define RP_CALL_NONE UINT32_MAX		/* no node, no function; of groups: all */

/* A sum of samples or waits. Sums stop at UINT64_MAX. */
struct rp_call_weight {
	uint64_t count;
	uint64_t time_ns;		/* of waits */
	uint64_t runnable_ns;		/* the part in which the thread could have run */
};

struct rp_call_function {
	const char *name;		/* NULL: unknown */
	const char *file;		/* NULL: unknown */
};

struct rp_call_group {
	uint64_t process, thread;
	uint32_t life;			/* of the process id: how many processes had it before */
	bool is_rest;			/* stands for all groups beyond the bound */
	struct rp_call_weight weight;
	uint32_t first_root;		/* a node, or RP_CALL_NONE */
	uint32_t number;		/* the argument of rp_call_tree_totals() */
};

struct rp_call_node {
	uint32_t parent;		/* a node; of a root: RP_CALL_NONE */
	uint32_t function;
	uint32_t group;
	uint32_t first_child, next_sibling;
	struct rp_call_weight own;	/* of the stacks that end here */
	struct rp_call_weight sum;	/* `own` and those of all children; see _finish() */
};

/* A hash table of numbers of rows. */
struct rp_call_index {
	uint32_t *slots;		/* a row's number and 1, or 0 */
	size_t capacity;
};

/* Initialise it by rp_call_tree_init(). */
struct rp_call_tree {
	struct rp_call_weight weight;	/* of all stacks */
	struct rp_call_node *nodes;	/* a parent comes before its children */
	size_t node_count, node_capacity;
	struct rp_call_function *functions;
	size_t function_count, function_capacity;
	struct rp_call_group *groups;
	size_t group_count, group_capacity;
	struct rp_call_index by_path, by_function, by_group;
	struct rp_text_pool texts;
	uint64_t cut;			/* stacks that a bound changed */
};

/* A function's row. A stack with several calls of the function counts once for `inclusive`. */
struct rp_call_total {
	uint32_t function;
	struct rp_call_weight exclusive, inclusive;
};

/* A function called by another. A stack with several such calls counts once. */
struct rp_call_edge {
	uint32_t caller;		/* RP_CALL_NONE: the callee is outermost */
	uint32_t callee;
	struct rp_call_weight weight;
};

/* Return: 0; -ENOMEM. */
int rp_call_tree_init(struct rp_call_tree *tree);
void rp_call_tree_fini(struct rp_call_tree *tree);

void rp_call_weight_add(struct rp_call_weight *sum, const struct rp_call_weight *weight);

/* Find or add the function; the tree copies the texts, which may be NULL. Return: 0; -ENOMEM. */
int rp_call_tree_function(struct rp_call_tree *tree, const char *name, const char *file,
			  uint32_t *ret_function);
/* Find or add a group. Return: 0; -ENOMEM. */
int rp_call_tree_group(struct rp_call_tree *tree, uint64_t process, uint32_t life, uint64_t thread,
		       uint32_t *ret_group);

/*
 * Add a stack.
 * @functions: `count` functions, innermost first; without any, the group alone gets the weight.
 * @ret_node: the node that got the weight, or RP_CALL_NONE; or NULL.
 * Return: 0; -ENOMEM.
 */
int rp_call_tree_add(struct rp_call_tree *tree, uint32_t group, const uint32_t *functions,
		     size_t count, const struct rp_call_weight *weight, uint32_t *ret_node);

/* Add to the weight of a stack that was added; with RP_CALL_NONE, of the group alone. */
void rp_call_tree_add_to(struct rp_call_tree *tree, uint32_t group, uint32_t node,
			 const struct rp_call_weight *weight);

/* Compute `sum` of all nodes. Call it after the last stack. */
void rp_call_tree_finish(struct rp_call_tree *tree);

/*
 * Make the rows of functions of a group, or of all groups: RP_CALL_NONE. They have no order.
 * @ret_totals: for free().
 * Return: 0; -ENOMEM.
 */
int rp_call_tree_totals(const struct rp_call_tree *tree, uint32_t group,
			struct rp_call_total **ret_totals, size_t *ret_count);
/* Return: the number of a weight that a report shows: of samples, or of nanoseconds. */
typedef uint64_t (*rp_call_value)(const struct rp_call_weight *weight);
uint64_t rp_call_weight_count(const struct rp_call_weight *weight);
uint64_t rp_call_weight_time(const struct rp_call_weight *weight);

/*
 * Compare functions by their names and files, since their numbers follow the order of the trace.
 * RP_CALL_NONE is the last. Return: as strcmp(3).
 */
int rp_call_function_compare(const struct rp_call_tree *tree, uint32_t left, uint32_t right);
/* Sort rows, the largest first: by the exclusive and then the inclusive value. */
void rp_call_totals_sort(const struct rp_call_tree *tree, struct rp_call_total *totals,
			 size_t count, rp_call_value value);
/* Make the rows of callers and callees, in no order, for free(). Return: 0; -ENOMEM. */
int rp_call_tree_edges(const struct rp_call_tree *tree, struct rp_call_edge **ret_edges,
		       size_t *ret_count);

#endif
