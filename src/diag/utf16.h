/* SPDX-License-Identifier: MIT */
/* Between the protocol's UTF-16 and the library's UTF-8. What is not valid becomes U+FFFD. */
#ifndef RP_DIAG_UTF16_H
#define RP_DIAG_UTF16_H

#include <stddef.h>
#include <stdint.h>

/*
 * Converts `units` little-endian units, which need not be aligned. `to` has room for three bytes
 * per unit. Return: the bytes written; no NUL is added.
 */
size_t rp_diag_utf8_from_utf16(const uint8_t *from, size_t units, char *to);

/*
 * Converts text that ends in NUL. `to` has room for one unit per byte of the text.
 * Return: the units written; no NUL is added.
 */
size_t rp_diag_utf16_from_utf8(const char *from, uint8_t *to);

#endif
