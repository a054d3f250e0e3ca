/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include <errno.h>
#include <string.h>

static uint32_t size_of(const void *sized)
{
	uint32_t size;

	memcpy(&size, sized, sizeof(size));
	return size;
}

const char *rp_sized_refusal(const void *from, size_t known, size_t floor)
{
	const uint32_t size = size_of(from);

	if (size < floor)
		return "it has headers from before version 1";
	for (size_t i = known; i < size; i++) {
		if (((const char *)from)[i] != 0)
			return "it needs a later version of the library";
	}
	return NULL;
}

int rp_sized_read(void *to, size_t known, size_t floor, const void *from)
{
	const uint32_t own_size = (uint32_t)known;
	uint32_t size;

	if (!from || rp_sized_refusal(from, known, floor))
		return -EINVAL;
	size = size_of(from);
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	memcpy(to, &own_size, sizeof(own_size));
	return 0;
}

bool rp_sized_fits(const void *result, size_t floor)
{
	return !result || size_of(result) >= floor;
}

void rp_sized_write(void *result, const void *from, size_t known)
{
	const uint32_t size = size_of(result);

	memcpy(result, from, size < known ? size : known);
	if (size > known)
		memset((char *)result + known, 0, size - known);
	memcpy(result, &size, sizeof(size));
}
