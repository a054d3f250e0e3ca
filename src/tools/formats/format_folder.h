/* SPDX-License-Identifier: MIT */
/* The folder of a format that consists of several files. */
#ifndef RP_TOOL_FORMAT_FOLDER_H
#define RP_TOOL_FORMAT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Check that the format can make the folder, which does not exist afterwards. The function removes
 * an empty folder. With `force`, it also removes a folder of files if one is the metadata of CTF.
 * Prints the cause of a failure. Return: 0; -errno.
 */
int rp_format_folder_prepare(const char *path, bool force);

/*
 * Find out why a writer could not extend one of the files in the folder by `bytes`: the function
 * extends each of them. Return: 0, if this is possible now; -errno of the first failure.
 */
int rp_format_folder_extend(const char *path, uint64_t bytes);

/* Check that the folder has space for a new file. Return: 0; -errno: it has not. */
int rp_format_folder_check_space(const char *path, uint64_t bytes);

/* Return: the bytes of all files in the folder. */
uint64_t rp_format_folder_bytes(const char *path);

/* Remove the files in the folder, and the folder if it is then empty. */
void rp_format_folder_remove(const char *path);

#endif
