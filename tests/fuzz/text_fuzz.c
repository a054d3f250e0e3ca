/* SPDX-License-Identifier: MIT */
/*
 * Parses any text as input from the environment, a request's header or the kernel: a diagnostics
 * port, a traceparent, the smaps of a process. reader_fuzz.c shows how to run it; link all of src/.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringpipe/activity.h>

#include "diag/ports.h"
#include "tools/ringpipe-dump/maps.h"
#include "input.h"

static void parse_port(const char *text, size_t size)
{
	struct rp_port port;
	int ret = rp_port_parse(text, size, &port);

	if (ret == 0 && (port.path[0] != '/' || strnlen(port.path, sizeof(port.path)) ==
			 sizeof(port.path)))
		__builtin_trap();
	if (ret != 0 && ret != -EINVAL && ret != -ENAMETOOLONG)
		__builtin_trap();
}

/* A parsed value is formatted as before, except for the caller's span, which is now this span. */
static void parse_traceparent(const char *text, size_t size)
{
	char printed[RP_TRACEPARENT_SIZE];
	struct rp_activity activity;
	uint8_t flags;

	if (rp_traceparent_parse(text, size, &activity, &flags) != 0)
		return;
	rp_traceparent_print(&activity, flags, printed);
	if (strlen(printed) != RP_TRACEPARENT_SIZE - 1 || memcmp(printed + 3, text + 3, 33) != 0)
		__builtin_trap();
}

static void parse_maps(const char *text, size_t size)
{
	FILE *file = size ? fmemopen((void *)(uintptr_t)text, size, "r") : NULL;
	struct rp_dump_maps maps;

	if (!file)
		return;
	if (rp_dump_maps_parse(&maps, file) == 0) {
		for (size_t i = 0; i < maps.count; i++) {
			if (!maps.rows[i].path || maps.rows[i].start >= maps.rows[i].end)
				__builtin_trap();
		}
	}
	rp_dump_maps_fini(&maps);
	fclose(file);
}

/* The first byte selects the parser. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static void (*const parsers[])(const char *text, size_t size) = {
		parse_port, parse_traceparent, parse_maps,
	};
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, bytes + 1, size - 1);
	parsers[bytes[0] % 3](text, size - 1);
	free(text);
	return 0;
}
