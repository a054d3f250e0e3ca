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

#include "ipc/command_ids.h"
#include "ipc/connection.h"
#include "tools/client/exchange.h"
#include "tools/client/port.h"
#include "tools/client/proc.h"
#include "tools/cli/signals.h"

#define BACKLOG 16
#define ADVERTISE_MS 250
#define LINEAGE_MAX 4096	/* ancestors visited between a process and this one */

static int bind_at(int fd, const char *path, mode_t mode)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || chmod(path, mode) ||
	    listen(fd, BACKLOG))
		return -errno;
	return 0;
}

/*
 * Listens in a new directory. A command that root runs may change its user before it connects, so
 * any user may enter root's directory, and is_descendant() checks each peer.
 */
static int listen_in(struct rp_tool_port *port, const char *parent)
{
	bool is_root = geteuid() == 0;
	char *directory;
	int ret = 0;

	if (asprintf(&directory, "%s/ringpipe-XXXXXX", parent) < 0)
		return -ENOMEM;
	if (!mkdtemp(directory) || (is_root && chmod(directory, 0711)))
		ret = -errno;
	else if (asprintf(&port->path, "%s/port", directory) < 0)
		ret = -ENOMEM;
	if (ret != 0) {
		rmdir(directory);
		port->path = NULL;
	} else {
		port->fd = ret = rp_connection_socket();
		if (ret >= 0)
			ret = bind_at(port->fd, port->path, is_root ? 0666 : 0600);
	}
	free(directory);
	return ret;
}

int rp_tool_port_open(struct rp_tool_port *port)
{
	char *parent = realpath(rp_target_directory(), NULL);
	int ret;

	*port = (struct rp_tool_port){ .fd = -1, .runtime.fd = -1 };
	for (size_t i = 0; i < RP_PORT_OTHERS_MAX; i++)
		port->others[i].fd = -1;
	ret = parent ? listen_in(port, parent) : -errno;
	free(parent);
	if (ret) {
		rp_tool_error("cannot listen in %s: %s", rp_target_directory(), strerror(-ret));
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
	if (port->fd >= 0)
		close(port->fd);
	port->fd = -1;
	if (port->path) {
		unlink(port->path);
		*strrchr(port->path, '/') = '\0';
		rmdir(port->path);
	}
	hold(&port->runtime, -1);
	for (size_t i = 0; i < RP_PORT_OTHERS_MAX; i++)
		hold(&port->others[i], -1);
	free(port->path);
	port->path = NULL;
}

/* Return: whether the process identified itself in time. */
static bool read_advertise(int fd, uint8_t bytes[RP_ADVERTISE_BYTES])
{
	int64_t end = rp_now_ms() + ADVERTISE_MS;
	size_t size = 0;

	while (size < RP_ADVERTISE_BYTES) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int64_t left = end - rp_now_ms();
		size_t got;

		if (left <= 0 || poll(&wait, 1, (int)left) <= 0 ||
		    rp_connection_receive(fd, bytes + size, RP_ADVERTISE_BYTES - size, &got) ||
		    got == 0)
			return false;
		size += got;
	}
	return memcmp(bytes, RP_ADVERTISE_MAGIC, 8) == 0;
}

static void resume_other(struct rp_tool_port *port, const uint8_t cookie[16], int fd)
{
	struct rp_runtime *other = NULL;
	struct rp_message_buffer request = { 0 };

	for (size_t i = 0; i < RP_PORT_OTHERS_MAX && !other; i++) {
		if (port->others[i].fd >= 0 && !memcmp(port->others[i].cookie, cookie, 16))
			other = &port->others[i];
	}
	if (other) {
		/*
		 * The runtime has been resumed and waits for another command, so keep its
		 * connection open.
		 */
		hold(other, fd);
		return;
	}
	other = &port->others[port->next_other++ % RP_PORT_OTHERS_MAX];
	memcpy(other->cookie, cookie, 16);
	hold(other, fd);
	rp_message_begin(&request, RP_MESSAGE_PROCESS, RP_RESUME_RUNTIME);
	rp_message_end(&request);
	(void)send(fd, request.bytes, request.size, MSG_NOSIGNAL);
	rp_message_fini(&request);
}

/*
 * Whether the process is the command or a descendant of it: any other process is rejected, since it
 * would be traced instead. An orphan's new parent is this process, see rp_child_start().
 */
static bool is_descendant(pid_t pid)
{
	pid_t at = pid, parent;

	for (unsigned int i = 0; i < LINEAGE_MAX && at > 1; i++) {
		if (rp_proc_parent(at, &parent) == 0) {
			if (parent == getpid())
				return true;
			at = parent;
		} else if (at == pid) {
			return false;
		} else {
			/*
			 * The process ended between two reads, and its children have another
			 * parent.
			 */
			at = pid;
		}
	}
	return false;
}

static void greet(struct rp_tool_port *port, int fd)
{
	uint8_t advertise[RP_ADVERTISE_BYTES];
	const uint8_t *cookie = advertise + 8;
	uid_t uid;
	pid_t peer;

	if (rp_connection_get_peer(fd, &uid, &peer) < 0 || !is_descendant(peer) ||
	    !read_advertise(fd, advertise)) {
		close(fd);
		return;
	}
	if (port->pid == 0) {
		port->pid = peer;
		memcpy(port->runtime.cookie, cookie, 16);
	}
	if (!memcmp(port->runtime.cookie, cookie, 16))
		hold(&port->runtime, fd);
	else
		resume_other(port, cookie, fd);
}

void rp_tool_port_accept(struct rp_tool_port *port)
{
	/* Limits one call, so that many connections do not keep the caller from its other work. */
	for (unsigned int i = 0; i < BACKLOG; i++) {
		int fd = accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			break;
		greet(port, fd);
	}
}

int rp_tool_port_take(struct rp_tool_port *port)
{
	int fd;

	rp_tool_port_accept(port);
	fd = port->runtime.fd;
	port->runtime.fd = -1;
	return fd < 0 ? -EAGAIN : fd;
}
