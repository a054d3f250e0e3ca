/* SPDX-License-Identifier: MIT */
/* Functions that check, copy and parse strings. */
#ifndef RP_BASE_TEXT_H
#define RP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Return: whether `name` is a valid name of a provider, event or field: UTF-8, 1 to RP_NAME_MAX
 * bytes.
 */
bool rp_text_is_name(const char *name);

/* As strdup(3); NULL returns NULL. */
char *rp_text_copy(const char *text);

/* Copy a path, with its first `{pid}` replaced by a process id. The caller frees it. */
char *rp_text_expand_pid(const char *path, pid_t pid);

/* Copy `length` bytes and a NUL to *space, and move *space after it. Return: the copy. */
const char *rp_text_keep(char **space, const char *text, size_t length);

/*
 * The description of an error, a string constant in English. strerror(3) is not used: it translates
 * under a lock, which libc never releases in a child forked while another thread held it.
 */
const char *rp_text_error(int error);

/* Return: the value of a hexadecimal digit of either case; -1: it is none. */
int rp_text_hex_digit(char digit);

/* Parse an integer up to `max`, without sign or blanks. Return: 0 or -EINVAL. */
int rp_text_number(const char *text, int base, uint64_t max, uint64_t *ret_number);

#endif
