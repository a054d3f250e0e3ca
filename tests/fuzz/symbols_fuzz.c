/* SPDX-License-Identifier: MIT */
/*
 * Uses any bytes as an ELF image in this process's memory: the names found are texts of limited
 * length, for functions that contain a requested address. reader_fuzz.c shows how to run it; link
 * src/modules/symbols/ and elfutils.
 */
#include <stdlib.h>

#include "host/symbols.h"
#include "input.h"

#define ADDRESSES 64u

int rp_symbols_find(const struct rp_symbols_query *query);

static void found(void *data, uint64_t start, uint64_t end, const char *name)
{
	(void)data;
	if (start >= end || strlen(name) > RP_SYMBOL_NAME_MAX)
		__builtin_trap();
}

static bool is_over(void *data)
{
	(void)data;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint64_t addresses[ADDRESSES];
	struct rp_symbols_query query = {
		.size = sizeof(query), .addresses = addresses, .address_count = ADDRESSES,
		.image_bytes = size, .found = found, .is_over = is_over,
	};
	uint8_t *image = malloc(size ? size : 1);

	if (!image)
		return 0;
	memcpy(image, bytes, size);
	query.image = image;
	for (unsigned int i = 0; i < ADDRESSES; i++)
		addresses[i] = i * i * 16u;
	(void)rp_symbols_find(&query);
	free(image);
	return 0;
}
