/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

static FILE *error_log;			/* or NULL */

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
	va_list arguments, again;

	va_start(arguments, format);
	va_copy(again, arguments);
	say(stderr, "ringpipe: ", format, arguments);
	if (error_log)
		say(error_log, "ringpipe: ", format, again);
	va_end(again);
	va_end(arguments);
}

void rp_tool_set_error_log(FILE *log)
{
	error_log = log;
}

void rp_tool_say(FILE *stream, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(stream, "", format, arguments);
	va_end(arguments);
}

char *rp_text_clean(const char *text, bool terminal)
{
	const size_t length = text ? strlen(text) : 0;
	const uint8_t *from = (const uint8_t *)text, *end = from + length;
	/* One invalid byte becomes the three bytes of U+FFFD. */
	char *copy = malloc(length * 3 + 1), *out = copy;

	if (!copy)
		return NULL;
	while (from < end) {
		uint32_t code = rp_utf8_next(&from, end);

		if (terminal && (code < 0x20 || (code >= 0x7f && code < 0xa0)))
			code = 0xfffd;
		out += rp_utf8_put(code, out);
	}
	*out = '\0';
	return copy;
}

char *rp_text_from_utf16(const void *units, size_t unit_count)
{
	const uint8_t *from = units;
	char *text = malloc(unit_count * 3 + 1);
	size_t count = 0;

	if (!text)
		return NULL;
	while (count < unit_count && (from[2 * count] || from[2 * count + 1]))
		count++;
	text[rp_utf8_from_utf16(from, count, text)] = '\0';
	return text;
}

size_t rp_text_width(const char *text)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);
	size_t width = 0;

	for (; at < end; width++)
		(void)rp_utf8_next(&at, end);
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

const char *rp_text_counted(uint64_t count, const char *noun, char *buffer)
{
	const size_t length = strlen(noun), used = strlen(rp_text_count(count, buffer));
	const bool sibilant = length > 1 && (noun[length - 1] == 's' ||
					     !strcmp(noun + length - 2, "ch"));

	snprintf(buffer + used, RP_TEXT_MAX - used, " %s%s", noun,
		 count == 1 ? "" : sibilant ? "es" : "s");
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

void rp_text_hex(const uint8_t *bytes, size_t count, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = '\0';
}

const char *rp_text_short_time(uint64_t ns, char *buffer)
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		/* Rounded to three digits, 999.7 us is 1.00 ms. */
		const double value = (double)ns / units[i].ns;

		if (value < 0.9995)
			continue;
		snprintf(buffer, RP_TEXT_MAX, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0,
			 value, units[i].unit);
		return buffer;
	}
	snprintf(buffer, RP_TEXT_MAX, "%" PRIu64 " ns", ns);
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

const char *rp_text_utc_ns(int64_t utc_ns, char *buffer)
{
	/* Round down, also before 1970. */
	time_t seconds = (time_t)(utc_ns / 1000000000 - (utc_ns % 1000000000 < 0));
	struct tm parts;
	size_t length;

	gmtime_r(&seconds, &parts);
	length = strftime(buffer, RP_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(buffer + length, RP_TEXT_MAX - length, ".%09dZ",
		 (int)(utc_ns % 1000000000 + (utc_ns % 1000000000 < 0 ? 1000000000 : 0)));
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
