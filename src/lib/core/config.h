/* SPDX-License-Identifier: MIT */
/* Words of the configuration that others read, too. */
#ifndef RP_CORE_CONFIG_H
#define RP_CORE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* A level as a digit or by its name, in any case. 0 or -EINVAL. */
int rp_level_parse(const char *text, size_t length, uint8_t *ret_level);

#endif
