/* SPDX-License-Identifier: MIT */
/*
 * If INJECT=NAME:NTH is set, the failure is armed before main(). A call that does not fail goes to
 * libc, or directly to the kernel if libc's function only makes a system call, because some calls
 * are made before any symbol can be looked up.
 */
#include "injecting.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A sanitizer's function replaces libc's, so this file must call the sanitizer's function. */
#if defined(ABOVE_ASAN)
#define BELOW(name) __interceptor_##name
#else
#define BELOW(name) __libc_##name
#endif

extern void *BELOW(malloc)(size_t size);
extern void *BELOW(calloc)(size_t count, size_t size);
extern void *BELOW(realloc)(void *memory, size_t size);

static struct {
	enum inject_kind kind;
	unsigned int left;	/* calls until the failure; 0: not armed */
	bool on_thread;
	bool fired;
} armed;

static const struct {
	const char *name;
	int error;
} kinds[] = {
#define X(name, error) { #name, error },
	INJECT_KINDS(X)
#undef X
};

const char *inject_name(enum inject_kind kind)
{
	return kinds[kind].name;
}

int inject_error(enum inject_kind kind)
{
	return kinds[kind].error;
}

void inject_arm(enum inject_kind kind, unsigned int nth, bool on_thread)
{
	armed.kind = kind;
	armed.on_thread = on_thread;
	armed.fired = false;
	__atomic_store_n(&armed.left, nth, __ATOMIC_SEQ_CST);
}

bool inject_disarm(void)
{
	__atomic_store_n(&armed.left, 0, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&armed.fired, __ATOMIC_SEQ_CST);
}

/* Return: whether this call must fail. Sets errno in that case. */
static bool fails(enum inject_kind kind)
{
	unsigned int left = __atomic_load_n(&armed.left, __ATOMIC_SEQ_CST);

	if (left == 0 || armed.kind != kind || (armed.on_thread && gettid() == getpid()))
		return false;
	while (!__atomic_compare_exchange_n(&armed.left, &left, left - 1, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST)) {
		if (left == 0)
			return false;
	}
	if (left != 1)
		return false;
	__atomic_store_n(&armed.fired, true, __ATOMIC_SEQ_CST);
	errno = kinds[kind].error;
	return true;
}

static void arm_from_environment(int argc, char **argv, char **environment)
{
	const char *text = NULL, *colon;

	(void)argc, (void)argv;
	for (; *environment; environment++) {
		if (strncmp(*environment, "INJECT=", 7) == 0)
			text = *environment + 7;
	}
	colon = text ? strchr(text, ':') : NULL;
	for (unsigned int i = 0; colon && i < INJECT_KIND_COUNT; i++) {
		if (strlen(kinds[i].name) == (size_t)(colon - text) &&
		    strncmp(kinds[i].name, text, (size_t)(colon - text)) == 0)
			inject_arm(i, (unsigned int)atoi(colon + 1), false);
	}
}

/* Runs before the constructor of any library. */
__attribute__((section(".preinit_array"), used))
static void (*const first)(int argc, char **argv, char **environment) = arm_from_environment;

void *malloc(size_t size)
{
	return fails(INJECT_memory) ? NULL : BELOW(malloc)(size);
}

void *calloc(size_t count, size_t size)
{
	return fails(INJECT_memory) ? NULL : BELOW(calloc)(count, size);
}

void *realloc(void *memory, size_t size)
{
	return fails(INJECT_memory) ? NULL : BELOW(realloc)(memory, size);
}

/* The same as libc's syscall(), except for the kinds of call that can fail here. */
long syscall(long number, ...)
{
	register long r10 __asm__("r10");
	register long r8 __asm__("r8");
	register long r9 __asm__("r9");
	long first_three[3], result;
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 3; i++)
		first_three[i] = va_arg(arguments, long);
	r10 = va_arg(arguments, long);
	r8 = va_arg(arguments, long);
	r9 = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_membarrier && fails(INJECT_membarrier))
		return -1;
	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(number), "D"(first_three[0]), "S"(first_three[1]),
			   "d"(first_three[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (result >= -4095 && result < 0) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	return fails(INJECT_mmap) ? MAP_FAILED :
	       (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
	va_list arguments;
	void *to;

	va_start(arguments, flags);
	to = va_arg(arguments, void *);
	va_end(arguments);
	return fails(INJECT_mremap) ? MAP_FAILED :
	       (void *)syscall(SYS_mremap, address, size, new_size, flags, to);
}

int mprotect(void *address, size_t size, int protection)
{
	return fails(INJECT_mprotect) ? -1 : (int)syscall(SYS_mprotect, address, size, protection);
}

int madvise(void *address, size_t size, int advice)
{
	return fails(INJECT_madvise) ? -1 : (int)syscall(SYS_madvise, address, size, advice);
}

int open(const char *path, int flags, ...)
{
	unsigned int mode;
	va_list arguments;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, unsigned int) : 0;
	va_end(arguments);
	return fails(INJECT_open) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void *buffer, size_t size)
{
	return fails(INJECT_read) ? -1 : syscall(SYS_read, fd, buffer, size);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	return fails(INJECT_write) ? -1 : syscall(SYS_write, fd, bytes, size);
}

int fstat(int fd, struct stat *ret_stat)
{
	return fails(INJECT_fstat) ? -1 : (int)syscall(SYS_fstat, fd, ret_stat);
}

int ftruncate(int fd, off_t size)
{
	return fails(INJECT_ftruncate) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

off_t lseek(int fd, off_t offset, int from)
{
	return fails(INJECT_lseek) ? -1 : syscall(SYS_lseek, fd, offset, from);
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	return fails(INJECT_fcntl) ? -1 : (int)syscall(SYS_fcntl, fd, command, argument);
}

int memfd_create(const char *name, unsigned int flags)
{
	return fails(INJECT_memfd_create) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int fchmod(int fd, mode_t mode)
{
	return fails(INJECT_fchmod) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

int epoll_create1(int flags)
{
	return fails(INJECT_epoll_create1) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int fd, int operation, int of, struct epoll_event *event)
{
	/* Only this operation allocates memory. */
	if (operation == EPOLL_CTL_ADD && fails(INJECT_epoll_ctl))
		return -1;
	return (int)syscall(SYS_epoll_ctl, fd, operation, of, event);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int milliseconds)
{
	return fails(INJECT_epoll_wait) ? -1 :
	       (int)syscall(SYS_epoll_wait, fd, events, count, milliseconds);
}

int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	return fails(INJECT_poll) ? -1 : (int)syscall(SYS_poll, fds, count, milliseconds);
}

int socket(int domain, int type, int protocol)
{
	return fails(INJECT_socket) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return fails(INJECT_socketpair) ? -1 :
	       (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	return fails(INJECT_bind) ? -1 : (int)syscall(SYS_bind, fd, address, size);
}

int listen(int fd, int backlog)
{
	return fails(INJECT_listen) ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int accept4(int fd, struct sockaddr *ret_address, socklen_t *size, int flags)
{
	return fails(INJECT_accept4) ? -1 :
	       (int)syscall(SYS_accept4, fd, ret_address, size, flags);
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	return fails(INJECT_connect) ? -1 : (int)syscall(SYS_connect, fd, address, size);
}

int getsockopt(int fd, int level, int option, void *ret_value, socklen_t *size)
{
	return fails(INJECT_getsockopt) ? -1 :
	       (int)syscall(SYS_getsockopt, fd, level, option, ret_value, size);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	return fails(INJECT_send) ? -1 : syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	return fails(INJECT_recv) ? -1 : syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *),
		   void *data)
{
	static int (*libc)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (fails(INJECT_pthread_create))
		return EAGAIN;
	if (!libc)
		*(void **)&libc = dlsym(RTLD_NEXT, "pthread_create");
	return libc(ret_thread, attr, run, data);
}

int timer_create(clockid_t clock, struct sigevent *event, timer_t *ret_timer)
{
	static int (*libc)(clockid_t, struct sigevent *, timer_t *);

	if (fails(INJECT_timer_create))
		return -1;
	if (!libc)
		*(void **)&libc = dlsym(RTLD_NEXT, "timer_create");
	return libc(clock, event, ret_timer);
}
