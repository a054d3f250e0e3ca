/* SPDX-License-Identifier: MIT */
/*
 * symbols_ask MODULE DEBUG FILE BUILD-ID ADDRESS…: finds the functions at these addresses of a file
 * by the module, with debug files below DEBUG. All numbers are hexadecimal; the build id is "" if
 * it is unknown. Prints a line "START END NAME" for each function, or one line "error: …".
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/symbols.h"

#define ADDRESSES_MAX 64

static void print(void *data, uint64_t start, uint64_t end, const char *name)
{
	(void)data;
	printf("%" PRIx64 " %" PRIx64 " %s\n", start, end, name);
}

static bool never(void *data)
{
	(void)data;
	return false;
}

static size_t parse_hex(const char *text, uint8_t *ret_bytes, size_t space)
{
	size_t count = 0;
	unsigned int byte;

	while (count < space && sscanf(text + 2 * count, "%2x", &byte) == 1)
		ret_bytes[count++] = (uint8_t)byte;
	return count;
}

int main(int argc, char **argv)
{
	uint64_t addresses[ADDRESSES_MAX];
	uint8_t build_id[RP_BUILD_ID_MAX];
	const char *paths[1];
	struct rp_symbols_query query = {
		.size = sizeof(query), .addresses = addresses, .paths = paths, .path_count = 1,
		.found = print, .is_over = never, .build_id = build_id,
	};
	rp_symbols_find_callback find = NULL;
	void *module;
	int ret;

	if (argc < 6 || argc - 5 > ADDRESSES_MAX)
		return 2;
	module = dlopen(argv[1], RTLD_NOW);
	if (module)
		*(void **)&find = dlsym(module, RP_SYMBOLS_FUNCTION);
	if (!find) {
		fprintf(stderr, "symbols_ask: %s\n", dlerror());
		return 1;
	}
	paths[0] = argv[3];
	query.named = argv[3];
	query.debug_directory = argv[2];
	query.build_id_bytes = parse_hex(argv[4], build_id, sizeof(build_id));
	for (int i = 5; i < argc; i++)
		addresses[query.address_count++] = strtoull(argv[i], NULL, 16);
	ret = find(&query);
	if (ret != 0)
		printf("error: %s\n", strerror(-ret));
	return 0;
}
