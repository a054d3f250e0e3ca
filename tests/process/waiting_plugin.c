/* SPDX-License-Identifier: MIT */
/* A library that writes more events than any ring holds, in its constructor and its destructor. */
#include "waiting.h"

RP_PROVIDER(plugged, "Test-Waiting");
RP_EVENT(plugged, mark, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

static uint64_t serial;

static void write_some(void)
{
	static const uint8_t filling[FILLING_BYTES];

	for (uint64_t end = serial + PLUGIN_EVENTS; serial < end; serial++)
		plugged_mark(PLUGIN_STREAM, serial, filling, sizeof(filling));
}

__attribute__((constructor)) static void on_load(void)
{
	write_some();
}

__attribute__((destructor)) static void on_unload(void)
{
	write_some();
}
