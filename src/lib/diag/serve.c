/* SPDX-License-Identifier: MIT */
#include "diag/serve.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "diag/commands.h"
#include "diag/host_port.h"
#include "diag/server.h"

/* limit of the memory for replies that clients have not read */
#define REPLIES_BYTES_MAX ((size_t)16 << 20)

void rp_serve_close_dump(void)
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

void rp_serve_drop(struct rp_client *client)
{
	/* Only this client wants the dump, and the process is stopped for it. */
	if (rp_server.dump.id && waits_for(client, rp_server.dump.id))
		rp_serve_close_dump();
	if (rp_client_is_ports_own(client))
		rp_port_later(client->port, rp_clock_monotonic_ns());
	rp_server_unwatch(client->fd);
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_client_close(client);
	pthread_mutex_unlock(&rp_server.fd_lock);
}

/* A close now would make the client's send fail before the client reads its reply. */
static int let_leave(struct rp_client *client)
{
	client->state = RP_CLIENT_LEAVES;
	client->deadline_ns = rp_clock_monotonic_ns() + RP_CLIENT_NS;
	shutdown(client->fd, SHUT_WR);
	return rp_server_watch_client(EPOLL_CTL_MOD, client);
}

/* Limit the memory of unread replies: drop the oldest of their clients. */
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
			rp_serve_drop(oldest);
	} while (bytes > REPLIES_BYTES_MAX && oldest);
}

/* Send as much of the reply as the socket accepts, and watch for space for the rest. */
static void send_reply(struct rp_client *client)
{
	int r;

	if (client->state != RP_CLIENT_TAKES) {
		client->state = RP_CLIENT_TAKES;
		client->deadline_ns = rp_clock_monotonic_ns() + RP_CLIENT_NS;
	}
	r = rp_client_send(client);
	if (r == 0)
		r = rp_server_watch_client(EPOLL_CTL_MOD, client);
	else if (r == 1 && client->sends_more)
		r = let_leave(client);
	if (r != 0)
		rp_serve_drop(client);
	else
		bound_replies(client);
}

/* The session becomes the owner of the connection. The server only watches for its end. */
static void hand_over(struct rp_client *client, struct rp_trace *trace)
{
	if (rp_server_watch_trace(EPOLL_CTL_MOD, trace) < 0)
		rp_trace_finish(trace);
	rp_client_release(client);
}

/*
 * Give the connection to a session that lasts as long as the connection. Finish the session if the
 * short reply does not fit its socket buffer.
 */
static void hold(struct rp_client *client, struct rp_trace *trace)
{
	if (rp_client_send(client) != 1)
		rp_trace_finish(trace);
	hand_over(client, trace);
}

/* The sending thread notices a disconnected client when it writes. */
static void hand_to_thread(struct rp_client *client)
{
	rp_server_unwatch(client->fd);
	rp_client_release(client);
}

static void take_descriptor(struct rp_client *client);

static void wait_for(struct rp_client *client, uint64_t id)
{
	client->state = RP_CLIENT_WAITS;
	client->deadline_ns = UINT64_MAX;
	client->waits_for = id;
	if (rp_server_watch_client(EPOLL_CTL_MOD, client) < 0)
		rp_serve_drop(client);
}

/* `passed_fd`: the descriptor received after the request; -1: none. */
static void run_request(struct rp_client *client, int passed_fd)
{
	struct rp_command command = {
		.traces = &rp_server.traces,
		.sendings = rp_server.sendings,
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
	case RP_COMMAND_SEND:
		hand_to_thread(client);
		break;
	case RP_COMMAND_PASS:
		rp_message_fini(&client->reply);
		client->state = RP_CLIENT_PASSES;
		take_descriptor(client);
		break;
	case RP_COMMAND_WAIT:
		wait_for(client, command.trace->id);
		break;
	case RP_COMMAND_DUMP:
		wait_for(client, rp_server.dump.id);
		if (rp_server_watch_dump() < 0)
			rp_serve_drop(client);
		break;
	case RP_COMMAND_RESUME:
		/* Reply first: the resumed program may exec and lose its connections. */
		send_reply(client);
		if (rp_ports_resume_is_last(&rp_server.ports, port))
			rp_trace_watch_missing(&rp_server.traces);
		rp_ports_resume(&rp_server.ports, port);
		rp_host_start_up();
		break;
	}
}

/* Receive the descriptor that a user_events session needs, unless it arrives later. */
static void take_descriptor(struct rp_client *client)
{
	int fd, r = rp_client_take_descriptor(client, &fd);

	if (r == 1) {
		run_request(client, fd);
	} else if (r == -EBADMSG) {
		rp_message_refuse(&client->reply, RP_HRESULT_BAD_ENCODING);
		send_reply(client);
	} else if (r < 0) {
		rp_serve_drop(client);
	}
}

static void take_request(struct rp_client *client)
{
	enum rp_hresult hr;
	int r = rp_client_receive(client, &hr);

	if (r < 0 || (r > 0 && hr != RP_HRESULT_OK && rp_client_is_ports_own(client))) {
		/* The peer is no diagnostics tool: retry as rarely as if no server listened. */
		rp_serve_drop(client);
	} else if (r == 0) {
		if (client->request_bytes && client->deadline_ns == UINT64_MAX)
			client->deadline_ns = rp_clock_monotonic_ns() + RP_CLIENT_NS;
	} else if (hr != RP_HRESULT_OK) {
		rp_message_refuse(&client->reply, hr);
		send_reply(client);
	} else {
		if (rp_client_is_ports_own(client))
			rp_port_again(client->port, rp_clock_monotonic_ns());
		run_request(client, -1);
	}
}

void rp_serve_client(struct rp_client *client, uint32_t events)
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
			rp_serve_drop(client);
		break;
	case RP_CLIENT_TAKES:
		send_reply(client);
		break;
	case RP_CLIENT_LEAVES:
		if (rp_client_drain(client) != 0)
			rp_serve_drop(client);
		break;
	}
}

void rp_serve_close_trace(struct rp_trace *trace)
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

static void close_sending(struct rp_sending *sending)
{
	rp_sending_join(sending);
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_sending_close(sending);
	pthread_mutex_unlock(&rp_server.fd_lock);
}

void rp_serve_close_sent(void)
{
	struct rp_sending *sending;

	while ((sending = rp_sending_next_ended(rp_server.sendings)))
		close_sending(sending);
}

void rp_serve_close_sendings(void)
{
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++) {
		if (rp_server.sendings[i].taken)
			close_sending(&rp_server.sendings[i]);
	}
}

void rp_serve_close_ended(void)
{
	struct rp_trace *trace;

	/* If the host closed the connection of such a session, its client can no longer end it. */
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		trace = &rp_server.traces.slots[i];
		if (trace->id && trace->user_events && trace->fd < 0)
			rp_trace_finish(trace);
	}
	while ((trace = rp_trace_next_ended(&rp_server.traces)))
		rp_serve_close_trace(trace);
}

void rp_serve_trace(struct rp_trace *trace)
{
	if (trace->id && trace->fd >= 0) {
		rp_server_unwatch(trace->fd);
		rp_trace_finish(trace);
	}
}

void rp_serve_dump(void)
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
	rp_serve_close_dump();
}
