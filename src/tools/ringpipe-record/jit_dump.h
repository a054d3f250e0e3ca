/* SPDX-License-Identifier: MIT */
/*
 * The functions of generated code, from a jitdump file: a compiler writes the file as it generates
 * code, and maps a page of it as executable, so that the mapping shows where the file is. Its
 * content is untrusted.
 *
 * Source: tools/perf/Documentation/jitdump-specification.txt of Linux.
 */
#ifndef RP_RECORD_JIT_DUMP_H
#define RP_RECORD_JIT_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether a mapping's file is one: DIRECTORY/jit-PID.dump. */
bool rp_jit_dump_is_path(const char *path);

struct rp_jit_function {
	uint64_t start, bytes;
	const char *name;		/* valid during the call; NULL: the code was moved */
	uint64_t old_start;		/* of code that was moved */
};

typedef int (*rp_jit_dump_callback)(void *data, const struct rp_jit_function *function);

/*
 * Call back for each function, in the order in which code was generated and moved. A record that
 * was cut ends the file, since the compiler may be writing.
 *
 * Return: 0; -EBADMSG: not such a file; the first other result of the callback.
 */
int rp_jit_dump_read(int fd, rp_jit_dump_callback callback, void *data);

#endif
