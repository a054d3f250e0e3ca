/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/text.h"
#include "tool/tool.h"

static void say(FILE *stream, const char *prefix, const char *format, va_list arguments)
{
	char *raw = NULL, *clean;

	if (vasprintf(&raw, format, arguments) < 0)
		raw = NULL;
	clean = raw ? rp_text_clean(raw, true) : NULL;
	fprintf(stream, "%s%s\n", prefix, clean ? clean : "out of memory");
	free(clean);
	free(raw);
}

void rp_tool_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(stderr, "ringpipe: ", format, arguments);
	va_end(arguments);
}

void rp_tool_say(FILE *stream, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(stream, "", format, arguments);
	va_end(arguments);
}

uint32_t rp_text_next(const char **text)
{
	const unsigned char *at = (const unsigned char *)*text;
	const unsigned char lead = *at++;
	/* Which second byte goes with it: no over-long forms, no surrogates, nothing above. */
	unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
	unsigned int more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
	uint32_t code = more ? lead & (0x3fu >> more) : lead;

	if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) {
		more = 0;
		code = 0xfffd;
	}
	for (; more && *at >= low && *at <= high; more--, low = 0x80, high = 0xbf)
		code = code << 6 | (*at++ & 0x3fu);
	*text = (const char *)at;
	return more ? 0xfffd : code;
}

static char *append_utf8(char *out, uint32_t code)
{
	if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xc0 | code >> 6);
		*out++ = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		*out++ = (char)(0xe0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	} else {
		*out++ = (char)(0xf0 | code >> 18);
		*out++ = (char)(0x80 | (code >> 12 & 0x3f));
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	}
	return out;
}

char *rp_text_clean(const char *text, bool terminal)
{
	const char *from = text ? text : "";
	/* One bad byte becomes the three of U+FFFD. */
	char *copy = malloc(strlen(from) * 3 + 1), *out = copy;

	if (!copy)
		return NULL;
	while (*from) {
		uint32_t code = rp_text_next(&from);

		if (terminal && (code < 0x20 || (code >= 0x7f && code < 0xa0)))
			code = 0xfffd;
		out = append_utf8(out, code);
	}
	*out = '\0';
	return copy;
}

char *rp_text_from_utf16(const void *units, size_t unit_count)
{
	const char *from = units;
	/* A unit becomes three bytes at most; a pair of them, four. */
	char *text = malloc(unit_count * 3 + 1), *out = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < unit_count; i++) {
		uint16_t unit, low;
		uint32_t code;

		memcpy(&unit, from + i * 2, 2);
		if (unit == 0)
			break;
		code = unit;
		if (unit >= 0xd800 && unit < 0xe000) {
			code = 0xfffd;
			if (unit < 0xdc00 && i + 1 < unit_count) {
				memcpy(&low, from + i * 2 + 2, 2);
				if (low >= 0xdc00 && low < 0xe000) {
					code = 0x10000 + ((unit - 0xd800u) << 10) + (low - 0xdc00u);
					i++;
				}
			}
		}
		out = append_utf8(out, code);
	}
	*out = '\0';
	return text;
}

size_t rp_text_width(const char *text)
{
	size_t width = 0;

	for (; *text; width++)
		rp_text_next(&text);
	return width;
}

const char *rp_text_count(uint64_t count, char *buffer)
{
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count);
	char *out = buffer;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return buffer;
}

const char *rp_text_bytes(uint64_t bytes, char *buffer)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB" };
	double value = (double)bytes / 1000;
	size_t unit = 0;

	if (bytes < 1000) {
		snprintf(buffer, RP_TEXT_MAX, "%" PRIu64 " B", bytes);
		return buffer;
	}
	while (value >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1000;
		unit++;
	}
	snprintf(buffer, RP_TEXT_MAX, "%.1f %s", value, units[unit]);
	return buffer;
}

const char *rp_text_duration(uint64_t ns, char *buffer)
{
	uint64_t seconds = ns / 1000000000;

	if (seconds < 60)
		snprintf(buffer, RP_TEXT_MAX, "%" PRIu64 ".%03" PRIu64 " s", seconds,
			 ns / 1000000 % 1000);
	else if (seconds < 3600)
		snprintf(buffer, RP_TEXT_MAX, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60,
			 seconds % 60);
	else
		snprintf(buffer, RP_TEXT_MAX, "%" PRIu64 " h %02" PRIu64 " min %02" PRIu64 " s",
			 seconds / 3600, seconds / 60 % 60, seconds % 60);
	return buffer;
}

const char *rp_text_utc(int64_t utc_ns, char *buffer)
{
	/* Round down, also before 1970. */
	int64_t ms = utc_ns / 1000000 - (utc_ns % 1000000 < 0);
	time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
	struct tm parts;
	size_t length;

	gmtime_r(&seconds, &parts);
	length = strftime(buffer, RP_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &parts);
	snprintf(buffer + length, RP_TEXT_MAX - length, ".%03d", (int)(ms - seconds * 1000));
	return buffer;
}

const char *rp_text_rate(uint64_t count, uint64_t ns, char *buffer)
{
	double rate = ns ? (double)count * 1e9 / (double)ns : 0;

	if (!ns || rate >= 1e18)
		strcpy(buffer, "-");
	else if (rate < 99.95)
		snprintf(buffer, RP_TEXT_MAX, "%.1f", rate);
	else
		rp_text_count((uint64_t)(rate + 0.5), buffer);
	return buffer;
}
