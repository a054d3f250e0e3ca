/* SPDX-License-Identifier: MIT */
/* Processes: forks, and programs that the process executes. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ringpipe/event.h>
#include <ringpipe/session.h>

#include "modules/inbox/inbox.h"

#define FLUSH_MS 1000			/* before the rings disappear with the program */

RP_PROVIDER(inbox_process, "ringpipe-process");
RP_EVENT(inbox_process, forked, 1, RP_LEVEL_INFORMATIONAL, 0, RP_I32(child), RP_U64(duration_ns));
RP_EVENT(inbox_process, executing, 2, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(file));
RP_EVENT(inbox_process, spawned, 3, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(file), RP_I32(child),
	 RP_I32(result));

typedef int spawn_function(pid_t *child, const char *file,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attributes, char *const *arguments,
			   char *const *environment);

static struct {
	pid_t (*fork)(void);
	int (*execve)(const char *file, char *const *arguments, char *const *environment);
	int (*execv)(const char *file, char *const *arguments);
	int (*execvp)(const char *file, char *const *arguments);
	int (*execvpe)(const char *file, char *const *arguments, char *const *environment);
	int (*fexecve)(int fd, char *const *arguments, char *const *environment);
	int (*execveat)(int folder, const char *file, char *const *arguments,
			char *const *environment, int flags);
	spawn_function *spawn, *spawnp;
} next;

static void find_next(void)
{
	next.execve = rp_inbox_next("execve");
	next.execv = rp_inbox_next("execv");
	next.execvp = rp_inbox_next("execvp");
	next.execvpe = rp_inbox_next("execvpe");
	next.fexecve = rp_inbox_next("fexecve");
	next.execveat = rp_inbox_find_next("execveat");
	next.spawn = rp_inbox_next_version("posix_spawn", "GLIBC_2.15");
	next.spawnp = rp_inbox_next_version("posix_spawnp", "GLIBC_2.15");
	next.fork = rp_inbox_next("fork");
}

void rp_inbox_process_init(void)
{
	find_next();
}

static bool may_write(const void *caller)
{
	return !rp_inbox_thread.is_of_engine && !rp_inbox_is_engine(caller) &&
	       !rp_inbox_is_vfork_child();
}

INBOX_EXPORT pid_t fork(void)
{
	const bool is_wanted = inbox_process_forked_enabled() &&
			       may_write(__builtin_return_address(0));
	uint64_t start;
	pid_t child;
	int saved_errno;

	if (INBOX_UNLIKELY(!next.fork))
		find_next();
	if (!is_wanted)
		return next.fork();
	start = rp_inbox_now_ns();
	child = next.fork();
	saved_errno = errno;
	/* In the child, no session runs. */
	if (child != 0)
		inbox_process_forked(child, rp_inbox_now_ns() - start);
	errno = saved_errno;
	return child;
}

/* Report the program, and write out the events, since execve(2) discards the memory. */
static void report_exec(const char *file, const void *caller)
{
	const int saved_errno = errno;

	if (INBOX_UNLIKELY(!next.fork))
		find_next();
	if (!inbox_process_executing_enabled() || !may_write(caller))
		return;
	inbox_process_executing(file);
	(void)rp_sessions_flush(FLUSH_MS);
	errno = saved_errno;
}

INBOX_EXPORT int execve(const char *file, char *const *arguments, char *const *environment)
{
	report_exec(file, __builtin_return_address(0));
	return next.execve(file, arguments, environment);
}

INBOX_EXPORT int execv(const char *file, char *const *arguments)
{
	report_exec(file, __builtin_return_address(0));
	return next.execv(file, arguments);
}

INBOX_EXPORT int execvp(const char *file, char *const *arguments)
{
	report_exec(file, __builtin_return_address(0));
	return next.execvp(file, arguments);
}

INBOX_EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment)
{
	report_exec(file, __builtin_return_address(0));
	return next.execvpe(file, arguments, environment);
}

/* Report the program of an open file. */
static void report_exec_of(int fd, const void *caller)
{
	char file[64];

	snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
	report_exec(file, caller);
}

INBOX_EXPORT int fexecve(int fd, char *const *arguments, char *const *environment)
{
	report_exec_of(fd, __builtin_return_address(0));
	return next.fexecve(fd, arguments, environment);
}

INBOX_EXPORT int execveat(int folder, const char *file, char *const *arguments,
			  char *const *environment, int flags)
{
	if (*file == '\0' && flags & AT_EMPTY_PATH)
		report_exec_of(folder, __builtin_return_address(0));
	else
		report_exec(file, __builtin_return_address(0));
	/* glibc has the function since 2.34. */
	if (next.execveat)
		return next.execveat(folder, file, arguments, environment, flags);
	return (int)syscall(SYS_execveat, folder, file, arguments, environment, flags);
}

/* Return: how many arguments there are before the NULL, including the first one. */
static size_t count_arguments(const char *argument, va_list list)
{
	size_t count = 0;

	for (; argument; argument = va_arg(list, const char *))
		count++;
	return count;
}

/*
 * Declare the array `arguments` of a wrapper with a list of arguments, and `list`, which is after
 * the NULL. The array is on the stack, because the wrapper may be called in a signal handler, or
 * after vfork(2).
 */
#define TAKE_ARGUMENTS(argument) \
	va_list list; \
	va_start(list, argument); \
	const size_t count = count_arguments(argument, list); \
	char **const arguments = __builtin_alloca((count + 1) * sizeof(*arguments)); \
	va_end(list); \
	va_start(list, argument); \
	arguments[0] = (char *)(uintptr_t)(argument); \
	for (size_t i = 1; count > 0 && i <= count; i++) \
		arguments[i] = va_arg(list, char *)

INBOX_EXPORT int execl(const char *file, const char *argument, ...)
{
	TAKE_ARGUMENTS(argument);

	va_end(list);
	report_exec(file, __builtin_return_address(0));
	return next.execv(file, arguments);
}

INBOX_EXPORT int execlp(const char *file, const char *argument, ...)
{
	TAKE_ARGUMENTS(argument);

	va_end(list);
	report_exec(file, __builtin_return_address(0));
	return next.execvp(file, arguments);
}

INBOX_EXPORT int execle(const char *file, const char *argument, ...)
{
	char *const *environment;

	TAKE_ARGUMENTS(argument);
	environment = va_arg(list, char *const *);
	va_end(list);
	report_exec(file, __builtin_return_address(0));
	return next.execve(file, arguments, environment);
}

/* Call `*function`, which find_next() may set only now. */
static int spawn(spawn_function *const *function, pid_t *child, const char *file,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const *arguments, char *const *environment, const void *caller)
{
	int ret, saved_errno;

	if (INBOX_UNLIKELY(!next.fork))
		find_next();
	ret = (*function)(child, file, actions, attributes, arguments, environment);
	saved_errno = errno;
	if (inbox_process_spawned_enabled() && may_write(caller))
		inbox_process_spawned(file, ret == 0 && child ? *child : 0, ret);
	errno = saved_errno;
	return ret;
}

INBOX_EXPORT int posix_spawn(pid_t *child, const char *file,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attributes, char *const *arguments,
			     char *const *environment)
{
	return spawn(&next.spawn, child, file, actions, attributes, arguments, environment,
		     __builtin_return_address(0));
}

INBOX_EXPORT int posix_spawnp(pid_t *child, const char *file,
			      const posix_spawn_file_actions_t *actions,
			      const posix_spawnattr_t *attributes, char *const *arguments,
			      char *const *environment)
{
	return spawn(&next.spawnp, child, file, actions, attributes, arguments, environment,
		     __builtin_return_address(0));
}
