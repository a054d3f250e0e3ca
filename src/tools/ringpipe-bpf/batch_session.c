/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-bpf/batch_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc/command_ids.h"
#include "ipc/provider_list.h"
#include "tools/cli/tool.h"

#define REPLY_TIMEOUT_MS 10000
#define TYPE_STREAM 0u
#define FORMAT_NETTRACE 1u
#define FRAME_DEFINITION 1u
#define FRAME_STATS 2u
#define FRAME_END 3u
#define FRAME_HEADER_BYTES 8u
/* More than the largest definition: 128 fields with names of 255 bytes, structs included. */
#define FRAME_BYTES_MAX (16u << 20)

static int build_request(struct rp_message_buffer *request,
			 const struct rp_session_provider *providers, size_t count,
			 uint32_t buffer_mb)
{
	/* Either all providers have an event filter or none: see rp_bpf_session_begin(). */
	const bool filtered = count && providers[0].filter;

	rp_message_begin(request, RP_MESSAGE_RINGPIPE,
			 filtered ? RP_OWN_FILTERED_BATCHES : RP_OWN_BATCHES);
	if (filtered)
		rp_message_put_u32(request, TYPE_STREAM);
	rp_message_put_u32(request, buffer_mb);
	rp_message_put_u32(request, FORMAT_NETTRACE);
	rp_message_put_u64(request, 0);
	rp_message_put_u8(request, 0);
	if (filtered)
		rp_message_put_filtered_providers(request, providers, count);
	else
		rp_message_put_providers(request, providers, count);
	return rp_message_end(request);
}

static void explain_start(struct rp_bpf_session *session, int error)
{
	if (rp_exchange_unknown_command(&session->exchange, error))
		rp_tool_error("process %d is traceable, but it has no batch probe: this is a .NET "
			      "runtime, or an older libringpipe", session->target.pid);
	else if (error == -E2BIG)
		rp_tool_error("the provider list is too long for one request (64 KB)");
	else
		rp_exchange_explain(&session->exchange, "trace", error);
}

int rp_bpf_session_begin(struct rp_bpf_session *session, const struct rp_target *target,
			 const struct rp_session_provider *providers, size_t provider_count,
			 uint32_t buffer_mb)
{
	struct rp_cursor cursor;
	int ret;

	*session = (struct rp_bpf_session){ .target = *target, .exchange.fd = -1, .stop.fd = -1 };
	ret = build_request(&session->request, providers, provider_count, buffer_mb);
	if (ret == 0)
		ret = rp_exchange_begin(&session->exchange, &session->target, &session->request);
	if (ret == 0)
		ret = rp_exchange_run(&session->exchange, REPLY_TIMEOUT_MS);
	if (ret == 0) {
		cursor = rp_exchange_payload(&session->exchange);
		session->id = rp_cursor_get_u64(&cursor);
		session->probe = rp_cursor_get_u64(&cursor);
		ret = rp_cursor_failed(&cursor) ? -EPROTO : 0;
	}
	if (ret != 0)
		explain_start(session, ret);
	return ret;
}

static int add_definition(struct rp_bpf_session *session, const uint8_t *bytes, size_t size)
{
	struct rp_bpf_definition definition, *grown;
	size_t count = session->definition_count;
	int ret = rp_bpf_definition_read(bytes, size, &definition);

	if (ret != 0)
		return ret;
	grown = reallocarray(session->definitions, count + 1, sizeof(*grown));
	if (grown)
		session->definitions = grown;
	if (!grown || definition.number != count) {
		rp_bpf_definition_fini(&definition);
		return grown ? -EBADMSG : -ENOMEM;
	}
	session->definitions[session->definition_count++] = definition;
	return 0;
}

static int take_stats(struct rp_bpf_session *session, const uint8_t *bytes, size_t size)
{
	struct rp_cursor cursor = rp_cursor_over(bytes, size);

	session->delivered = rp_cursor_get_u64(&cursor);
	session->lost = rp_cursor_get_u64(&cursor);
	session->cut = rp_cursor_get_u64(&cursor);
	return rp_cursor_failed(&cursor) ? -EBADMSG : 0;
}

static int answer(struct rp_bpf_session *session)
{
	const uint8_t ready = 1;
	ssize_t sent;

	do {
		sent = send(session->exchange.fd, &ready, sizeof(ready), MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	/* The next read reports that the process has ended. */
	return 0;
}

static int take_frame(struct rp_bpf_session *session, uint32_t kind, const uint8_t *bytes,
		      size_t size,
		      int (*define)(const struct rp_bpf_definition *definition, void *data),
		      void *data)
{
	int ret;

	switch (kind) {
	case FRAME_DEFINITION:
		ret = add_definition(session, bytes, size);
		if (ret == 0)
			ret = define(&session->definitions[session->definition_count - 1], data);
		return ret == 0 ? answer(session) : ret;
	case FRAME_END:
		session->ended = true;
		return take_stats(session, bytes, size);
	case FRAME_STATS:
		return take_stats(session, bytes, size);
	default:
		return 0;
	}
}

/* Handles the complete frames of the input. */
static int take_frames(struct rp_bpf_session *session,
		       int (*define)(const struct rp_bpf_definition *definition, void *data),
		       void *data)
{
	size_t at = 0;
	int ret = 0;

	while (ret == 0 && session->input_bytes - at >= FRAME_HEADER_BYTES) {
		uint32_t head[2];

		memcpy(head, session->input + at, sizeof(head));
		if (head[1] > FRAME_BYTES_MAX)
			return -EBADMSG;
		if (session->input_bytes - at - FRAME_HEADER_BYTES < head[1])
			break;
		ret = take_frame(session, head[0], session->input + at + FRAME_HEADER_BYTES,
				 head[1], define, data);
		at += FRAME_HEADER_BYTES + head[1];
	}
	session->input_bytes -= at;
	memmove(session->input, session->input + at, session->input_bytes);
	return ret;
}

/* Return: bytes; 0 at the end; -EAGAIN; -errno. */
static ssize_t receive(struct rp_bpf_session *session)
{
	ssize_t got;

	if (session->input_capacity - session->input_bytes < 4096) {
		size_t capacity = session->input_capacity ? 2 * session->input_capacity : 65536;
		uint8_t *grown = realloc(session->input, capacity);

		if (!grown)
			return -ENOMEM;
		session->input = grown;
		session->input_capacity = capacity;
	}
	got = recv(session->exchange.fd, session->input + session->input_bytes,
		   session->input_capacity - session->input_bytes, MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR ? -EAGAIN : errno == ECONNRESET ? 0 : -errno;
	session->input_bytes += (size_t)got;
	return got;
}

int rp_bpf_session_read(struct rp_bpf_session *session,
			int (*define)(const struct rp_bpf_definition *definition, void *data),
			void *data)
{
	ssize_t got = receive(session);
	int ret = got < 0 ? (int)got : got == 0 ? 0 : take_frames(session, define, data);

	if (got == 0)
		return 0;
	if (ret == 0 || ret == -EAGAIN)
		return 1;
	if (ret == -EBADMSG)
		rp_tool_error("process %d: cannot read the definitions of its events",
			      session->target.pid);
	else if (ret == -ENOMEM)
		rp_tool_error("out of memory");
	return ret;
}

void rp_bpf_session_stop(struct rp_bpf_session *session)
{
	int ret;

	session->stopping = true;
	rp_message_begin(&session->request, RP_MESSAGE_EVENTPIPE, RP_STOP_TRACING);
	rp_message_put_u64(&session->request, session->id);
	rp_message_end(&session->request);
	ret = rp_exchange_begin(&session->stop, &session->target, &session->request);
	if (ret != 0)
		rp_exchange_explain(&session->stop, "stop the session in", ret);
	rp_bpf_session_step_stop(session);
}

struct pollfd rp_bpf_session_poll_stop(const struct rp_bpf_session *session)
{
	if (session->stop.fd < 0)
		return (struct pollfd){ .fd = -1 };
	return rp_exchange_poll(&session->stop);
}

/* A refusal is no error: the session may have ended at the same moment. */
void rp_bpf_session_step_stop(struct rp_bpf_session *session)
{
	if (session->stop.fd >= 0 && rp_exchange_step(&session->stop) != 1)
		rp_exchange_end(&session->stop);
}

void rp_bpf_session_fini(struct rp_bpf_session *session)
{
	rp_exchange_end(&session->exchange);
	rp_exchange_end(&session->stop);
	for (size_t i = 0; i < session->definition_count; i++)
		rp_bpf_definition_fini(&session->definitions[i]);
	free(session->definitions);
	free(session->input);
	rp_message_fini(&session->request);
	rp_target_fini(&session->target);
}
