/* SPDX-License-Identifier: MIT */
/* Names of frames outside of loaded objects: the host's own functions, and generated code. */
#ifndef RP_HOST_METHODS_H
#define RP_HOST_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/host.h>

#include "base/addresses.h"
#include "host/generated_code.h"
#include "host/symbols.h"

/* A method as traces show it. */
struct rp_method {
	uint64_t start, end;			/* end is exclusive */
	char text[RP_SYMBOL_NAME_MAX + 1];	/* NAME FILE:LINE, valid UTF-8 */
};

/* The host's modules, and the ids of their mappings in one trace. */
struct rp_method_modules {
	struct rp_method_module {
		uint64_t start, end;
		uint64_t mapping;		/* its id in the trace; 0: not in the trace yet */
		char *path;
	} *items;
	size_t count, capacity;
};

/* Get the modules from the host. Context: a thread of the library that may wait for the host. */
void rp_method_modules_init(struct rp_method_modules *modules);
void rp_method_modules_fini(struct rp_method_modules *modules);

/*
 * Find the module that contains the method. If there is none, add a module of the method alone.
 * Return: NULL: no memory.
 */
struct rp_method_module *rp_method_modules_find(struct rp_method_modules *modules,
						const struct rp_method *method);

/*
 * Describe the method of a frame in a stack of a time: `code`, or else from the host. Context: as
 * above. Return: whether it is known.
 */
bool rp_method_find(const struct rp_code_list *code, const struct rp_address *frame,
		    struct rp_method *ret_method);

/* Make the text of a method: its name, file and line. */
void rp_method_print(const struct rp_host_method *method, char ret_text[RP_SYMBOL_NAME_MAX + 1]);

#endif
