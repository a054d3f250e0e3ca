/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into ringpipe-record: before it enables the events of perf_events for the first time,
 * it creates the file `begin` in the folder ENABLE_SHIM, and waits until the test opens the FIFO
 * `end` there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void meet(const char *folder, const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	close(open(path, flags | O_CLOEXEC, 0600));
}

int ioctl(int fd, unsigned long request, ...)
{
	static int has_waited;
	int (*next)(int, unsigned long, ...) =
		(int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, __func__);
	const char *folder = getenv("ENABLE_SHIM");
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request == PERF_EVENT_IOC_ENABLE && folder && !has_waited) {
		has_waited = 1;
		meet(folder, "begin", O_CREAT | O_WRONLY);
		meet(folder, "end", O_RDONLY);
	}
	return next(fd, request, argument);
}
