/* SPDX-License-Identifier: MIT */
/* Programs that are installed with the command. */
#ifndef RP_TOOL_OWN_PROGRAMS_H
#define RP_TOOL_OWN_PROGRAMS_H

#include <stdbool.h>

/*
 * Call `act` with the path that the program has in a build, in the folder next to this command's.
 * If there is no such file, call it with the path of an installed program, in libexecdir. Return:
 * the result of the last call, which is -ENOENT if there is no such file; -errno.
 */
int rp_own_program_try(const char *program, int (*act)(const char *path, void *data), void *data);

/* Return: whether the program is installed, or built, and may be executed. */
bool rp_own_program_exists(const char *program);

#endif
