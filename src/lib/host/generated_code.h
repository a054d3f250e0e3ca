/* SPDX-License-Identifier: MIT */
/* The code that the program generates and registers with rp_code_add(). */
#ifndef RP_HOST_GENERATED_CODE_H
#define RP_HOST_GENERATED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_generated_code {
	uint64_t address;
	uint64_t bytes;
	uint64_t added_ns, removed_ns;	/* CLOCK_MONOTONIC; removed_ns UINT64_MAX: not removed */
	char *name;			/* one line */
};

/*
 * Lock the table. The functions below except rp_generated_code_list() require the lock, which
 * fork(2) takes too.
 */
void rp_generated_code_lock(void);
void rp_generated_code_unlock(void);

/*
 * Add a copy of the name and the range; the code at the same address is removed.
 * Return: the code; NULL: no memory, and the code at the address is removed nevertheless.
 */
const struct rp_generated_code *rp_generated_code_put(uint64_t address, uint64_t bytes,
						      const char *name);
/* Return: whether there was code at the address. */
bool rp_generated_code_remove(uint64_t address);

/* Call `visit` for all code, by address. Return: the first result of `visit` that is not 0. */
int rp_generated_code_visit(int (*visit)(const struct rp_generated_code *code));

/* Return: whether code is registered at this address. */
bool rp_generated_code_has(uint64_t address);

/* Hold removed code, whose names a session with stacks needs at its end. Both take the lock. */
void rp_generated_code_hold(void);
void rp_generated_code_release(void);

/* A copy of the table, for threads that must not hold the lock. */
struct rp_code_list {
	struct rp_generated_code *items;	/* sorted by address */
	size_t count, capacity;
	uint64_t longest;			/* bytes of the longest code */
};

/* Copy the table, removed code that is held included. Code that finds no memory is left out. */
void rp_generated_code_list(struct rp_code_list *ret_list);
void rp_code_list_fini(struct rp_code_list *list);

/*
 * Return: the code that contained the address at a time; or else other code that contains it,
 * because coarse times may be too early; NULL: none.
 */
const struct rp_generated_code *rp_code_list_find(const struct rp_code_list *list,
						  uint64_t address, uint64_t time_ns);

#endif
