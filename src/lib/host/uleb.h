/* SPDX-License-Identifier: MIT */
/* Unsigned LEB128, the integers of Universal.System: seven bits per byte, lowest first. */
#ifndef RP_HOST_ULEB_H
#define RP_HOST_ULEB_H

#include <stdint.h>

#define RP_ULEB_BYTES 10u

/* Return: the number of bytes written, at most RP_ULEB_BYTES. */
static inline uint32_t rp_uleb_put(uint8_t *out, uint64_t value)
{
	uint32_t size = 0;

	while (value >= 0x80) {
		out[size++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	out[size++] = (uint8_t)value;
	return size;
}

#endif
