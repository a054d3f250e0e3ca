/* SPDX-License-Identifier: MIT */
#include "tools/trace/kernel_symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* No function is longer; an address further away belongs to none, such as code of BPF. */
#define FUNCTION_BYTES_MAX (1u << 20)

/* Kernel addresses of the architectures with 64 bits. */
#define KERNEL_START (1ull << 63)

/* The line is an address in hex, the type of the symbol, its name, and perhaps a module. */
static int add_line(struct rp_kernel_symbols *symbols, char *line, size_t name_offset)
{
	struct rp_kernel_symbol *grown;
	uint64_t start = strtoull(line, NULL, 16);

	if (start < KERNEL_START)
		return 0;
	grown = rp_array_reserve(symbols->symbols, symbols->count, &symbols->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	symbols->symbols = grown;
	/* The offset becomes a pointer when the block of names no longer moves. */
	grown[symbols->count++] = (struct rp_kernel_symbol){ start, (char *)name_offset };
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct rp_kernel_symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;	/* as in the file */
}

static bool is_function(const char *line, const char **ret_name)
{
	const char *at = strchr(line, ' ');

	if (!at || !at[1] || !strchr("tTwW", at[1]) || at[2] != ' ')
		return false;
	*ret_name = at + 3;
	return true;
}

static int read_lines(struct rp_kernel_symbols *symbols, FILE *file)
{
	size_t used = 0, capacity = 0, space = 0;
	char *line = NULL;
	const char *name;
	int ret = 0;

	while (ret == 0 && getline(&line, &space, file) > 0) {
		size_t bytes;
		char *grown;

		if (!is_function(line, &name))
			continue;
		bytes = strcspn(name, "\t\n ");
		grown = rp_array_reserve(symbols->names, used, &capacity, bytes + 1, 1);
		if (!grown) {
			ret = -ENOMEM;
			break;
		}
		symbols->names = grown;
		memcpy(grown + used, name, bytes);
		grown[used + bytes] = '\0';
		ret = add_line(symbols, line, used);
		used += bytes + 1;
	}
	free(line);
	return ret;
}

int rp_kernel_symbols_read(struct rp_kernel_symbols *symbols)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	int ret;

	memset(symbols, 0, sizeof(*symbols));
	if (!file)
		return -errno;
	ret = read_lines(symbols, file);
	fclose(file);
	for (size_t i = 0; i < symbols->count; i++)
		symbols->symbols[i].name = symbols->names + (size_t)symbols->symbols[i].name;
	if (ret == 0 && symbols->count == 0)
		ret = -EPERM;
	if (ret < 0) {
		rp_kernel_symbols_fini(symbols);
		return ret;
	}
	qsort(symbols->symbols, symbols->count, sizeof(*symbols->symbols), compare);
	return 0;
}

void rp_kernel_symbols_fini(struct rp_kernel_symbols *symbols)
{
	free(symbols->symbols);
	free(symbols->names);
	memset(symbols, 0, sizeof(*symbols));
}

const struct rp_kernel_symbol *rp_kernel_symbols_find(const struct rp_kernel_symbols *symbols,
						      uint64_t address, uint64_t *ret_end)
{
	size_t above = rp_array_find(symbols->symbols, symbols->count, sizeof(*symbols->symbols),
				     address + 1);
	const struct rp_kernel_symbol *symbol;

	if (above == 0)
		return NULL;
	symbol = &symbols->symbols[above - 1];
	/* If one address has several names, take the first one in the file. */
	while (symbol > symbols->symbols && symbol[-1].start == symbol->start)
		symbol--;
	*ret_end = above < symbols->count ? symbols->symbols[above].start :
		   symbol->start + FUNCTION_BYTES_MAX;
	if (*ret_end - symbol->start > FUNCTION_BYTES_MAX)
		*ret_end = symbol->start + FUNCTION_BYTES_MAX;
	return address < *ret_end ? symbol : NULL;
}
