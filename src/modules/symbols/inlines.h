/* SPDX-License-Identifier: MIT */
/* Inlined functions, from the DWARF of one file. */
#ifndef RP_SYMBOLS_INLINES_H
#define RP_SYMBOLS_INLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_inlines;

/*
 * Open a file that has this build id and DWARF. Return: 0; -ENOENT: there is no such file; -ENOMEM.
 */
int rp_inlines_open(const char *path, const uint8_t *build_id, uint32_t build_id_bytes,
		    struct rp_inlines **ret_inlines);
void rp_inlines_close(struct rp_inlines *inlines);

/*
 * Describe the functions that are inlined at an address of the file: the innermost, then in
 * parentheses those that contain it, up to `function`, as in "leaf (inlined by middle, main)".
 * A name that is too long is cut. Return: whether there are such functions.
 */
bool rp_inlines_describe(struct rp_inlines *inlines, uint64_t address, const char *function,
			 char *ret_name, size_t space);

#endif
