/* SPDX-License-Identifier: MIT */
/* Strings: checked, copied, built. */
#ifndef RP_BASE_TEXT_H
#define RP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether `name` may name a provider, event or field: UTF-8, 1 to RP_NAME_MAX bytes. */
bool rp_text_is_name(const char *name);

/* strdup that takes NULL. */
char *rp_text_copy(const char *text);

/* Copy `length` bytes and a NUL to *space, and move it behind them. Return: the copy. */
const char *rp_text_keep(char **space, const char *text, size_t length);

/*
 * The description of an error, a string constant in English. Not strerror(3): it translates, under
 * a lock that libc never releases in a child that was forked while another thread held it.
 */
const char *rp_text_error(int error);

/* A whole number up to `max`, without sign or blanks. Return: 0 or -EINVAL. */
int rp_text_number(const char *text, int base, uint64_t max, uint64_t *ret_number);

#endif
