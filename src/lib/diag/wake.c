/* SPDX-License-Identifier: MIT */
#include "diag/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/file.h"

/*
 * One thread may wake the loop while another repairs the pair. A half-changed pair is invalid, and
 * rp_wake() does not use it; the repairing thread then checks for the work itself.
 */
static struct end {
	int fd;				/* atomic */
	uint64_t device, inode;		/* atomic */
} woken = { .fd = -1 }, calling = { .fd = -1 };

static bool is_there(const struct end *end)
{
	const struct rp_file_id file = {
		(dev_t)rp_load_relaxed(&end->device),
		(ino_t)rp_load_relaxed(&end->inode),
	};

	return rp_file_is(rp_load_relaxed(&end->fd), &file);
}

static void set(struct end *end, int fd)
{
	struct rp_file_id file;

	(void)rp_file_identify(fd, &file);
	rp_store_relaxed(&end->device, (uint64_t)file.device);
	rp_store_relaxed(&end->inode, (uint64_t)file.inode);
	rp_store_relaxed(&end->fd, fd);
}

/* Replace the file behind the number atomically, because a waking thread may be about to use it. */
static void replace(struct end *end, int fd)
{
	int at = rp_load_relaxed(&end->fd);

	if (is_there(end) && dup3(fd, at, O_CLOEXEC) == at) {
		close(fd);
		fd = at;
	}
	set(end, fd);
}

int rp_wake_open(void)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	replace(&woken, fds[0]);
	replace(&calling, fds[1]);
	return 0;
}

int rp_wake_fd(void)
{
	return rp_load_relaxed(&woken.fd);
}

bool rp_wake_is_whole(void)
{
	return is_there(&woken) && is_there(&calling);
}

bool rp_wake_is_heard(void)
{
	return is_there(&woken);
}

int rp_wake_mend(void)
{
	return rp_wake_is_whole() ? 0 : rp_wake_open();
}

static void close_end(struct end *end)
{
	if (is_there(end))
		close(rp_load_relaxed(&end->fd));
	set(end, -1);
}

void rp_wake_close(void)
{
	close_end(&woken);
	close_end(&calling);
}

bool rp_wake(void)
{
	if (!is_there(&calling))
		return false;
	/* If the queue is full, the other end is readable already. */
	(void)send(rp_load_relaxed(&calling.fd), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}
