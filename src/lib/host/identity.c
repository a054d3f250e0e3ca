/* SPDX-License-Identifier: MIT */
#include "host/identity.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host_table.h"

void rp_process_join_arguments(char *text, size_t size)
{
	while (size && !text[size - 1])
		size--;
	for (size_t i = 0; i < size; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	text[size] = '\0';
}

char *rp_process_command_line(void)
{
	char *text = malloc(RP_PROCESS_COMMAND_LINE_BYTES + 1);
	ssize_t size;

	if (!text)
		return NULL;
	size = rp_file_read("/proc/self/cmdline", text, RP_PROCESS_COMMAND_LINE_BYTES);
	rp_process_join_arguments(text, size > 0 ? (size_t)size : 0);
	return text;
}

void rp_process_program(char *ret_path, size_t space)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;
	ssize_t n = readlink("/proc/self/exe", ret_path, space - 1);
	size_t size = n > 0 ? (size_t)n : 0;

	ret_path[size] = '\0';
	if (size > mark && strcmp(ret_path + size - mark, deleted) == 0)
		ret_path[size - mark] = '\0';
}

void rp_process_name(char ret_name[RP_PROCESS_NAME_BYTES])
{
	const struct rp_host *host = rp_host_get();
	char path[PATH_MAX];
	const char *name;
	size_t size;

	rp_process_program(path, sizeof(path));
	name = strrchr(path, '/');
	name = host && host->process_name ? host->process_name : name ? name + 1 : path;
	size = strnlen(name, RP_PROCESS_NAME_BYTES - 1);
	memcpy(ret_name, name, size);
	ret_name[size] = '\0';
}

void rp_process_warn(const char *format, ...)
{
	struct pollfd terminal = { .fd = STDERR_FILENO, .events = POLLOUT };
	va_list arguments;

	if (!isatty(STDERR_FILENO) || poll(&terminal, 1, 0) != 1 || terminal.revents != POLLOUT)
		return;
	va_start(arguments, format);
	vdprintf(STDERR_FILENO, format, arguments);
	va_end(arguments);
}
