/* SPDX-License-Identifier: MIT */
/* A library that lttng_host loads and unloads while an LTTng session runs. */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(plugin, "Lttng-Plugin");
RP_EVENT(plugin, call, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(serial), RP_STRING(text));

void plugin_write(uint32_t serial);
int plugin_enabled(void);

RP_PUBLIC void plugin_write(uint32_t serial)
{
	plugin_call(serial, "from the plugin");
}

RP_PUBLIC int plugin_enabled(void)
{
	return plugin_call_enabled();
}
