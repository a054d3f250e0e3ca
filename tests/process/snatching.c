/* SPDX-License-Identifier: MIT */
/*
 * Preloaded before the library. For the first SNATCH_TIMES calls of the function SNATCH on threads
 * other than the main one, this file closes the descriptor of the call. A host that closes all
 * descriptors at that moment has the same effect.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int left = -1;

static int snatch(const char *call, int fd)
{
	const char *wanted = getenv("SNATCH"), *times = getenv("SNATCH_TIMES");

	if (fd < 0 || gettid() == getpid() || !wanted || !times || strcmp(wanted, call) != 0)
		return fd;
	if (left < 0)
		left = atoi(times);
	if (left > 0) {
		left--;
		close(fd);
	}
	return fd;
}

int epoll_create1(int flags)
{
	return snatch("epoll_create1", (int)syscall(SYS_epoll_create1, flags));
}

int socket(int domain, int type, int protocol)
{
	return snatch("socket", (int)syscall(SYS_socket, domain, type, protocol));
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	int r = (int)syscall(SYS_socketpair, domain, type, protocol, fds);

	if (r == 0)
		snatch("socketpair", fds[1]);
	return r;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int r = (int)syscall(SYS_bind, fd, address, length);

	if (r == 0)
		snatch("bind", fd);
	return r;
}

int listen(int fd, int backlog)
{
	int r = (int)syscall(SYS_listen, fd, backlog);

	if (r == 0)
		snatch("listen", fd);
	return r;
}
