/* SPDX-License-Identifier: MIT */
/* Logs with GLib through the log writer, for log_sinks_test.py. */
#define G_LOG_USE_STRUCTURED
#define G_LOG_DOMAIN "shop"
#include <string.h>

#include <ringpipe/sinks/glib.h>

int main(void)
{
	const GLogField fields[] = {
		{ "MESSAGE", "not all of this", 7 },
		{ "CODE_LINE", "123456", 3 },
		{ "CODE_FILE", NULL, -1 },
	};
	char text[4001];

	g_log_set_writer_func(rp_glib_log_writer, NULL, NULL);
	g_debug("line %d", 1);
	g_info("line %d", 2);
	g_message("line %d", 3);
	g_warning("line %d", 4);
	g_critical("line %d", 5);
	g_log("other", G_LOG_LEVEL_WARNING, "line %d", 6);
	g_log_structured_array(G_LOG_LEVEL_WARNING, fields, G_N_ELEMENTS(fields));
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	/* "é" has two bytes, of which the limit would cut the second one. */
	memcpy(&text[2047], "\xc3\xa9", 2);
	g_debug("%s", text);
	return 0;
}
