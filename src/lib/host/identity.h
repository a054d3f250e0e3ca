/* SPDX-License-Identifier: MIT */
/* The identity of this process, as clients see it. */
#ifndef RP_HOST_IDENTITY_H
#define RP_HOST_IDENTITY_H

#include <stddef.h>

#define RP_PROCESS_SYSTEM "Linux"

/* As .NET's clients name them. */
#if defined(__x86_64__)
#define RP_PROCESS_ARCHITECTURE "x64"
#elif defined(__aarch64__)
#define RP_PROCESS_ARCHITECTURE "arm64"
#elif defined(__i386__)
#define RP_PROCESS_ARCHITECTURE "x86"
#elif defined(__arm__)
#define RP_PROCESS_ARCHITECTURE "arm32"
#else
#define RP_PROCESS_ARCHITECTURE "unknown"
#endif

/*
 * A command line longer than this is cut. Twice that, as UTF-16, and what goes with it stay below
 * the 65,535 bytes of a message and of a payload.
 */
#define RP_PROCESS_COMMAND_LINE_BYTES 24576u
#define RP_PROCESS_NAME_BYTES 256u

/* The arguments with spaces between them, "" when unknown: free() it. NULL without memory. */
char *rp_process_command_line(void);

/*
 * Replaces the NULs between `size` bytes of arguments by spaces and drops those at the end.
 * `text` has room for size + 1 bytes.
 */
void rp_process_join_arguments(char *text, size_t size);

/* The absolute path of the program's file, whether or not it was deleted meanwhile. */
void rp_process_program(char *ret_path, size_t space);

/* The last part of that path. */
void rp_process_name(char ret_name[RP_PROCESS_NAME_BYTES]);

/*
 * Print a line on standard error where that is a terminal. It does not block: a terminal that was
 * stopped goes without the line.
 */
void rp_process_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
