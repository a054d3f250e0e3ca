/* SPDX-License-Identifier: MIT */
#include "diag/wake.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"

static struct rp_file_id identity;

int rp_wake_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(address.sun_family);	/* no name: the kernel finds one */
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address, size) == 0) {
		size = sizeof(address);
		/* Who is connected takes datagrams from nobody else. */
		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
		    connect(fd, (const struct sockaddr *)&address, size) == 0) {
			rp_file_identify(fd, &identity);
			return fd;
		}
	}
	error = errno;
	close(fd);
	return -error;
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
