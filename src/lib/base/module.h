/* SPDX-License-Identifier: MIT */
/* Modules of the library: what needs more than libc, loaded when it is wanted. */
#ifndef RP_BASE_MODULE_H
#define RP_BASE_MODULE_H

#include <limits.h>
#include <stddef.h>

/*
 * The folder of the library; of the program that it is part of in a static build. Always from the
 * root: neither the working directory nor argv[0] affects which code is loaded or run.
 *
 * Context: any thread. Return: 0; -ENOENT where the loader knows no such path; what readlink(2)
 * says.
 */
int rp_module_folder(char ret_folder[PATH_MAX]);

/*
 * Loads a module and returns its function. The module is searched in the library's folder and then
 * on the loader's paths. It stays loaded, because a thread may still be inside its code. On failure
 * the result is NULL and `ret_reason` has the reason.
 *
 * Context: any thread that may load libraries.
 */
void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t space);

#endif
