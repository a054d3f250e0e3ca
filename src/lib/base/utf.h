/* SPDX-License-Identifier: MIT */
/* Conversion between UTF-8 and UTF-16, for unchecked bytes. Invalid sequences become U+FFFD. */
#ifndef RP_BASE_UTF_H
#define RP_BASE_UTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Write at most max_units UTF-16LE units, without a NUL. If a character does not fit as a whole,
 * the conversion ends before it. Return: the number of units.
 */
size_t rp_utf16_from_utf8(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t max_units);

/* Return: the number of UTF-16 units for the text. */
size_t rp_utf16_count(const uint8_t *in, size_t in_bytes);

/* Convert to UTF-8 without a NUL. `out` has 3 bytes per unit. Return: the bytes written. */
size_t rp_utf8_from_utf16(const uint8_t *in, size_t units, char *out);

/* Return: the number of units, 1 or 2, of the text's first character; `units` is above 0. */
size_t rp_utf16_step(const uint8_t *in, size_t units);

/*
 * Return: the character at `*at`, or U+FFFD if it is invalid; moves `*at` past it. There must be at
 * least one byte.
 */
uint32_t rp_utf8_next(const uint8_t **at, const uint8_t *end);

/* Return: whether all bytes are valid UTF-8. */
bool rp_utf8_is_valid(const void *text, size_t bytes);

/* Write one character, up to 4 bytes. Return: the number of bytes. */
size_t rp_utf8_put(uint32_t character, char *out);

/*
 * Copy a text without a NUL. Bytes that are not UTF-8, and NULs, become U+FFFD. `out` has 3 bytes
 * per byte of the text. Return: the bytes written.
 */
size_t rp_utf8_repair(const uint8_t *in, size_t bytes, char *out);

#endif
