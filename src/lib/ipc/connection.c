/* SPDX-License-Identifier: MIT */
#include "ipc/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int rp_connection_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

static int connect_to(int fd, const struct sockaddr_un *address)
{
	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
}

/* A path with /proc/PID/root in front may be too long for an address. */
static int connect_by_directory(int fd, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *name = strrchr(path, '/');
	char *directory = name ? strndup(path, (size_t)(name - path)) : NULL;
	int directory_fd = directory ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	int n, r = -ENAMETOOLONG;

	free(directory);
	if (directory_fd < 0)
		return r;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d%s",
		     directory_fd, name);
	if (n > 0 && (size_t)n < sizeof(address.sun_path))
		r = connect_to(fd, &address);
	close(directory_fd);
	return r;
}

int rp_connection_connect(int fd, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = strlen(path);

	if (length >= sizeof(address.sun_path))
		return connect_by_directory(fd, path);
	memcpy(address.sun_path, path, length);
	return connect_to(fd, &address);
}

int rp_connection_get_peer(int fd, uid_t *ret_uid, pid_t *ret_pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -EACCES;
	*ret_uid = peer.uid;
	*ret_pid = peer.pid;
	return 0;
}

int rp_connection_send(int fd, const uint8_t *bytes, size_t size, size_t *sent)
{
	while (*sent < size) {
		ssize_t n = send(fd, bytes + *sent, size - *sent, MSG_NOSIGNAL);

		if (n >= 0)
			*sent += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int rp_connection_receive(int fd, uint8_t *bytes, size_t size, size_t *ret_received)
{
	ssize_t n;

	do {
		n = recv(fd, bytes, size, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*ret_received = (size_t)n;
	return 0;
}
