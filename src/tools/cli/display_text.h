/* SPDX-License-Identifier: MIT */
/* Text for people: cleans untrusted text and formats numbers. */
#ifndef RP_TOOL_DISPLAY_TEXT_H
#define RP_TOOL_DISPLAY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of the buffers for rp_text_count() and the similar functions. */
#define RP_TEXT_MAX 48

/*
 * Make a copy that is valid UTF-8: each invalid sequence becomes U+FFFD. With `terminal`, control
 * characters are replaced too (names of processes and providers must not control the terminal).
 * NULL is treated as "". Return: the copy, for free(), or NULL without memory.
 */
char *rp_text_clean(const char *text, bool terminal);

/*
 * Convert UTF-16 (little-endian, unaligned) to UTF-8. A lone surrogate becomes U+FFFD; a NUL ends
 * the text. Return: the text, for free(), or NULL without memory.
 */
char *rp_text_from_utf16(const void *units, size_t unit_count);

/* Write two lower-case hexadecimal digits for each byte, and a NUL. */
void rp_text_hex(const uint8_t *bytes, size_t count, char *text);

/* Each of the following functions returns `buffer`, of RP_TEXT_MAX bytes. */
/* 1,234,567 */
const char *rp_text_count(uint64_t count, char *buffer);
/* 1 event; 2 events; 0 batches. `noun` is in the singular and has up to 18 bytes. */
const char *rp_text_counted(uint64_t count, const char *noun, char *buffer);
/* 45.3 MB */
const char *rp_text_bytes(uint64_t bytes, char *buffer);
/* 12.345 s; 1 h 02 min 03 s */
const char *rp_text_duration(uint64_t ns, char *buffer);
/* 830 ns; 12.3 us; 4.56 ms; 7.89 s; 1234 s */
const char *rp_text_short_time(uint64_t ns, char *buffer);
/* 2026-11-21 01:02:03.004 */
const char *rp_text_utc(int64_t utc_ns, char *buffer);
/* 2026-11-21T01:02:03.004005006Z */
const char *rp_text_utc_ns(int64_t utc_ns, char *buffer);
/* Formats a rate per second; "-" if the time is 0. */
const char *rp_text_rate(uint64_t count, uint64_t ns, char *buffer);

/* Return: the columns that the text needs on a terminal, one for each character. */
size_t rp_text_width(const char *text);

#endif
