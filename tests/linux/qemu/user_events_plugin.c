/* SPDX-License-Identifier: MIT */
/* A library with an event, loaded and unloaded while a tracer reads the tracepoint. */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(plugin, "Plugin-Events");
RP_EVENT(plugin, called, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

__attribute__((visibility("default"))) int plugin_call(uint64_t serial);

/* Return: whether a tracer or session wants the event. */
int plugin_call(uint64_t serial)
{
	if (!plugin_called_enabled())
		return 0;
	plugin_called(serial);
	return 1;
}
