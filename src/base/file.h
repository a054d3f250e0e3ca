/* SPDX-License-Identifier: MIT */
/* Small files read whole, and writes that go through. */
#ifndef RP_BASE_FILE_H
#define RP_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads up to `size` bytes of a file. Return: the bytes, or -errno. */
ssize_t rp_file_read(const char *path, void *buffer, size_t size);

#endif
