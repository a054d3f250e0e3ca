/* SPDX-License-Identifier: MIT */
/* A line of block characters that shows how a value changed. */
#ifndef RP_TOOL_SPARKLINE_H
#define RP_TOOL_SPARKLINE_H

#include <stddef.h>

/* The bytes of a character, of which a line has one for each value. */
#define RP_SPARKLINE_BYTES 3u

/*
 * Draw `count` values from `low`, the lowest block, to `high`, the full one. NaN is a blank; values
 * outside are drawn as `low` or `high`.
 * @text: RP_SPARKLINE_BYTES for each value, and one byte for the NUL.
 * Return: `text`.
 */
const char *rp_sparkline(const double *values, size_t count, double low, double high, char *text);

#endif
