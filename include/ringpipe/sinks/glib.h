/* SPDX-License-Identifier: MIT */
/*
 * A log writer of GLib whose lines become events of the provider `ringpipe-glib`:
 *
 *	#include <ringpipe/sinks/glib.h>
 *
 *	g_log_set_writer_func(rp_glib_log_writer, NULL, NULL);
 *
 * There is one event for each level of ringpipe: critical (GLib's ERROR, which ends the program),
 * error (CRITICAL), warning, informational (MESSAGE and INFO) and verbose (DEBUG). Its fields are
 * the text, the log domain, and the source file and line, which are empty and 0 unless the program
 * was compiled with G_LOG_USE_STRUCTURED.
 *
 * The header needs GLib 2.50 or later.
 */
#ifndef RINGPIPE_SINKS_GLIB_H
#define RINGPIPE_SINKS_GLIB_H

#include <string.h>

#include <glib.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(ringpipe_glib, "ringpipe-glib");

#define RP_GLIB_EVENT_(event, id, level) \
	RP_EVENT(ringpipe_glib, event, id, level, 0, RP_STRING_N(text), RP_STRING_N(domain), \
		 RP_STRING_N(file), RP_U32(line))
RP_GLIB_EVENT_(critical, 1, RP_LEVEL_CRITICAL);
RP_GLIB_EVENT_(error, 2, RP_LEVEL_ERROR);
RP_GLIB_EVENT_(warning, 3, RP_LEVEL_WARNING);
RP_GLIB_EVENT_(informational, 4, RP_LEVEL_INFORMATIONAL);
RP_GLIB_EVENT_(verbose, 5, RP_LEVEL_VERBOSE);
#undef RP_GLIB_EVENT_

/*
 * Find a field of a line, whose value may have no NUL at its end. Return: the field with the length
 * of its value; an empty one: the line has no such field.
 */
static inline GLogField rp_glib_find_(const GLogField *fields, gsize count, const char *key)
{
	GLogField found = { key, "", 0 };
	gsize i;

	for (i = 0; i < count; i++) {
		if (strcmp(fields[i].key, key) != 0 || !fields[i].value)
			continue;
		found = fields[i];
		if (found.length < 0)
			found.length = (gssize)strlen((const char *)found.value);
	}
	return found;
}

/* Return: the number of a field, which may have no NUL at its end; 0: there is none. */
static inline uint32_t rp_glib_number_(GLogField field)
{
	const char *digits = (const char *)field.value;
	uint32_t number = 0;
	gssize i;

	for (i = 0; i < field.length && digits[i] >= '0' && digits[i] <= '9'; i++)
		number = number * 10 + (uint32_t)(digits[i] - '0');
	return number;
}

/* Cut a string before a character of UTF-8, whose further bytes are 10xxxxxx. */
static inline GLogField rp_glib_cut_(GLogField text)
{
	const unsigned char *bytes = (const unsigned char *)text.value;

	if (text.length <= (gssize)RP_LOG_TEXT_MAX)
		return text;
	text.length = (gssize)RP_LOG_TEXT_MAX;
	/* A character has at most three further bytes, and other strings are not UTF-8. */
	while (text.length > (gssize)RP_LOG_TEXT_MAX - 3 && (bytes[text.length] & 0xc0) == 0x80)
		text.length--;
	return text;
}

#define RP_GLIB_ARGS_(field) (const char *)(field).value, (size_t)(field).length
#define RP_GLIB_WRITE_(event) \
	do { \
		if (ringpipe_glib_##event##_enabled()) { \
			GLogField text_ = rp_glib_cut_(rp_glib_find_(fields, count, "MESSAGE")); \
			GLogField domain_ = rp_glib_find_(fields, count, "GLIB_DOMAIN"); \
			GLogField file_ = rp_glib_find_(fields, count, "CODE_FILE"); \
			GLogField line_ = rp_glib_find_(fields, count, "CODE_LINE"); \
			(void)ringpipe_glib_##event(RP_GLIB_ARGS_(text_), RP_GLIB_ARGS_(domain_), \
						    RP_GLIB_ARGS_(file_), \
						    rp_glib_number_(line_)); \
		} \
	} while (0)

/*
 * Write the event of a line, for a log writer of the program's own. The event has at most
 * RP_LOG_TEXT_MAX bytes of the text.
 * @level, @fields, @count: the line, as the log writer got it.
 *
 * Context: any thread.
 */
static inline void rp_glib_write_event(GLogLevelFlags level, const GLogField *fields, gsize count)
{
	switch (level & G_LOG_LEVEL_MASK) {
	case G_LOG_LEVEL_ERROR:
		RP_GLIB_WRITE_(critical);
		break;
	case G_LOG_LEVEL_CRITICAL:
		RP_GLIB_WRITE_(error);
		break;
	case G_LOG_LEVEL_WARNING:
		RP_GLIB_WRITE_(warning);
		break;
	case G_LOG_LEVEL_MESSAGE:
	case G_LOG_LEVEL_INFO:
		RP_GLIB_WRITE_(informational);
		break;
	default:
		RP_GLIB_WRITE_(verbose);
	}
}

/*
 * Write the event of a line, and then the line itself, as GLib does by default. The function is a
 * log writer for g_log_set_writer_func().
 * @level, @fields, @count: the line.
 * @data: not used.
 *
 * Context: any thread.
 * Return: what g_log_writer_default() returns.
 */
static inline GLogWriterOutput rp_glib_log_writer(GLogLevelFlags level, const GLogField *fields,
						  gsize count, gpointer data)
{
	rp_glib_write_event(level, fields, count);
	return g_log_writer_default(level, fields, count, data);
}

#undef RP_GLIB_WRITE_
#undef RP_GLIB_ARGS_

#endif
