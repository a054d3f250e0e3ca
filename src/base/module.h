/* SPDX-License-Identifier: MIT */
/* Modules of the library: what needs more than libc, loaded when it is wanted. */
#ifndef RP_BASE_MODULE_H
#define RP_BASE_MODULE_H

#include <limits.h>
#include <stddef.h>

/*
 * The folder of the library; of the program that it is part of in a static build. Always from the
 * root: neither the working directory nor what a program was told that it is called decides what
 * code is loaded or run.
 *
 * Context: any thread. Return: 0; -ENOENT where the loader knows no such path; what readlink(2)
 * says.
 */
int rp_module_folder(char ret_folder[PATH_MAX]);

/*
 * The function of a module, which is looked for beside the library, then where the loader looks. It
 * stays loaded: nobody can tell when the last thread has left its code. NULL, with a reason in
 * `ret_reason`, where that does not work.
 *
 * Context: any thread that may load libraries.
 */
void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t room);

#endif
