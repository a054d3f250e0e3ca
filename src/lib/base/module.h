/* SPDX-License-Identifier: MIT */
/* Modules of the library: code that needs more than libc and is loaded on demand. */
#ifndef RP_BASE_MODULE_H
#define RP_BASE_MODULE_H

#include <stddef.h>

/*
 * Find the folder of the library, or in a static build the folder of the object that contains it.
 * dladdr1(3) waits for the loader's lock. A constructor may hold that lock while it waits for a
 * client, so the thread that serves the client must not look the folder up.
 * Context: once, while the library is loaded.
 */
void rp_module_init(void);

/*
 * Return: that folder; NULL: unknown. The path is absolute, and depends neither on the working
 * directory nor on argv[0]. For the root folder it is "".
 */
const char *rp_module_folder(void);

/*
 * Load a module and return its function. The module is searched in the library's folder and then on
 * the loader's paths. It stays loaded, because a thread may still be running its code. On failure
 * the result is NULL and `ret_reason` has the reason.
 *
 * Context: any thread that may load libraries.
 */
void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t space);

#endif
