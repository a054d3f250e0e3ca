/* SPDX-License-Identifier: MIT */
#include "tools/cli/sparkline.h"

#include <math.h>
#include <string.h>

#define LEVELS 8

const char *rp_sparkline(const double *values, size_t count, double low, double high, char *text)
{
	static const char blocks[LEVELS][RP_SPARKLINE_BYTES + 1] = {
		"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█",
	};
	char *at = text;

	for (size_t i = 0; i < count; i++) {
		/* Halves, because the difference of two large numbers can overflow. */
		const double range = high / 2 - low / 2;
		double level = range > 0 ? (values[i] / 2 - low / 2) / range * LEVELS : 0;

		if (isnan(values[i])) {
			*at++ = ' ';
			continue;
		}
		level = level > LEVELS - 1 ? LEVELS - 1 : level >= 0 ? level : 0;
		memcpy(at, blocks[(int)level], RP_SPARKLINE_BYTES);
		at += RP_SPARKLINE_BYTES;
	}
	*at = '\0';
	return text;
}
