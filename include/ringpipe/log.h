/* SPDX-License-Identifier: MIT */
/*
 * Write lines of text as events, with the formats of printf(3):
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_LOG_EVENTS(shop);
 *
 *	RP_LOG(shop, RP_LEVEL_WARNING, "disk %s is %u%% full", name, percent);
 *
 * RP_LOG_EVENTS declares one event for each level. The compiler checks the format against the
 * arguments. RP_LOG evaluates the arguments and formats the text only while a session or another
 * tracer wants the event of that level.
 */
#ifndef RINGPIPE_LOG_H
#define RINGPIPE_LOG_H

#include <stdarg.h>

#include <ringpipe/event.h>
#include <ringpipe/types.h>

/* Maximum size of a line's text in bytes. A longer text is cut there and ends with an ellipsis. */
#define RP_LOG_TEXT_MAX 2048u

/*
 * Declares the events that RP_LOG writes, in a source file or in a header: log_critical, log_error,
 * log_warning, log_informational and log_verbose. Each has the text, the source file and the line
 * as fields, and an id that is derived from its name.
 */
#define RP_LOG_EVENTS(provider) \
	RP_LOG_EMIT_(provider, RP_LEVEL_CRITICAL, log_critical); \
	RP_LOG_EMIT_(provider, RP_LEVEL_ERROR, log_error); \
	RP_LOG_EMIT_(provider, RP_LEVEL_WARNING, log_warning); \
	RP_LOG_EMIT_(provider, RP_LEVEL_INFORMATIONAL, log_informational); \
	RP_LOG_EMIT_(provider, RP_LEVEL_VERBOSE, log_verbose)

/*
 * Write a line. `level` is the name of a constant of enum rp_level, from RP_LEVEL_CRITICAL to
 * RP_LEVEL_VERBOSE. A format and its arguments follow. The macro does not change errno, and %m
 * prints errno.
 *
 * Context: any thread; a signal handler only as far as vsnprintf(3) may be called there.
 */
#define RP_LOG(provider, level, ...) \
	do { \
		if (__builtin_expect(provider##_log_##level##_enabled_(), 0)) \
			provider##_log_##level##_(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

RP_BEGIN_DECLS

/*
 * Format a line's text into `text`, a buffer of RP_LOG_TEXT_MAX + 1 bytes. RP_LOG calls this
 * function.
 * @format, @arguments: as of vprintf(3).
 *
 * Context: as RP_LOG.
 */
RP_PUBLIC void rp_log_format(char *text, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

RP_END_DECLS

#define RP_LOG_EMIT_(provider, level, event) \
	RP_EVENT(provider, event, RP_EVENT_ID_AUTO, level, 0, RP_STRING(text), RP_STRING(file), \
		 RP_U32(line)); \
	RP_OUT_OF_LINE_ __attribute__((cold, format(printf, 3, 4))) void \
	provider##_log_##level##_(const char *file, uint32_t line, const char *format, ...) \
	{ \
		char text[RP_LOG_TEXT_MAX + 1]; \
		va_list arguments; \
		va_start(arguments, format); \
		rp_log_format(text, format, arguments); \
		va_end(arguments); \
		(void)provider##_##event(text, file, line); \
	} \
	RP_INLINE_ int provider##_log_##level##_enabled_(void) \
	{ \
		return provider##_##event##_enabled(); \
	} \
	RP_SEMICOLON_

#endif
