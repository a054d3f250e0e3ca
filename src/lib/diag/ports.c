/* SPDX-License-Identifier: MIT */
#include "diag/ports.h"

#include <endian.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "diag/listen.h"
#include "ipc/connection.h"

#define NS_PER_MS 1000000ull
#define DELAY_FIRST_MS 10u
#define DELAY_MAX_MS 500u

static bool is_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

static int parse_option(const char *text, size_t length, struct rp_port *port)
{
	if (is_word(text, length, "connect"))
		port->listens = false;
	else if (is_word(text, length, "listen"))
		port->listens = true;
	else if (is_word(text, length, "suspend"))
		port->suspends = true;
	else if (is_word(text, length, "nosuspend"))
		port->suspends = false;
	else
		return -EINVAL;
	return 0;
}

/* Make the path absolute: the host or its child may change the working directory later. */
static int set_path(struct rp_port *port, const char *text, size_t length)
{
	size_t before = 0;

	if (length == 0)
		return -EINVAL;
	if (*text != '/') {
		if (!getcwd(port->path, sizeof(port->path)))
			return errno == ERANGE ? -ENAMETOOLONG : -errno;
		before = strlen(port->path);
		port->path[before++] = '/';
	}
	if (before + length >= sizeof(port->path))
		return -ENAMETOOLONG;
	memcpy(port->path + before, text, length);
	port->path[before + length] = '\0';
	return 0;
}

int rp_port_parse(const char *text, size_t length, struct rp_port *ret_port)
{
	const char *end = text + length, *comma = memchr(text, ',', length);
	struct rp_port port = { .suspends = true, .fd = -1, .delay_ms = DELAY_FIRST_MS };
	int r = set_path(&port, text, comma ? (size_t)(comma - text) : length);

	while (r == 0 && comma) {
		const char *option = comma + 1;

		comma = memchr(option, ',', (size_t)(end - option));
		r = parse_option(option, (size_t)((comma ? comma : end) - option), &port);
	}
	if (r == 0)
		*ret_port = port;
	return r;
}

int rp_port_listen(struct rp_port *port)
{
	int fd = rp_connection_socket(), r;

	if (fd < 0)
		return fd;
	r = rp_file_identify(fd, &port->socket);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = rp_listen_at(fd, port->path);
	if (r < 0) {
		/* The host may have closed it meanwhile and have its own file under this number. */
		if (rp_file_is(fd, &port->socket))
			close(fd);
		return r;
	}
	port->fd = fd;
	rp_file_identify_path(port->path, &port->file);
	return 0;
}

int rp_ports_add(struct rp_ports *ports, const struct rp_port *port)
{
	struct rp_port *slot = &ports->slots[ports->count];
	struct stat file;
	int r;

	if (ports->count == RP_PORTS_MAX)
		return -ENOSPC;
	if (stat(port->path, &file) == 0 && !S_ISSOCK(file.st_mode))
		return -ENOTSOCK;
	*slot = *port;
	r = slot->listens ? rp_port_listen(slot) : 0;
	if (r < 0)
		return r;
	ports->count++;
	ports->waiting += slot->suspends;
	return 0;
}

static int advertise(int fd, const uint8_t cookie[16])
{
	uint8_t bytes[RP_ADVERTISE_BYTES] = RP_ADVERTISE_MAGIC;
	uint64_t pid = htole64((uint64_t)getpid());
	size_t sent = 0;

	memcpy(bytes + 8, cookie, 16);
	memcpy(bytes + 24, &pid, sizeof(pid));
	return rp_connection_send(fd, bytes, sizeof(bytes), &sent);
}

int rp_port_connect(const struct rp_port *port, const uint8_t cookie[16], int *ret_fd,
		    pid_t *ret_peer)
{
	int fd = rp_connection_socket(), r;

	if (fd < 0)
		return fd;
	r = rp_connection_connect(fd, port->path);
	if (r == 0)
		r = rp_listen_check_peer_credentials(fd, ret_peer);
	if (r == 0)
		r = advertise(fd, cookie);
	if (r < 0)
		close(fd);
	else
		*ret_fd = fd;
	return r;
}

void rp_port_later(struct rp_port *port, uint64_t now_ns)
{
	port->connected = false;
	port->retry_ns = now_ns + port->delay_ms * NS_PER_MS;
	port->delay_ms += port->delay_ms / 4 + 1;
	if (port->delay_ms > DELAY_MAX_MS)
		port->delay_ms = DELAY_MAX_MS;
}

void rp_port_again(struct rp_port *port, uint64_t now_ns)
{
	port->connected = false;
	port->retry_ns = now_ns;
	port->delay_ms = DELAY_FIRST_MS;
}

static void let_go(struct rp_ports *ports, struct rp_port *port)
{
	rp_store_relaxed(&port->suspends, false);
	rp_store_release(&ports->waiting, ports->waiting - 1);
	if (ports->waiting == 0)
		syscall(SYS_futex, &ports->waiting, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Whether start-up waits for `other` until a client of `port` sends ResumeRuntime. */
static bool is_resumed_by(const struct rp_port *other, const struct rp_port *port)
{
	if (port->suspends)
		return other == port;
	return other->suspends && !other->listens && !other->connected;
}

bool rp_ports_resume_is_last(const struct rp_ports *ports, const struct rp_port *port)
{
	uint32_t resumed = 0;

	for (size_t i = 0; i < ports->count; i++)
		resumed += is_resumed_by(&ports->slots[i], port);
	return resumed == ports->waiting;
}

void rp_ports_resume(struct rp_ports *ports, struct rp_port *port)
{
	if (port->suspends) {
		let_go(ports, port);
		return;
	}
	for (size_t i = 0; i < ports->count; i++) {
		if (is_resumed_by(&ports->slots[i], port))
			let_go(ports, &ports->slots[i]);
	}
}

bool rp_port_suspends(const struct rp_port *port)
{
	return rp_load_relaxed(&port->suspends);
}

bool rp_ports_suspended(const struct rp_ports *ports)
{
	return rp_load_acquire(&ports->waiting) != 0;
}

int rp_ports_wait(const struct rp_ports *ports, unsigned int timeout_ms)
{
	uint64_t now = rp_clock_monotonic_ns(), end = now + timeout_ms * NS_PER_MS;
	uint32_t waiting;

	while ((waiting = rp_load_acquire(&ports->waiting)) != 0) {
		struct timespec left;

		now = rp_clock_monotonic_ns();
		if (now >= end)
			return -ETIMEDOUT;
		left.tv_sec = (time_t)((end - now) / 1000000000u);
		left.tv_nsec = (long)((end - now) % 1000000000u);
		syscall(SYS_futex, &ports->waiting, FUTEX_WAIT_PRIVATE, waiting, &left, NULL, 0);
	}
	return 0;
}

void rp_ports_unlink(const struct rp_ports *ports)
{
	for (size_t i = 0; i < ports->count; i++) {
		const struct rp_port *port = &ports->slots[i];

		/* Another copy of this library may have replaced the socket file. */
		if (port->fd >= 0 && rp_file_is_at(port->path, &port->file))
			unlink(port->path);
	}
}

void rp_ports_forget(struct rp_ports *ports)
{
	size_t kept = 1;

	for (size_t i = 1; i < ports->count; i++) {
		if (!ports->slots[i].listens)
			ports->slots[kept++] = ports->slots[i];
	}
	if (ports->count)
		ports->count = kept;
	ports->waiting = 0;
	for (size_t i = 0; i < ports->count; i++) {
		ports->slots[i].suspends = false;
		ports->slots[i].connected = false;
		ports->slots[i].retry_ns = 0;
		ports->slots[i].fd = -1;
	}
}

const char *rp_port_problem(int error)
{
	switch (error) {
	case -EINVAL:
		return "cannot read the diagnostic port";
	case -ENOSPC:
		return "too many diagnostic ports; ignored";
	case -ENOTSOCK:
		return "a diagnostic port must be a socket, not";
	case -EADDRINUSE:
		return "another process has the diagnostic port";
	default:
		return "cannot open the diagnostic port";
	}
}
