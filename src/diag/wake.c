/* SPDX-License-Identifier: MIT */
#include "diag/wake.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/file.h"

static struct rp_file_id identity;

int rp_wake_open(int ret_fds[2])
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	rp_file_identify(fds[1], &identity);
	ret_fds[0] = fds[0];
	ret_fds[1] = fds[1];
	return 0;
}

bool rp_wake_is(int fd)
{
	return rp_file_is(fd, &identity);
}

bool rp_wake(int fd)
{
	if (!rp_wake_is(fd))
		return false;
	/* With a full queue it is readable already. */
	(void)send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}

/*
 * An epoll set forgets what the host closed. poll(2) holds on to what it waits for, and so hears of
 * the end of the pair even when both its numbers are gone.
 */
int rp_wake_wait(int woken_fd, int epoll_fd, struct epoll_event *ret_events, int most, int ms)
{
	struct pollfd fds[] = {
		{ .fd = woken_fd },
		{ .fd = epoll_fd, .events = POLLIN },
	};
	int n = poll(fds, 2, ms);

	if (n < 0)
		return -errno;
	if (fds[0].revents || (fds[1].revents & POLLNVAL))
		return -EBADF;
	if (n > 0)
		n = epoll_wait(epoll_fd, ret_events, most, 0);
	return n < 0 ? -errno : n;
}
