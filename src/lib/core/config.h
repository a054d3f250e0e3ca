/* SPDX-License-Identifier: MIT */
/* Parts of the configuration syntax that other files also parse. */
#ifndef RP_CORE_CONFIG_H
#define RP_CORE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* Parse a level, given as a digit or by its name in any case. Return: 0; -EINVAL: neither. */
int rp_level_parse(const char *text, size_t length, uint8_t *ret_level);

#endif
