/* SPDX-License-Identifier: MIT */
/*
 * An epoll set of the ports that listen, the clients (our connections to ports of others among
 * them), the connections that carry a session's stream, the one to the helper that writes a dump,
 * and the socket on which the drain thread and rp_diag_stop() call.
 *
 * Nothing here waits for a client. Each has CLIENT_NS to send its request and as long to take its
 * reply; when all slots are taken the oldest goes, if it has had a little time, and else the next
 * is left in the backlog until one has. Where we connected, nobody has to ask: that has no end.
 * With nobody connected and every port of others reached, the wait has no timeout.
 */
#include "diag/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "diag/commands.h"
#include "diag/listen.h"
#include "diag/wake.h"

#define NS_PER_MS 1000000u
#define CLIENT_NS (5000ull * NS_PER_MS)
#define ACCEPTS_MAX 16		/* in one turn, so that those who are there get theirs */
#define EVENTS_MAX 32
/* In memory for clients that do not take them. */
#define REPLIES_BYTES_MAX ((size_t)16 << 20)

static void close_dump(void)
{
	if (rp_server.dump.fd >= 0)
		rp_server_unwatch(rp_server.dump.fd);
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_dump_close(&rp_server.dump);
	pthread_mutex_unlock(&rp_server.fd_lock);
}

static bool waits_for(const struct rp_client *client, uint64_t id)
{
	return client->fd >= 0 && client->state == RP_CLIENT_WAITS && client->waits_for == id;
}

static void drop_client(struct rp_client *client)
{
	/* Nobody else wants it, and the process stands still for it. */
	if (rp_server.dump.id && waits_for(client, rp_server.dump.id))
		close_dump();
	if (rp_client_is_ports_own(client))
		rp_port_later(client->port, rp_clock_monotonic_ns());
	rp_server_unwatch(client->fd);
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_client_close(client);
	pthread_mutex_unlock(&rp_server.fd_lock);
}

/* Ending it now would fail what the client sends, before it looks at its reply. */
static int let_leave(struct rp_client *client)
{
	client->state = RP_CLIENT_LEAVES;
	client->deadline_ns = rp_clock_monotonic_ns() + CLIENT_NS;
	shutdown(client->fd, SHUT_WR);
	return rp_server_watch_client(EPOLL_CTL_MOD, client);
}

/* Replies that nobody takes do not add up: the oldest go. */
static void bound_replies(const struct rp_client *newest)
{
	struct rp_client *oldest;
	size_t bytes;

	do {
		oldest = NULL;
		bytes = 0;
		for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
			struct rp_client *client = &rp_server.clients[i];

			if (client->fd < 0 || client->state != RP_CLIENT_TAKES)
				continue;
			bytes += client->reply.capacity;
			if (client != newest && (!oldest || client->since_ns < oldest->since_ns))
				oldest = client;
		}
		if (bytes > REPLIES_BYTES_MAX && oldest)
			drop_client(oldest);
	} while (bytes > REPLIES_BYTES_MAX && oldest);
}

/* Sends the reply, as far as it goes now; the rest when the client has made room. */
static void send_reply(struct rp_client *client)
{
	int r;

	if (client->state != RP_CLIENT_TAKES) {
		client->state = RP_CLIENT_TAKES;
		client->deadline_ns = rp_clock_monotonic_ns() + CLIENT_NS;
	}
	r = rp_client_send(client);
	if (r == 0)
		r = rp_server_watch_client(EPOLL_CTL_MOD, client);
	else if (r == 1 && client->sends_more)
		r = let_leave(client);
	if (r != 0)
		drop_client(client);
	else
		bound_replies(client);
}

/* The connection becomes the session's; what is watched is whether its client goes away. */
static void hand_over(struct rp_client *client, struct rp_trace *trace)
{
	if (rp_server_watch_trace(EPOLL_CTL_MOD, trace) < 0)
		rp_trace_finish(trace);
	rp_client_release(client);
}

/*
 * The connection becomes the session's, which lasts as long as it does: nothing else comes by it.
 * The few bytes of the reply find room, or the client is none.
 */
static void hold(struct rp_client *client, struct rp_trace *trace)
{
	if (rp_client_send(client) != 1)
		rp_trace_finish(trace);
	hand_over(client, trace);
}

static void take_descriptor(struct rp_client *client);

static void wait_for(struct rp_client *client, uint64_t id)
{
	client->state = RP_CLIENT_WAITS;
	client->deadline_ns = UINT64_MAX;
	client->waits_for = id;
	if (rp_server_watch_client(EPOLL_CTL_MOD, client) < 0)
		drop_client(client);
}

/* `passed_fd` came behind the request; -1: nothing did. */
static void run_request(struct rp_client *client, int passed_fd)
{
	struct rp_command command = {
		.traces = &rp_server.traces,
		.dump = &rp_server.dump,
		.cookie = rp_server.cookie,
		.fd = client->fd,
		.passed_fd = passed_fd,
		.peer = client->peer,
		.suspended = rp_ports_suspended(&rp_server.ports),
		.reply = &client->reply,
	};
	struct rp_port *port = client->port;

	rp_server.traces.max = rp_server_sessions_max();
	rp_command_run(&command, rp_client_request(client), client->request_bytes);
	client->sends_more = command.sends_more;
	if (command.passed_fd >= 0)
		close(command.passed_fd);
	switch (command.outcome) {
	case RP_COMMAND_REPLY:
		send_reply(client);
		break;
	case RP_COMMAND_STREAM:
		hand_over(client, command.trace);
		break;
	case RP_COMMAND_HOLD:
		hold(client, command.trace);
		break;
	case RP_COMMAND_PASS:
		rp_reply_fini(&client->reply);
		client->state = RP_CLIENT_PASSES;
		take_descriptor(client);
		break;
	case RP_COMMAND_WAIT:
		wait_for(client, command.trace->id);
		break;
	case RP_COMMAND_DUMP:
		wait_for(client, rp_server.dump.id);
		if (rp_server_watch_dump() < 0)
			drop_client(client);
		break;
	case RP_COMMAND_RESUME:
		/* What starts may be another program, and this one's connections are gone. */
		send_reply(client);
		rp_ports_resume(&rp_server.ports, port);
		break;
	}
}

/* What a session of the kernel's events needs has come, or comes later. */
static void take_descriptor(struct rp_client *client)
{
	int fd, r = rp_client_take_descriptor(client, &fd);

	if (r == 1) {
		run_request(client, fd);
	} else if (r == -EBADMSG) {
		rp_reply_refuse(&client->reply, RP_HRESULT_BAD_ENCODING);
		send_reply(client);
	} else if (r < 0) {
		drop_client(client);
	}
}

static void take_request(struct rp_client *client)
{
	enum rp_hresult hr;
	int r = rp_client_receive(client, &hr);

	if (r < 0 || (r > 0 && hr != RP_HRESULT_OK && rp_client_is_ports_own(client))) {
		/* What listens at that port is no tool: no more often than if nobody did. */
		drop_client(client);
	} else if (r == 0) {
		if (client->request_bytes && client->deadline_ns == UINT64_MAX)
			client->deadline_ns = rp_clock_monotonic_ns() + CLIENT_NS;
	} else if (hr != RP_HRESULT_OK) {
		rp_reply_refuse(&client->reply, hr);
		send_reply(client);
	} else {
		if (rp_client_is_ports_own(client))
			rp_port_again(client->port, rp_clock_monotonic_ns());
		run_request(client, -1);
	}
}

static void serve_client(struct rp_client *client, uint32_t events)
{
	switch (client->state) {
	case RP_CLIENT_ASKS:
		take_request(client);
		break;
	case RP_CLIENT_PASSES:
		take_descriptor(client);
		break;
	case RP_CLIENT_WAITS:
		if (events & (EPOLLHUP | EPOLLERR))
			drop_client(client);
		break;
	case RP_CLIENT_TAKES:
		send_reply(client);
		break;
	case RP_CLIENT_LEAVES:
		if (rp_client_drain(client) != 0)
			drop_client(client);
		break;
	}
}

/* The session ended: gives it back, and their reply to those who asked for its end. */
static void close_trace(struct rp_trace *trace)
{
	uint64_t id = trace->id;

	rp_server_unwatch(trace->fd);
	rp_trace_join(trace);
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_trace_close(trace);
	pthread_mutex_unlock(&rp_server.fd_lock);
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];

		if (waits_for(client, id))
			send_reply(client);
	}
}

static void close_ended_traces(void)
{
	struct rp_trace *trace;

	/* The host closed the connection by which a client ends what writes to another file. */
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		trace = &rp_server.traces.slots[i];
		if (trace->id && trace->user_events && trace->fd < 0)
			rp_trace_finish(trace);
	}
	while ((trace = rp_trace_next_ended(&rp_server.traces)))
		close_trace(trace);
}

/* The client of a stream went away: end its session now, not at its next event. */
static void serve_trace(struct rp_trace *trace)
{
	if (trace->id && trace->fd >= 0) {
		rp_server_unwatch(trace->fd);
		rp_trace_finish(trace);
	}
}

/* The helper said something, or ended. */
static void serve_dump(void)
{
	uint64_t id = rp_server.dump.id;

	if (!id || !rp_dump_read(&rp_server.dump))
		return;
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];

		if (waits_for(client, id)) {
			rp_dump_reply(&rp_server.dump, &client->reply);
			send_reply(client);
		}
	}
	close_dump();
}

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

/* A connection in rp_server.new_fd, by whichever way the port makes them. */
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
		drop_client(client);
	*client = (struct rp_client){
		.fd = rp_server.new_fd,
		.state = RP_CLIENT_ASKS,
		.peer = peer,
		.port = port,
		.since_ns = now,
		.deadline_ns = port->listens ? now + CLIENT_NS : UINT64_MAX,
	};
	rp_file_identify(client->fd, &client->file);
	rp_server.new_fd = -1;
	port->connected = !port->listens;
	if (rp_server_watch_client(EPOLL_CTL_ADD, client) < 0)
		drop_client(client);
	else
		serve_client(client, 0);	/* mostly the request is there already */
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

/* Tries to reach the ports of others that are due. Return: when the next one is. */
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

/* Does what is due, and tells when something else will be; UINT64_MAX: never. */
static uint64_t expire(void)
{
	uint64_t now = rp_clock_monotonic_ns(), next = connect_ports(now);

	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];

		if (client->fd >= 0 && client->deadline_ns <= now)
			drop_client(client);
		else if (client->fd >= 0 && client->deadline_ns < next)
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

/* The host polls without a timeout. */
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
			serve_client(&rp_server.clients[index], event->events);
		break;
	case RP_WATCHED_TRACE:
		serve_trace(&rp_server.traces.slots[index]);
		break;
	case RP_WATCHED_DUMP:
		serve_dump();
		break;
	}
}

/* Whether nothing is lost, or only such as one client alone misses. */
static bool is_whole(void)
{
	bool whole;

	pthread_mutex_lock(&rp_server.fd_lock);
	whole = !rp_server_forget_lost();
	pthread_mutex_unlock(&rp_server.fd_lock);
	/* As if the helper had ended, if that is where it is. */
	if (rp_server.dump.fd < 0)
		serve_dump();
	return whole;
}

/*
 * An epoll set forgets what the host closed. poll(2) holds on to what it waits for: it hears of the
 * end of the pair even when both its numbers are gone, and of somebody who comes by a socket that
 * listened. That and a call it hears of without the set, too, which may be what is gone.
 */
static int wait_for_events(int ms)
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
	return poll(fds, 2 + rp_server.ports.count, ms) < 0 && errno != EINTR ? -errno : 0;
}

int rp_server_turn(int most_ms)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t accepts = 0;	/* a bit for each port */
	int n;

	if (!is_whole())
		return 1;
	n = wait_for_events(wait_ms(expire(), most_ms));
	if (n < 0)
		return n;
	if (!is_whole())
		return 1;
	n = epoll_wait(rp_server.epoll_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < n; i++)
		serve(&events[i], &accepts);
	close_ended_traces();
	/* Last, so that no slot changes hands while events for its old owner are left. */
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
	/* All are asked first: their last flushes go side by side. */
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (rp_server.traces.slots[i].id)
			rp_trace_finish(&rp_server.traces.slots[i]);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (rp_server.traces.slots[i].id)
			close_trace(&rp_server.traces.slots[i]);
	}
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		if (rp_server.clients[i].fd >= 0)
			drop_client(&rp_server.clients[i]);
	}
	close_dump();
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_server_take_out(&rp_server.epoll_fd);
	rp_server_take_out(&rp_server.timer_fd);
	pthread_mutex_unlock(&rp_server.fd_lock);
}
