/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into ringpipe-record: before it enables the events of perf_events for the first time,
 * it creates the file `begin` in the folder ENABLE_SHIM, and waits until the test opens the FIFO
 * `end` there. It does the same in the folder OPEN_SHIM before it opens the first event of another
 * thread, and in the folder DISABLE_SHIM before it disables the first event at the end. With
 * REFUSE_SHIM, only the events of chosen threads can be opened, as where perf_event_paranoid is 1.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void meet(const char *folder, const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	close(open(path, flags | O_CLOEXEC, 0600));
}

static void meet_once(const char *folder, int *has_waited)
{
	if (!folder || *has_waited)
		return;
	*has_waited = 1;
	meet(folder, "begin", O_CREAT | O_WRONLY);
	meet(folder, "end", O_RDONLY);
}

long syscall(long number, ...)
{
	static int has_waited;
	long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, __func__);
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_perf_event_open && (int)arguments[1] == -1 && getenv("REFUSE_SHIM")) {
		errno = EACCES;
		return -1;
	}
	if (number == SYS_perf_event_open && (int)arguments[1] > 0)
		meet_once(getenv("OPEN_SHIM"), &has_waited);
	return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
		    arguments[5]);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int has_waited, has_waited_at_end;
	int (*next)(int, unsigned long, ...) =
		(int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, __func__);
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request == PERF_EVENT_IOC_ENABLE)
		meet_once(getenv("ENABLE_SHIM"), &has_waited);
	if (request == PERF_EVENT_IOC_DISABLE)
		meet_once(getenv("DISABLE_SHIM"), &has_waited_at_end);
	return next(fd, request, argument);
}
