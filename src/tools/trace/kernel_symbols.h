/* SPDX-License-Identifier: MIT */
/* The functions of the kernel and its modules, from /proc/kallsyms. */
#ifndef RP_TOOL_KERNEL_SYMBOLS_H
#define RP_TOOL_KERNEL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_kernel_symbol {
	uint64_t start;
	const char *name;
};

struct rp_kernel_symbols {
	struct rp_kernel_symbol *symbols;	/* sorted by address */
	size_t count, capacity;
	char *names;
};

/*
 * Read the file. Return: 0; -EPERM: the kernel shows no addresses (kptr_restrict, or missing
 * rights); -ENOMEM; -errno of open(2).
 */
int rp_kernel_symbols_read(struct rp_kernel_symbols *symbols);
void rp_kernel_symbols_fini(struct rp_kernel_symbols *symbols);

/* Find the function that contains `address`; `ret_end` is exclusive. Return: NULL: none. */
const struct rp_kernel_symbol *rp_kernel_symbols_find(const struct rp_kernel_symbols *symbols,
						      uint64_t address, uint64_t *ret_end);

#endif
