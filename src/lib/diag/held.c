/* SPDX-License-Identifier: MIT */
/*
 * The server's descriptors in a host that closes descriptors of others, or replaces them with
 * dup2(2). The server never writes to or closes a descriptor of the host, and reopens only what is
 * missing. The server identifies sockets by their inode. Epoll sets and timers all share one inode,
 * but an epoll set identifies its members by number and file. So an epoll set that contains a
 * socket of the server belongs to the server, and so does a timer in that set.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "diag/listen.h"
#include "diag/process.h"
#include "diag/server.h"
#include "diag/wake.h"
#include "host/runtime.h"

struct rp_server rp_server = {
	.fd_lock = PTHREAD_MUTEX_INITIALIZER,
	.epoll_fd = -1,
	.timer_fd = -1,
	.new_fd = -1,
	.dump.fd = -1,
	.ports = {
		.slots = { { .listens = true, .fd = -1 } },
		.count = 1,
	},
};

void rp_server_take_out(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int watch(int operation, int fd, uint32_t events, enum rp_watched kind, size_t index)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)kind << 32 | index,
	};

	return epoll_ctl(rp_server.epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

/* The event contains the descriptor's number. */
static int watch_call(int operation, int fd)
{
	return watch(operation, fd, EPOLLIN, RP_WATCHED_CALL, (size_t)fd);
}

int rp_server_watch_client(int operation, const struct rp_client *client)
{
	static const uint32_t events[] = {
		[RP_CLIENT_ASKS] = EPOLLIN,
		[RP_CLIENT_PASSES] = EPOLLIN,
		[RP_CLIENT_WAITS] = 0,
		[RP_CLIENT_TAKES] = EPOLLOUT,
		[RP_CLIENT_LEAVES] = EPOLLIN,
	};

	return watch(operation, client->fd, events[client->state], RP_WATCHED_CLIENT,
		     (size_t)(client - rp_server.clients));
}

int rp_server_watch_trace(int operation, const struct rp_trace *trace)
{
	return watch(operation, trace->fd, 0, RP_WATCHED_TRACE,
		     (size_t)(trace - rp_server.traces.slots));
}

int rp_server_watch_dump(void)
{
	return watch(EPOLL_CTL_ADD, rp_server.dump.fd, EPOLLIN, RP_WATCHED_DUMP, 0);
}

static int watch_port(int operation, size_t index)
{
	return watch(operation, rp_server.ports.slots[index].fd,
		     rp_server.accept_after_ns ? 0 : EPOLLIN, RP_WATCHED_LISTEN, index);
}

void rp_server_watch_ports(int operation)
{
	for (size_t i = 0; i < rp_server.ports.count; i++) {
		if (rp_server.ports.slots[i].fd >= 0)
			(void)watch_port(operation, i);
	}
}

void rp_server_unwatch(int fd)
{
	epoll_ctl(rp_server.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* The timer expires immediately; the first iteration then sets it to the next deadline. */
static int open_timer(void)
{
	const struct itimerspec past = { .it_value.tv_nsec = 1 };

	rp_server.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	rp_server.timer_ns = 0;
	timerfd_settime(rp_server.timer_fd, TFD_TIMER_ABSTIME, &past, NULL);
	return watch_call(EPOLL_CTL_ADD, rp_server.timer_fd);
}

/* Create the set with the wake pair in it, and a timer if the host polls. */
static int open_set(void)
{
	int r;

	rp_server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = watch_call(EPOLL_CTL_ADD, rp_wake_fd());
	return r == 0 && rp_server.polled ? open_timer() : r;
}

/* Open the socket that clients find by the process id. Return: 0 or -errno. */
static int open_default_port(void)
{
	struct rp_port *port = &rp_server.ports.slots[0];
	const char *whose = rp_server.own_name ? "ringpipe" : "dotnet";
	int r = rp_listen_path(rp_server.directory, whose, getpid(), rp_process_start_ticks(),
			       port->path);

	if (r == 0)
		r = rp_port_listen(port);
	if (r == 0 && !rp_server.own_name)
		rp_runtime_mark_process();
	return r;
}

int rp_server_open(void)
{
	struct rp_port *port = &rp_server.ports.slots[0];
	int r;

	rp_process_make_cookie(rp_server.cookie);
	pthread_mutex_lock(&rp_server.fd_lock);
	r = open_set();
	if (r == 0)
		port->error = open_default_port();
	pthread_mutex_unlock(&rp_server.fd_lock);
	if (r < 0)
		return r;
	/* No client can connect here, so start-up need not wait for one. */
	if (port->error < 0 && port->suspends)
		rp_ports_resume(&rp_server.ports, port);
	if (port->error < 0 && rp_server.ports.count == 1)
		return port->error;
	rp_server_watch_ports(EPOLL_CTL_ADD);
	return 0;
}

static bool forget_port(struct rp_port *port)
{
	if (port->fd < 0 || rp_file_is(port->fd, &port->socket))
		return false;
	port->fd = -1;
	return true;
}

/* Return: whether the set is still the server's: it must contain one of its sockets. */
static bool is_our_set(void)
{
	if (rp_wake_is_heard())
		return watch_call(EPOLL_CTL_MOD, rp_wake_fd()) == 0;
	for (size_t i = 0; i < rp_server.ports.count; i++) {
		if (rp_server.ports.slots[i].fd >= 0)
			return watch_port(EPOLL_CTL_MOD, i) == 0;
	}
	return false;
}

/* Release clients whose connection the host has closed. Streams have their own descriptors. */
static void forget_connections(void)
{
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];

		if (client->fd < 0 || rp_file_is(client->fd, &client->file))
			continue;
		if (rp_client_is_ports_own(client))
			rp_port_later(client->port, rp_clock_monotonic_ns());
		rp_client_release(client);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		struct rp_trace *trace = &rp_server.traces.slots[i];

		if (trace->fd >= 0 && !rp_file_is(trace->fd, &trace->file))
			trace->fd = -1;
	}
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++) {
		struct rp_sending *sending = &rp_server.sendings[i];

		if (sending->taken && sending->fd >= 0 &&
		    !rp_file_is(sending->fd, &sending->file))
			sending->fd = -1;
	}
	if (rp_server.dump.fd >= 0 && !rp_file_is(rp_server.dump.fd, &rp_server.dump.file))
		rp_server.dump.fd = -1;
}

bool rp_server_forget_lost(void)
{
	bool lost = !rp_wake_is_whole();

	for (size_t i = 0; i < rp_server.ports.count; i++)
		lost |= forget_port(&rp_server.ports.slots[i]);
	if (rp_server.epoll_fd >= 0 && !is_our_set()) {
		lost = true;
		rp_server.epoll_fd = -1;
	}
	if (rp_server.timer_fd >= 0 && watch_call(EPOLL_CTL_MOD, rp_server.timer_fd) < 0) {
		lost = true;
		rp_server.timer_fd = -1;
	}
	forget_connections();
	rp_server.lost |= lost;
	return rp_server.lost;
}

static void watch_connections(void)
{
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		if (rp_server.clients[i].fd >= 0)
			(void)rp_server_watch_client(EPOLL_CTL_ADD, &rp_server.clients[i]);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (rp_server.traces.slots[i].fd >= 0)
			(void)rp_server_watch_trace(EPOLL_CTL_ADD, &rp_server.traces.slots[i]);
	}
	if (rp_server.dump.fd >= 0)
		(void)rp_server_watch_dump();
}

/* Return: 0, or -errno if another attempt is useful. */
static int open_lost_port(size_t index)
{
	struct rp_port *port = &rp_server.ports.slots[index];
	int r;

	if (!port->listens || port->fd >= 0 || port->error < 0)
		return 0;
	r = rp_port_listen(port);
	if (r == 0) {
		port->attempts = 0;
		(void)watch_port(EPOLL_CTL_ADD, index);
	} else if (++port->attempts == RP_PORT_ATTEMPTS_MAX) {
		port->error = r;
		r = 0;
	}
	return r;
}

static int open_lost_ports(void)
{
	int r = 0;

	for (size_t i = 0; i < rp_server.ports.count; i++) {
		int opened = open_lost_port(i);

		r = r == 0 ? opened : r;
	}
	return r;
}

static int mend_set(void)
{
	int r;

	if (rp_server.epoll_fd >= 0)
		return rp_server.polled && rp_server.timer_fd < 0 ? open_timer() : 0;
	r = open_set();
	if (r == 0) {
		rp_server_watch_ports(EPOLL_CTL_ADD);
		watch_connections();
	}
	return r;
}

static int mend_pair(void)
{
	int r;

	if (rp_wake_is_whole())
		return 0;
	if (rp_wake_is_heard())
		rp_server_unwatch(rp_wake_fd());
	r = rp_wake_mend();
	if (r == 0 && rp_server.epoll_fd >= 0)
		r = watch_call(EPOLL_CTL_ADD, rp_wake_fd());
	return r;
}

int rp_server_mend(void)
{
	int r;

	pthread_mutex_lock(&rp_server.fd_lock);
	(void)rp_server_forget_lost();
	r = mend_pair();
	if (r == 0)
		r = mend_set();
	if (r == 0)
		r = open_lost_ports();
	pthread_mutex_unlock(&rp_server.fd_lock);
	rp_server.lost = r != 0;
	/* Replaces wake-ups that were lost meanwhile. */
	(void)rp_wake();
	return r;
}
