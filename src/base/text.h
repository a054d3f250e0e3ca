/* SPDX-License-Identifier: MIT */
/* Strings: checked, copied, built. */
#ifndef RP_BASE_TEXT_H
#define RP_BASE_TEXT_H

#include <stdbool.h>

/* Whether `name` may name a provider, event or field: UTF-8, 1 to RP_NAME_MAX bytes. */
bool rp_text_is_name(const char *name);

/* strdup that takes NULL. */
char *rp_text_copy(const char *text);

#endif
