/* SPDX-License-Identifier: MIT */
/* UTF-8 to UTF-16 and back, for unchecked bytes. Invalid sequences become U+FFFD. */
#ifndef RP_BASE_UTF_H
#define RP_BASE_UTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writes at most max_units UTF-16LE units (no NUL) and returns how many. A character that does not
 * fit whole ends the conversion.
 */
size_t rp_utf16_from_utf8(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t max_units);

/* How many units the text would take. */
size_t rp_utf16_count(const uint8_t *in, size_t in_bytes);

/* `out` holds 3 bytes per unit. Returns the bytes written, no NUL. */
size_t rp_utf8_from_utf16(const uint8_t *in, size_t units, char *out);

/* How many units, 1 or 2, the first character of the text has; `units` is above 0. */
size_t rp_utf16_step(const uint8_t *in, size_t units);

/*
 * The character at `*at`, U+FFFD for what is none, and moves past it. There has to be one.
 */
uint32_t rp_utf8_next(const uint8_t **at, const uint8_t *end);

/* Whether all of it is UTF-8. */
bool rp_utf8_is_valid(const void *text, size_t bytes);

/* Writes one character, up to 4 bytes; returns how many. */
size_t rp_utf8_put(uint32_t character, char *out);

#endif
