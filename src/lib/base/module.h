/* SPDX-License-Identifier: MIT */
/* Modules of the library: code that needs more than libc and is loaded on demand. */
#ifndef RP_BASE_MODULE_H
#define RP_BASE_MODULE_H

#include <limits.h>
#include <stddef.h>

/*
 * Get the folder of the library, or in a static build the folder of the object that contains it.
 * The path is absolute, and depends neither on the working directory nor on argv[0]. For the root
 * folder it is "".
 *
 * Context: any thread. Return: 0; -ENOENT: the loader knows no absolute path; -errno of
 * readlink(2).
 */
int rp_module_folder(char ret_folder[PATH_MAX]);

/*
 * Load a module and return its function. The module is searched in the library's folder and then on
 * the loader's paths. It stays loaded, because a thread may still be running its code. On failure
 * the result is NULL and `ret_reason` has the reason.
 *
 * Context: any thread that may load libraries.
 */
void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t space);

#endif
