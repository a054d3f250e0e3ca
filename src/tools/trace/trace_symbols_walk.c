/* SPDX-License-Identifier: MIT */
/* Calls a function for all build ids or names of the symbols of a trace. */
#include "tools/trace/trace_symbols.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/trace/symbol_range.h"

void rp_symbols_each_build_id(const struct rp_symbols *symbols,
			      void (*visit)(const char *file, const char *build_id, void *data),
			      void *data)
{
	for (size_t i = 0; i < symbols->mappings.count; i++) {
		const struct rp_symbol_range *row = &symbols->mappings.rows[i];

		if (row->build_id)
			visit(row->name, row->build_id, data);
	}
}

int rp_symbols_render(struct rp_symbols *symbols, char *(*render)(const char *name, void *data),
		      void *data)
{
	for (size_t i = 0; i < symbols->functions.count; i++) {
		char *text = render(symbols->functions.rows[i].name, data);

		symbols->functions.rows[i].name = text ? rp_text_pool_add(&symbols->texts, text) :
						  NULL;
		free(text);
		if (!symbols->functions.rows[i].name)
			return -ENOMEM;
	}
	return 0;
}
