/* SPDX-License-Identifier: MIT */
#ifndef RP_TOOL_PRELOAD_CHECK_H
#define RP_TOOL_PRELOAD_CHECK_H

/*
 * Check that the loader would load libringpipe-inbox, which LD_PRELOAD names, into a program.
 * @path: an ELF file, or a script, whose interpreter is checked too.
 *
 * Return: 0; -EINVAL, after an error line that states the reason.
 */
int rp_preload_check(const char *path);

/*
 * Find a program as execvp(3) does: in PATH, unless the name has a slash.
 * Return: the path, which the caller frees; NULL with errno set.
 */
char *rp_preload_find(const char *name);

#endif
