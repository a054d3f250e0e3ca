/* SPDX-License-Identifier: MIT */
/*
 * The loop watches one epoll set with the listening ports, the clients (connections of connecting
 * ports included), the connections that carry a session's stream, the one to the dump helper, and
 * the socket with which the drain thread and rp_diag_stop() wake the loop.
 *
 * The loop waits for no client. Each client has RP_CLIENT_NS to send its request and as long to
 * read its reply. If all slots are in use, the server drops the oldest client after a short grace
 * period; until then, the next client stays in the backlog. Connections of connecting ports have no
 * time limit. Without clients, and with all ports connected, the wait has no timeout.
 */
#include "diag/server.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "diag/listen.h"
#include "diag/serve.h"
#include "diag/wake.h"

#define NS_PER_MS 1000000u
#define ACCEPTS_MAX 16		/* per iteration, so that accepted clients are served too */
#define EVENTS_MAX 32
#define STARVED_MS (int)(RP_STARVED_NS / NS_PER_MS)

static void pause_accepting(uint64_t until_ns)
{
	rp_server.accept_after_ns = until_ns;
	rp_server_watch_ports(EPOLL_CTL_MOD);
}

static void resume_accepting(void)
{
	rp_server.accept_after_ns = 0;
	rp_server_watch_ports(EPOLL_CTL_MOD);
}

/* Accept or open a connection for a port, in rp_server.new_fd. */
static int open_connection(const struct rp_port *port, pid_t *ret_peer)
{
	int r;

	pthread_mutex_lock(&rp_server.fd_lock);
	r = port->listens ? rp_listen_accept(port->fd, &rp_server.new_fd, ret_peer) :
	    rp_port_connect(port, rp_server.cookie, &rp_server.new_fd, ret_peer);
	pthread_mutex_unlock(&rp_server.fd_lock);
	return r;
}

static void begin_client(struct rp_client *client, struct rp_port *port, pid_t peer, uint64_t now)
{
	if (client->fd >= 0)
		rp_serve_drop(client);
	*client = (struct rp_client){
		.fd = rp_server.new_fd,
		.state = RP_CLIENT_ASKS,
		.peer = peer,
		.port = port,
		.since_ns = now,
		.deadline_ns = port->listens ? now + RP_CLIENT_NS : UINT64_MAX,
	};
	rp_server.new_fd = -1;
	port->connected = !port->listens;
	/* Without fstat(2), the server could not detect that the host reused the number. */
	if (rp_file_identify(client->fd, &client->file) != 0 ||
	    rp_server_watch_client(EPOLL_CTL_ADD, client) < 0)
		rp_serve_drop(client);
	else
		rp_serve_client(client, 0);	/* usually the request has arrived already */
}

static void accept_clients(struct rp_port *port)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		uint64_t now = rp_clock_monotonic_ns(), later;
		struct rp_client *client = rp_server_find_slot(now, &later);
		pid_t peer;
		int r;

		if (!client) {
			pause_accepting(later);
			return;
		}
		r = open_connection(port, &peer);
		if (r == 0) {
			begin_client(client, port, peer, now);
		} else if (r == -EAGAIN) {
			return;
		} else if (r != -EACCES) {
			pause_accepting(now + RP_STARVED_NS);
			return;
		}
	}
}

/* Open the connections that are due. Return: the time of the next attempt. */
static uint64_t connect_ports(uint64_t now)
{
	uint64_t next = UINT64_MAX, later;

	for (size_t i = 0; i < rp_server.ports.count; i++) {
		struct rp_port *port = &rp_server.ports.slots[i];
		struct rp_client *client;
		pid_t peer;

		if (!port->listens && !port->connected && port->retry_ns <= now) {
			client = rp_server_find_slot(now, &later);
			if (!client)
				port->retry_ns = later;
			else if (open_connection(port, &peer) == 0)
				begin_client(client, port, peer, now);
			else
				rp_port_later(port, now);
		}
		if (!port->listens && !port->connected && port->retry_ns < next)
			next = port->retry_ns;
	}
	return next;
}

/* Read once more before dropping: if the host polled late, the request may have arrived in time. */
static void give_up(struct rp_client *client, uint64_t now)
{
	rp_serve_client(client, 0);
	if (client->fd >= 0 && client->deadline_ns <= now)
		rp_serve_drop(client);
}

/* Handle timeouts. Return: the time of the next one; UINT64_MAX: none. */
static uint64_t expire(void)
{
	uint64_t now = rp_clock_monotonic_ns(), next = connect_ports(now);
	uint64_t stopped = rp_trace_finish_stopped(&rp_server.traces, now);

	if (stopped < next)
		next = stopped;
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];

		if (client->fd >= 0 && client->deadline_ns <= now)
			give_up(client, now);
		if (client->fd >= 0 && client->deadline_ns < next)
			next = client->deadline_ns;
	}
	if (rp_server.accept_after_ns && rp_server.accept_after_ns <= now)
		resume_accepting();
	else if (rp_server.accept_after_ns && rp_server.accept_after_ns < next)
		next = rp_server.accept_after_ns;
	return next;
}

static int wait_ms(uint64_t until_ns, int most_ms)
{
	uint64_t now = rp_clock_monotonic_ns(), ms;

	if (until_ns == UINT64_MAX || most_ms == 0)
		return most_ms;
	ms = until_ns <= now ? 0 : (until_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	return most_ms >= 0 && ms > (unsigned int)most_ms ? most_ms : (int)ms;
}

/* Only for a host that polls, which does so without a timeout. */
static void set_timer(uint64_t until_ns)
{
	const uint64_t at = until_ns == UINT64_MAX ? 0 : until_ns;
	const struct itimerspec spec = {
		.it_value = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) },
	};

	if (at != rp_server.timer_ns)
		timerfd_settime(rp_server.timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
	rp_server.timer_ns = at;
}

static void take_call(int fd)
{
	uint64_t calls;
	ssize_t n = read(fd, &calls, sizeof(calls));

	(void)n;
}

static void serve(const struct epoll_event *event, uint32_t *accepts)
{
	size_t index = (uint32_t)event->data.u64;

	switch ((enum rp_watched)(event->data.u64 >> 32)) {
	case RP_WATCHED_CALL:
		take_call((int)index);
		break;
	case RP_WATCHED_LISTEN:
		*accepts |= 1u << index;
		break;
	case RP_WATCHED_CLIENT:
		if (rp_server.clients[index].fd >= 0)
			rp_serve_client(&rp_server.clients[index], event->events);
		break;
	case RP_WATCHED_TRACE:
		rp_serve_trace(&rp_server.traces.slots[index]);
		break;
	case RP_WATCHED_DUMP:
		rp_serve_dump();
		break;
	}
}

/* Return: false if a descriptor is lost that more than one client needs. */
static bool is_whole(void)
{
	bool whole;

	pthread_mutex_lock(&rp_server.fd_lock);
	whole = !rp_server_forget_lost();
	pthread_mutex_unlock(&rp_server.fd_lock);
	/* Without a connection to the helper, act as if the helper had ended. */
	if (rp_server.dump.fd < 0)
		rp_serve_dump();
	return whole;
}

/*
 * An epoll set drops descriptors that the host closed. poll(2) keeps a reference while it waits, so
 * it reports the end of the wake pair even if both numbers are closed, and connections to the
 * listening sockets. It does so even if the set itself is closed. poll(2) can fail with ENOMEM, and
 * with EINVAL if RLIMIT_NOFILE is very low; then the loop checks the set periodically.
 */
static void wait_for_events(int ms)
{
	struct pollfd fds[2 + RP_PORTS_MAX] = {
		{ .fd = rp_wake_fd(), .events = POLLIN },
		{ .fd = rp_server.epoll_fd, .events = POLLIN },
	};

	for (size_t i = 0; i < rp_server.ports.count; i++)
		fds[2 + i] = (struct pollfd){
			.fd = rp_server.ports.slots[i].fd,
			.events = rp_server.accept_after_ns ? 0 : POLLIN,
		};
	if (poll(fds, 2 + rp_server.ports.count, ms) < 0 && errno != EINTR)
		poll(NULL, 0, ms < 0 || ms > STARVED_MS ? STARVED_MS : ms);
}

int rp_server_poll_once(int most_ms)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t accepts = 0;	/* one bit per port */
	int n;

	if (!is_whole())
		return 1;
	wait_for_events(wait_ms(expire(), most_ms));
	if (!is_whole())
		return 1;
	n = epoll_wait(rp_server.epoll_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < n; i++)
		serve(&events[i], &accepts);
	rp_serve_close_ended();
	rp_serve_close_sent();
	/* Accept last: a reused slot must not get events of its previous client. */
	for (; accepts; accepts &= accepts - 1)
		accept_clients(&rp_server.ports.slots[__builtin_ctz(accepts)]);
	if (rp_server.timer_fd >= 0)
		set_timer(expire());
	return 0;
}

void rp_server_close(void)
{
	pthread_mutex_lock(&rp_server.fd_lock);
	(void)rp_server_forget_lost();
	rp_ports_unlink(&rp_server.ports);
	for (size_t i = 0; i < rp_server.ports.count; i++) {
		rp_server_unwatch(rp_server.ports.slots[i].fd);
		rp_server_take_out(&rp_server.ports.slots[i].fd);
	}
	pthread_mutex_unlock(&rp_server.fd_lock);
	rp_serve_close_sendings();
	/* Finish all sessions first, so that their last flushes run in parallel. */
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (rp_server.traces.slots[i].id)
			rp_trace_finish(&rp_server.traces.slots[i]);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (rp_server.traces.slots[i].id)
			rp_serve_close_trace(&rp_server.traces.slots[i]);
	}
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		if (rp_server.clients[i].fd >= 0)
			rp_serve_drop(&rp_server.clients[i]);
	}
	rp_serve_close_dump();
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_server_take_out(&rp_server.epoll_fd);
	rp_server_take_out(&rp_server.timer_fd);
	pthread_mutex_unlock(&rp_server.fd_lock);
}
