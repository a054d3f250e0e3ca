/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tool/exchange.h"
#include "tool/port.h"

#define BACKLOG 16
#define ADVERTISE_BYTES 34u
#define ADVERTISE_MS 250

static int listen_at(int fd, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* A command of root's may become another user before it connects. */
	mode_t mode = geteuid() == 0 ? 0666 : 0600;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || chmod(path, mode) ||
	    listen(fd, BACKLOG))
		return -errno;
	return 0;
}

int rp_tool_port_open(struct rp_tool_port *port)
{
	char *directory = realpath(rp_target_directory(), NULL);
	int ret;

	*port = (struct rp_tool_port){ .fd = -1, .runtime.fd = -1 };
	for (size_t i = 0; i < RP_PORT_OTHERS_MAX; i++)
		port->others[i].fd = -1;
	if (!directory) {
		ret = -errno;
		rp_tool_error("cannot use %s: %s", rp_target_directory(), strerror(-ret));
		return ret;
	}
	if (asprintf(&port->path, "%s/ringpipe-collect-%d.socket", directory, getpid()) < 0)
		port->path = NULL;
	free(directory);
	if (!port->path) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	unlink(port->path);		/* of an earlier process with our pid */
	port->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ret = port->fd < 0 ? -errno : listen_at(port->fd, port->path);
	if (ret) {
		rp_tool_error("cannot listen at %s: %s", port->path, strerror(-ret));
		rp_tool_port_close(port);
	}
	return ret;
}

static void hold(struct rp_runtime *runtime, int fd)
{
	if (runtime->fd >= 0)
		close(runtime->fd);
	runtime->fd = fd;
}

void rp_tool_port_close(struct rp_tool_port *port)
{
	if (port->fd >= 0) {
		unlink(port->path);
		close(port->fd);
	}
	port->fd = -1;
	hold(&port->runtime, -1);
	for (size_t i = 0; i < RP_PORT_OTHERS_MAX; i++)
		hold(&port->others[i], -1);
	free(port->path);
	port->path = NULL;
}

/* "ADVR_V1\0", 16 bytes of cookie, u64 pid, u16 0. Return: whether it came, and in time. */
static bool read_advertise(int fd, uint8_t bytes[ADVERTISE_BYTES])
{
	int64_t end = rp_now_ms() + ADVERTISE_MS;
	size_t size = 0;

	while (size < ADVERTISE_BYTES) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int64_t left = end - rp_now_ms();
		ssize_t got;

		if (left <= 0 || poll(&wait, 1, (int)left) <= 0)
			return false;
		got = recv(fd, bytes + size, ADVERTISE_BYTES - size, 0);
		if (got <= 0)
			return false;
		size += (size_t)got;
	}
	return memcmp(bytes, "ADVR_V1", 8) == 0;
}

static void resume_other(struct rp_tool_port *port, const uint8_t cookie[16], int fd)
{
	struct rp_runtime *other = NULL;
	struct rp_wire_message request;

	for (size_t i = 0; i < RP_PORT_OTHERS_MAX && !other; i++) {
		if (port->others[i].fd >= 0 && !memcmp(port->others[i].cookie, cookie, 16))
			other = &port->others[i];
	}
	if (other) {
		/* It was resumed, and waits for another command now, which never comes. */
		hold(other, fd);
		return;
	}
	other = &port->others[port->next_other++ % RP_PORT_OTHERS_MAX];
	memcpy(other->cookie, cookie, 16);
	hold(other, fd);
	rp_wire_begin(&request, RP_SET_PROCESS, 0x01);
	rp_wire_end(&request);
	(void)send(fd, request.bytes, request.size, MSG_NOSIGNAL);
}

static void greet(struct rp_tool_port *port, int fd)
{
	uint8_t advertise[ADVERTISE_BYTES];
	const uint8_t *cookie = advertise + 8;
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
	    (geteuid() != 0 && peer.uid != 0 && peer.uid != geteuid()) ||
	    !read_advertise(fd, advertise)) {
		close(fd);
		return;
	}
	if (port->pid == 0) {
		port->pid = peer.pid;
		memcpy(port->runtime.cookie, cookie, 16);
	}
	if (!memcmp(port->runtime.cookie, cookie, 16))
		hold(&port->runtime, fd);
	else
		resume_other(port, cookie, fd);
}

void rp_tool_port_accept(struct rp_tool_port *port)
{
	int fd;

	while ((fd = accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		greet(port, fd);
}

int rp_tool_port_take(struct rp_tool_port *port)
{
	int fd;

	rp_tool_port_accept(port);
	fd = port->runtime.fd;
	port->runtime.fd = -1;
	return fd < 0 ? -EAGAIN : fd;
}
