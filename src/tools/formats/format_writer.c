/* SPDX-License-Identifier: MIT */
#include "tools/formats/format_writer.h"

#include <string.h>

static const struct rp_format_writer *const formats[] = {
	&rp_format_chrome, &rp_format_perfetto, &rp_format_firefox, &rp_format_speedscope,
	&rp_format_pprof, &rp_format_folded, &rp_format_json_lines, &rp_format_csv,
	&rp_format_ctf, &rp_format_otlp, &rp_format_otlp_profiles,
};

const struct rp_format_writer *rp_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	}
	return NULL;
}
