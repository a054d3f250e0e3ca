/* SPDX-License-Identifier: MIT */
/* Lines of syslog(3): their priority and text. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

#define TEXT_MAX 1024u			/* bytes of a line in an event; the log has all of it */

RP_PROVIDER(inbox_syslog, "ringpipe-syslog");
RP_EVENT(inbox_syslog, logged, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(priority), RP_STRING(text));

/* Calls of programs that were compiled with -D_FORTIFY_SOURCE. */
void __syslog_chk(int priority, int flag, const char *format, ...);
void __vsyslog_chk(int priority, int flag, const char *format, va_list list);

static void (*next_vsyslog)(int priority, const char *format, va_list list);
static void (*next_vsyslog_chk)(int priority, int flag, const char *format, va_list list);

void rp_inbox_syslog_init(void)
{
	next_vsyslog_chk = rp_inbox_next("__vsyslog_chk");
	next_vsyslog = rp_inbox_next("vsyslog");
}

static void write_event(int priority, const char *format, va_list list)
{
	const int saved_errno = errno;
	char text[TEXT_MAX];
	va_list copy;

	if (!inbox_syslog_logged_enabled() || rp_inbox_thread.is_of_engine ||
	    rp_inbox_is_vfork_child())
		return;
	va_copy(copy, list);
	/* The format may have %m, which needs errno. */
	if (vsnprintf(text, sizeof(text), format, copy) >= 0)
		inbox_syslog_logged((uint32_t)priority, text);
	va_end(copy);
	errno = saved_errno;
}

/* A program may define vsyslog(3) by syslog(3), so no wrapper calls another one by its name. */
static void log_line(int priority, const char *format, va_list list)
{
	write_event(priority, format, list);
	if (INBOX_UNLIKELY(!next_vsyslog))
		rp_inbox_syslog_init();
	next_vsyslog(priority, format, list);
}

INBOX_EXPORT void vsyslog(int priority, const char *format, va_list list)
{
	log_line(priority, format, list);
}

INBOX_EXPORT void syslog(int priority, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_line(priority, format, list);
	va_end(list);
}

INBOX_EXPORT void __vsyslog_chk(int priority, int flag, const char *format, va_list list)
{
	write_event(priority, format, list);
	if (INBOX_UNLIKELY(!next_vsyslog))
		rp_inbox_syslog_init();
	next_vsyslog_chk(priority, flag, format, list);
}

INBOX_EXPORT void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	__vsyslog_chk(priority, flag, format, list);
	va_end(list);
}
