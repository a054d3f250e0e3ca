/* SPDX-License-Identifier: MIT */
/* A library with a provider, which tests load and unload. */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(plugin, "Test-Plugin");
RP_EVENT(plugin, called, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number), RP_STRING(text));
RP_EVENT(plugin, other, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));

RP_COUNTER(plugin, calls, "calls", NULL);
RP_HISTOGRAM(plugin, numbers, NULL, NULL);

__attribute__((visibility("default"))) int plugin_call(uint32_t number);
__attribute__((visibility("default"))) struct rp_counter *plugin_counter(void);
__attribute__((visibility("default"))) struct rp_counter *plugin_histogram(void);
__attribute__((visibility("default"))) uint32_t plugin_index(void);

int plugin_call(uint32_t number)
{
	plugin_calls_add(1);
	plugin_numbers_record(number);
	return plugin_called(number, "from the plugin");
}

struct rp_counter *plugin_counter(void)
{
	return plugin_calls_counter();
}

struct rp_counter *plugin_histogram(void)
{
	return plugin_numbers_counter();
}

/* Return the library's index for the event. */
uint32_t plugin_index(void)
{
	return plugin_called_event_.index;
}
