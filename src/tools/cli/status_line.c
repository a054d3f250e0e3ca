/* SPDX-License-Identifier: MIT */
#include "tools/cli/status_line.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define START "\r\033[K"

/* A pseudoterminal that accepts output has space for at least 256 bytes. */
#define LINE_BYTES_MAX 256

static void print(const char *text)
{
	struct pollfd terminal = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT))
		fputs(text, stderr);
}

void rp_status_line_show(const char *format, ...)
{
	char line[LINE_BYTES_MAX] = START;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line + sizeof(START) - 1, sizeof(line) - (sizeof(START) - 1), format, arguments);
	va_end(arguments);
	print(line);
}

void rp_status_line_clear(void)
{
	print(START);
}
