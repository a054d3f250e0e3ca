/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/connection.h"
#include "tools/client/exchange.h"
#include "tools/client/port.h"
#include "tools/cli/signals.h"

/* No known reply is longer. Limits the memory that a hostile peer can make this command use. */
#define REPLY_MAX (64u << 20)

/*
 * A server's socket exists from bind(2) on but refuses connections until listen(2). The command
 * retries this many times, RP_EXCHANGE_RETRY_MS apart: 200 ms for two system calls.
 */
#define REFUSALS_MAX 20

static const struct {
	uint32_t hresult;
	const char *text;
} refusals[] = {
	{ RP_HRESULT_BAD_ENCODING, "it reports that the request is badly encoded" },
	{ RP_HRESULT_UNKNOWN_COMMAND, "its runtime does not have this command" },
	{ RP_HRESULT_UNKNOWN_MAGIC, "it speaks another version of the protocol" },
	{ RP_HRESULT_NOT_SUPPORTED, "its runtime does not support this" },
	{ RP_HRESULT_FAIL, "it failed (too many sessions, or out of memory)" },
	{ RP_HRESULT_INVALID_ARGUMENT, "it reports an invalid argument" },
	{ RP_HRESULT_ACCESS_DENIED, "it refused: only its own user and root may trace it" },
};

int rp_exchange_begin(struct rp_exchange *exchange, const struct rp_target *target,
		      const struct rp_message_buffer *request)
{
	*exchange = (struct rp_exchange){ .target = target, .request = request, .fd = -1 };
	if (request->error)
		return request->error;
	if (target->port)
		return 0;
	exchange->fd = rp_connection_socket();
	return exchange->fd < 0 ? exchange->fd : 0;
}

void rp_exchange_end(struct rp_exchange *exchange)
{
	if (exchange->fd >= 0)
		close(exchange->fd);
	free(exchange->payload);
	exchange->fd = -1;
	exchange->payload = NULL;
}

/*
 * The process that called listen() must be the one in the socket's name; otherwise its replies
 * cannot be trusted. The pid is 0 if that process is outside this pid namespace.
 */
static int check_peer_credentials(const struct rp_exchange *exchange)
{
	const struct rp_target *target = exchange->target;
	uid_t uid;
	pid_t pid;

	if (rp_connection_get_peer(exchange->fd, &uid, &pid) < 0 ||
	    (uid != 0 && uid != target->uid) || (pid && pid != target->pid))
		return -EACCES;
	return 0;
}

/* The target connects to the port of `ringpipe`, once for each request. */
static int step_await(struct rp_exchange *exchange)
{
	exchange->fd = rp_tool_port_take(exchange->target->port);
	exchange->connected = exchange->fd >= 0;
	return exchange->connected ? 0 : 1;
}

static int step_connect(struct rp_exchange *exchange)
{
	int ret;

	if (exchange->target->port)
		return step_await(exchange);
	ret = rp_connection_connect(exchange->fd, exchange->target->path);
	if (ret == -ECONNREFUSED && exchange->refusals++ < REFUSALS_MAX)
		return 1;
	if (ret)
		return ret == -EAGAIN || ret == -EINTR ? 1 : ret;
	ret = check_peer_credentials(exchange);
	if (ret)
		return ret;
	exchange->connected = true;
	return 0;
}

static int step_send(struct rp_exchange *exchange)
{
	int ret = rp_connection_send(exchange->fd, exchange->request->bytes,
				     exchange->request->size, &exchange->sent);

	return ret == -EAGAIN ? 1 : ret;
}

/* Reads up to `total` bytes of the reply. `bytes` holds those after the first `before` bytes. */
static int step_receive(struct rp_exchange *exchange, uint8_t *bytes, size_t before, size_t total)
{
	while (exchange->received < total) {
		size_t got;
		int ret = rp_connection_receive(exchange->fd, bytes + (exchange->received - before),
						total - exchange->received, &got);

		if (ret)
			return ret == -EAGAIN ? 1 : ret;
		if (got == 0)
			return -ECONNRESET;
		exchange->received += got;
	}
	return 0;
}

static int check_header(struct rp_exchange *exchange)
{
	const uint8_t *header = exchange->header;
	size_t size;

	if (rp_message_frame(header, sizeof(exchange->header), &size) != RP_HRESULT_OK ||
	    header[16] != RP_MESSAGE_SERVER ||
	    (header[17] != RP_MESSAGE_OK && header[17] != RP_MESSAGE_ERROR))
		return -EPROTO;
	if (exchange->payload)
		return 0;
	exchange->payload_bytes = size - RP_MESSAGE_HEADER_BYTES;
	exchange->payload = malloc(exchange->payload_bytes + 1);
	/*
	 * The size field has 16 bits: a longer reply has the maximum there and ends with the
	 * connection.
	 */
	exchange->until_end = size == UINT16_MAX;
	return exchange->payload ? 0 : -ENOMEM;
}

/* Reads a reply that may be longer than its size field can say, to the end of the connection. */
static int step_overlong(struct rp_exchange *exchange)
{
	for (;;) {
		size_t total = RP_MESSAGE_HEADER_BYTES + exchange->payload_bytes;
		uint8_t *grown;
		int ret;

		if (exchange->received == total) {
			if (exchange->payload_bytes >= REPLY_MAX)
				return -EPROTO;
			grown = realloc(exchange->payload, 2 * exchange->payload_bytes + 1);
			if (!grown)
				return -ENOMEM;
			exchange->payload = grown;
			exchange->payload_bytes *= 2;
			total = RP_MESSAGE_HEADER_BYTES + exchange->payload_bytes;
		}
		ret = step_receive(exchange, exchange->payload, RP_MESSAGE_HEADER_BYTES, total);
		if (ret == -ECONNRESET && exchange->received >= UINT16_MAX) {
			exchange->payload_bytes = exchange->received - RP_MESSAGE_HEADER_BYTES;
			exchange->until_end = false;
			return 0;
		}
		if (ret)
			return ret;
	}
}

int rp_exchange_step(struct rp_exchange *exchange)
{
	int ret = exchange->connected ? 0 : step_connect(exchange);

	if (!ret)
		ret = step_send(exchange);
	/*
	 * A peer may send its refusal and close before it has read everything: the reply is still
	 * readable.
	 */
	if (ret == -EPIPE)
		ret = 0;
	if (!ret)
		ret = step_receive(exchange, exchange->header, 0, RP_MESSAGE_HEADER_BYTES);
	if (!ret)
		ret = check_header(exchange);
	if (!ret)
		ret = exchange->until_end ? step_overlong(exchange) :
		      step_receive(exchange, exchange->payload, RP_MESSAGE_HEADER_BYTES,
				   RP_MESSAGE_HEADER_BYTES + exchange->payload_bytes);
	if (ret)
		return ret;
	if (exchange->header[17] == RP_MESSAGE_ERROR) {
		struct rp_cursor cursor = rp_exchange_payload(exchange);

		exchange->hresult = rp_cursor_get_u32(&cursor);
		return rp_cursor_failed(&cursor) ? -EPROTO : -EREMOTEIO;
	}
	return 0;
}

struct rp_cursor rp_exchange_payload(const struct rp_exchange *exchange)
{
	return rp_cursor_over(exchange->payload, exchange->payload_bytes);
}

struct pollfd rp_exchange_poll(const struct rp_exchange *exchange)
{
	return (struct pollfd){
		.fd = exchange->connected ? exchange->fd : -1,
		.events = exchange->connected && exchange->sent < exchange->request->size ?
			  POLLOUT | POLLIN : POLLIN,
	};
}

int rp_exchange_run(struct rp_exchange *exchange, int timeout_ms)
{
	int64_t deadline = rp_now_ms() + timeout_ms;
	int ret;

	while ((ret = rp_exchange_step(exchange)) == 1) {
		struct pollfd wait = rp_exchange_poll(exchange);
		int64_t left = deadline - rp_now_ms();

		if (left <= 0)
			return -ETIMEDOUT;
		if (wait.fd < 0 && left > RP_EXCHANGE_RETRY_MS)
			left = RP_EXCHANGE_RETRY_MS;
		if (poll(&wait, 1, (int)left) < 0 && errno != EINTR)
			return -errno;
	}
	return ret;
}

bool rp_exchange_unknown_command(const struct rp_exchange *exchange, int error)
{
	return error == -EREMOTEIO && exchange->hresult == RP_HRESULT_UNKNOWN_COMMAND;
}

static const char *refusal_text(uint32_t hresult)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (refusals[i].hresult == hresult)
			return refusals[i].text;
	}
	return "it refused";
}

/* Prints the string that may follow the HRESULT. Return: whether there was one. */
static bool explain_by_reason(const struct rp_exchange *exchange, const char *what)
{
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	char *reason;

	rp_cursor_skip(&cursor, 4);
	reason = rp_cursor_left(&cursor) ? rp_message_take_string(&cursor) : NULL;
	if (reason)
		rp_tool_error("cannot %s process %d: %s", what, exchange->target->pid, reason);
	free(reason);
	return reason != NULL;
}

void rp_exchange_explain(const struct rp_exchange *exchange, const char *what, int error)
{
	const struct rp_target *target = exchange->target;
	pid_t pid = target->pid;

	if (error == -EREMOTEIO && explain_by_reason(exchange, what))
		return;
	switch (error) {
	case -EREMOTEIO:
		rp_tool_error("cannot %s process %d: %s (0x%08x)", what, pid,
			      refusal_text(exchange->hresult), exchange->hresult);
		break;
	case -EPROTO:
		rp_tool_error("cannot %s process %d: its answer violates the diagnostics protocol",
			      what, pid);
		break;
	case -ETIMEDOUT:
		rp_tool_error("cannot %s process %d: it does not answer; is it stopped?", what,
			      pid);
		break;
	case -ECONNRESET:
	case -EPIPE:
		rp_tool_error("cannot %s process %d: it closed the connection without an answer",
			      what, pid);
		break;
	case -ECONNREFUSED:
	case -ENOENT:
		rp_tool_error("cannot %s process %d: no process listens on %s any more", what, pid,
			      target->path);
		break;
	case -EACCES:
	case -EPERM:
		rp_tool_error("cannot %s process %d: no access to %s; run as its user (%s) or root",
			      what, pid, target->path, target->user);
		break;
	case -ENAMETOOLONG:
		rp_tool_error("cannot %s process %d: the path %s is too long for a socket", what,
			      pid, target->path);
		break;
	default:
		rp_tool_error("cannot %s process %d: %s", what, pid, strerror(-error));
	}
}
