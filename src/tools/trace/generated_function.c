/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace_symbols.h"

bool rp_symbol_is_generated(const char *function)
{
	static const char ending[] = "_write_";
	const size_t ending_length = sizeof(ending) - 1;
	size_t length = strcspn(function, ".(");

	/* _ZL16shop_order_write_m: a static function; its name has 16 bytes. */
	if (!strncmp(function, "_ZL", 3)) {
		char *name;
		const unsigned long name_length = strtoul(function + 3, &name, 10);

		length = strnlen(name, name_length < 1024 ? name_length : 0);
		function = name;
	}
	return length > ending_length &&
	       !memcmp(function + length - ending_length, ending, ending_length);
}
