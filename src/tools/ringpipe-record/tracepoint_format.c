/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/tracepoint_format.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* A kernel has tracefs at one of these, or at both. */
static const char *const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

/* A line is `field:TYPE NAME;` or `field:TYPE NAME[COUNT];`, then `offset:N; size:N; signed:N;`. */
static int find_field(const char *text, const char *name, uint32_t *ret_offset, uint32_t *ret_bytes)
{
	const size_t length = strlen(name);

	for (const char *at = text; (at = strstr(at, "field:")); at++) {
		const char *end = strchr(at, ';'), *own = end;

		if (!end)
			break;
		for (const char *bracket = at; bracket < end; bracket++)
			if (*bracket == '[' && bracket[-1] != ' ' && bracket[1] != ']')
				own = bracket;
		if ((size_t)(own - at) <= length || own[-(ptrdiff_t)length - 1] != ' ' ||
		    memcmp(own - length, name, length) != 0)
			continue;
		return sscanf(end, "; offset:%" SCNu32 "; size:%" SCNu32, ret_offset,
			      ret_bytes) == 2 ? 0 : -ENOENT;
	}
	return -ENOENT;
}

static int parse(const char *text, const char *const *names, struct rp_tracepoint_format *format)
{
	const char *id = strstr(text, "\nID: ");
	int ret = id && sscanf(id, " ID: %" SCNu64, &format->id) == 1 ? 0 : -ENOENT;

	for (size_t i = 0; ret == 0 && names[i] && i < RP_TRACEPOINT_FIELDS_MAX; i++)
		ret = find_field(text, names[i], &format->fields[i].offset,
				 &format->fields[i].bytes);
	return ret;
}

int rp_tracepoint_format_read(const char *tracepoint, const char *const *names,
			      struct rp_tracepoint_format *ret_format)
{
	struct rp_tracepoint_format format = { 0 };
	char path[PATH_MAX], text[16384];
	ssize_t size = -ENOENT;
	int ret;

	for (size_t i = 0; size == -ENOENT && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/events/%s/format", places[i], tracepoint);
		size = rp_file_read(path, text, sizeof(text) - 1);
	}
	if (size < 0)
		return (int)size;
	text[size] = '\0';
	ret = parse(text, names, &format);
	if (ret == 0)
		*ret_format = format;
	return ret;
}

uint64_t rp_tracepoint_number(const struct rp_tracepoint_format *format, size_t field,
			      const uint8_t *bytes, size_t size)
{
	const uint32_t offset = format->fields[field].offset;
	uint32_t width = format->fields[field].bytes;
	uint64_t number = 0;

	if (width > sizeof(number))
		width = sizeof(number);
	if (offset > size || width > size - offset)
		return 0;
	memcpy(&number, bytes + offset, width);		/* x86-64 is little-endian */
	return number;
}
