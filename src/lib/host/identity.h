/* SPDX-License-Identifier: MIT */
/* The identity of this process, as clients see it. */
#ifndef RP_HOST_IDENTITY_H
#define RP_HOST_IDENTITY_H

#include <stddef.h>

#define RP_PROCESS_SYSTEM "Linux"

/* The names that .NET's clients use. */
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
 * A longer command line is cut. This many characters in UTF-16, with the other content, fit into
 * the 65,535 bytes of a message and of a payload.
 */
#define RP_PROCESS_COMMAND_LINE_BYTES 24576u
#define RP_PROCESS_NAME_BYTES 256u

/*
 * Get the arguments, separated by spaces, or "" if unknown. Return: a string for free(); NULL: no
 * memory.
 */
char *rp_process_command_line(void);

/*
 * Replace the NULs between `size` bytes of arguments with spaces, and remove those at the end.
 * `text` has space for size + 1 bytes.
 */
void rp_process_join_arguments(char *text, size_t size);

/* Get the absolute path of the program's file, even if the file was deleted. */
void rp_process_program(char *ret_path, size_t space);

/* Get the host's name of the process, or else the last component of that path. */
void rp_process_name(char ret_name[RP_PROCESS_NAME_BYTES]);

/*
 * Print a line on standard error if that is a terminal. The function does not block: if the
 * terminal is stopped, the line is dropped.
 */
void rp_process_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
