/* SPDX-License-Identifier: MIT */
/* A fuzzer's bytes as a file, for functions that open a path. */
#ifndef FUZZ_INPUT_FILE_H
#define FUZZ_INPUT_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Put the bytes into the file. Return: its path. After this, messages on `stderr` are discarded. */
static inline const char *fuzz_file(const uint8_t *bytes, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("input", MFD_CLOEXEC);
		/* The sanitizers write to the descriptor, but the messages are not needed. */
		stderr = fopen("/dev/null", "we");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || !stderr || ftruncate(fd, 0) != 0 ||
	    pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
	return path;
}

/* Return: a stream that discards what is written. */
static inline FILE *fuzz_output(void)
{
	static FILE *out;

	if (!out)
		out = fopen("/dev/null", "we");
	if (!out)
		abort();
	return out;
}

#endif
