/* SPDX-License-Identifier: MIT */
/*
 * A filter of HAProxy (filters-t.h of its source). HAProxy creates one stream for each HTTP request
 * and for each connection of mode tcp. The filter writes the start of a span when the stream
 * starts, and its stop with the figures that HAProxy also logs when the stream is destroyed.
 */
#include "module.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <haproxy/applet.h>
#include <haproxy/connection.h>
#include <haproxy/filters.h>
#include <haproxy/frontend.h>
#include <haproxy/http.h>
#include <haproxy/http_htx.h>
#include <haproxy/htx.h>
#include <haproxy/proxy.h>
#include <haproxy/sc_strm.h>
#include <haproxy/server.h>
#include <haproxy/stream.h>
#include <haproxy/time.h>
#include <haproxy/tools.h>

#include "events.h"

/* The span of a stream. */
struct haproxy_span {
	struct rp_activity activity;
	uint64_t begun_ns;
	bool is_started;		/* the start event is written */
	bool is_http;			/* at its start; a stream of TCP may become one of HTTP */
};

/* The letters of the log's %ts. No header of HAProxy declares them. */
extern const char sess_term_cond[16];
extern const char sess_fin_state[8];

static const char filter_id[] = "ringpipe";
static uint64_t stream_count;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int on_attach(struct stream *s, struct filter *filter)
{
	(void)s;
	filter->ctx = calloc(1, sizeof(struct haproxy_span));
	return filter->ctx != NULL;
}

static void on_detach(struct stream *s, struct filter *filter)
{
	(void)s;
	free(filter->ctx);
	filter->ctx = NULL;
}

/* Print the client's address with its port, or nothing for a socket without an address. */
static void print_client(struct stream *s, char *text, size_t bytes)
{
	const struct sockaddr_storage *from = sc_src(s->scf);
	char address[INET6_ADDRSTRLEN] = "", *at = text;

	text[0] = 0;
	if (!from)
		return;
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)from;
		const uint8_t *octets = (const uint8_t *)&in->sin_addr;

		/* snprintf() and inet_ntop() take more instructions than the rest of the span. */
		for (int i = 0; i < 4; i++) {
			at = ultoa_o(octets[i], at, bytes - (size_t)(at - text));
			*at++ = i < 3 ? '.' : ':';
		}
		ultoa_o(ntohs(in->sin_port), at, bytes - (size_t)(at - text));
	} else if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)from;

		inet_ntop(AF_INET6, &in->sin6_addr, address, sizeof(address));
		snprintf(text, bytes, "[%s]:%u", address, ntohs(in->sin6_port));
	}
}

/* Remove the headers of this name that follow `header`, or all of them. */
static void remove_headers(struct htx *htx, struct ist name, struct http_hdr_ctx header)
{
	while (http_find_header(htx, name, &header, 1))
		http_remove_header(htx, &header);
}

/*
 * Take the ids of the caller, or begin a trace, and make the span the parent of the server's. Two
 * headers are no valid one, and the state of another trace is not for the server.
 */
static void begin_trace(struct htx *htx, struct haproxy_span *span)
{
	const struct ist name = ist("traceparent");
	struct http_hdr_ctx header = { .blk = NULL }, next;
	char text[RP_TRACEPARENT_SIZE];
	struct ist value;
	uint8_t flags = 0;
	bool has_header, is_called;

	if (!htx || !haproxy_options.trace_context) {
		rp_traceparent_generate(&span->activity, &flags);
		return;
	}
	has_header = http_find_header(htx, name, &header, 1);
	next = header;
	is_called = has_header && !http_find_header(htx, name, &next, 1) &&
		rp_traceparent_parse(header.value.ptr, header.value.len, &span->activity,
				     &flags) == 0;
	if (!is_called) {
		rp_traceparent_generate(&span->activity, &flags);
		remove_headers(htx, name, header);
		remove_headers(htx, ist("tracestate"), (struct http_hdr_ctx){ .blk = NULL });
	}
	rp_traceparent_print(&span->activity, flags | RP_TRACE_SAMPLED, text);
	value = ist2(text, RP_TRACEPARENT_SIZE - 1);
	/* Without space in the buffer, the server gets the header of the caller, or none. */
	if (has_header)
		http_replace_header_value(htx, &header, value);
	else
		http_add_header(htx, name, value);
}

static void start_request(struct stream *s, struct haproxy_span *span, const char *client)
{
	struct htx *htx = b_data(&s->req.buf) ? htxbuf(&s->req.buf) : NULL;
	struct htx_sl *line = htx ? http_get_stline(htx) : NULL;
	struct ist method = IST_NULL, path = IST_NULL, host = IST_NULL;
	struct http_hdr_ctx header = { .blk = NULL };
	struct http_uri_parser parser;
	struct rp_activity before;

	if (!line)
		htx = NULL;
	begin_trace(htx, span);
	/* A change of the headers may have moved the start line. */
	line = htx ? http_get_stline(htx) : NULL;
	if (line) {
		method = htx_sl_req_meth(line);
		parser = http_uri_parser_init(htx_sl_req_uri(line));
		path = iststop(http_parse_path(&parser), '?');
		if (http_find_header(htx, ist("host"), &header, 1))
			host = header.value;
	}
	rp_activity_get(&before);
	rp_activity_set(&span->activity);
	haproxy_request_start(strm_fe(s)->id, method.ptr, method.len, path.ptr, path.len, host.ptr,
			      host.len, client);
	rp_activity_set(&before);
}

static void start_session(struct stream *s, struct haproxy_span *span, const char *client)
{
	struct rp_activity before;

	begin_trace(NULL, span);
	rp_activity_get(&before);
	rp_activity_set(&span->activity);
	haproxy_session_start(strm_fe(s)->id, client);
	rp_activity_set(&before);
}

static void start(struct stream *s, struct haproxy_span *span)
{
	char client[INET6_ADDRSTRLEN + 8];

	print_client(s, client, sizeof(client));
	if (span->is_http)
		start_request(s, span, client);
	else
		start_session(s, span, client);
	span->is_started = true;
}

/* A stream gets its headers after its start. */
static int on_start(struct stream *s, struct filter *filter)
{
	struct haproxy_span *span = filter->ctx;

	span->begun_ns = now_ns();
	span->is_http = IS_HTX_STRM(s);
	if (span->is_http)
		filter->post_analyzers |= AN_REQ_WAIT_HTTP;
	else
		start(s, span);
	return 1;
}

/* The headers are here, and no rule of the configuration has run. */
static int on_headers(struct stream *s, struct filter *filter, struct channel *channel,
		      unsigned int analyzer)
{
	(void)channel;
	(void)analyzer;
	start(s, filter->ctx);
	return 1;
}

/* The names that HAProxy logs as %b and %s. */
static const char *backend_name(const struct stream *s)
{
	return s->be ? s->be->id : "";
}

static const char *server_name(const struct stream *s)
{
	if (obj_type(s->target) == OBJ_TYPE_SERVER)
		return __objt_server(s->target)->id;
	if (obj_type(s->target) == OBJ_TYPE_APPLET)
		return __objt_applet(s->target)->name;
	return "";
}

/* The time between two of the moments that HAProxy measures from the start of the stream. */
static int64_t between(long from_ms, long to_ms)
{
	return to_ms < 0 ? -1 : to_ms - from_ms;
}

static void on_stop(struct stream *s, struct filter *filter)
{
	struct haproxy_span *span = filter->ctx;
	const struct strm_logs *logs = &s->logs;
	long before_request_ms = logs->t_handshake + (logs->t_idle > 0 ? logs->t_idle : 0);
	long request_end_ms = -1;
	int64_t active_ms = (int64_t)logs->t_close - before_request_ms;
	struct rp_activity before;
	char termination[3] = {
		sess_term_cond[(s->flags & SF_ERR_MASK) >> SF_ERR_SHIFT],
		sess_fin_state[(s->flags & SF_FINST_MASK) >> SF_FINST_SHIFT],
	};
	uint64_t duration_ns = now_ns() - span->begun_ns;

	if (span->begun_ns == 0)
		return;
	/* A client that leaves before its headers are complete has a request without a path. */
	if (!span->is_started)
		start(s, span);
	if (tv_isge(&logs->tv_request, &logs->tv_accept))
		request_end_ms = (long)tv_ms_elapsed(&logs->tv_accept, &logs->tv_request);
	rp_activity_get(&before);
	rp_activity_set(&span->activity);
	if (span->is_http)
		haproxy_request_stop(strm_fe(s)->id, backend_name(s), server_name(s),
				     s->txn ? s->txn->status : 0,
				     (uint64_t)logs->bytes_in, (uint64_t)logs->bytes_out,
				     termination, s->conn_retries,
				     between(before_request_ms, request_end_ms),
				     between(request_end_ms, logs->t_queue),
				     between(logs->t_queue, logs->t_connect),
				     between(logs->t_connect, logs->t_data),
				     logs->t_data < 0 ? -1 :
				     between(logs->t_data, (long)logs->t_close),
				     active_ms, duration_ns);
	else
		haproxy_session_stop(strm_fe(s)->id, backend_name(s), server_name(s),
				     (uint64_t)logs->bytes_in, (uint64_t)logs->bytes_out,
				     termination, s->conn_retries,
				     between(request_end_ms, logs->t_queue),
				     between(logs->t_queue, logs->t_connect), active_ms,
				     duration_ns);
	rp_activity_set(&before);
}

static struct flt_ops operations = {
	.attach = on_attach,
	.stream_start = on_start,
	.channel_post_analyze = on_headers,
	.stream_stop = on_stop,
	.detach = on_detach,
};

static struct flt_conf filter_conf = {
	.id = filter_id, .ops = &operations, .flags = FLT_CFG_FL_HTX,
};

/* A backend that no configuration names. Its filter is added to the streams that have a span. */
static struct proxy traced;

static bool is_wanted(const struct stream *s)
{
	return IS_HTX_STRM(s) ? haproxy_request_start_enabled() || haproxy_request_stop_enabled() :
				haproxy_session_start_enabled() || haproxy_session_stop_enabled();
}

static bool is_sampled(void)
{
	return haproxy_options.sample == 1 ||
	       __atomic_fetch_add(&stream_count, 1, __ATOMIC_RELAXED) % haproxy_options.sample == 0;
}

static void add_filter(struct stream *s)
{
	unsigned int flags = s->res.flags, analysers = s->res.analysers;
	struct filter *filter;

	if (flt_set_stream_backend(s, &traced) < 0)
		return;
	/* Other filters expect the response when the true backend is known. */
	s->res.flags = flags;
	s->res.analysers = analysers;
	filter = LIST_PREV(&strm_flt(s)->filters, struct filter *, list);
	if (!HAS_FILTERS(s) || filter->config != &filter_conf)
		return;
	/* HAProxy removes the filters of a backend before the stream ends. */
	filter->flags &= ~FLT_FL_IS_BACKEND_FILTER;
	on_start(s, filter);
}

/*
 * HAProxy calls this function instead of its own one for each new stream. The filters of a frontend
 * would cost every request an allocation and the analyzers of filters, also without a recording.
 */
static int on_accept(struct stream *s)
{
	if (is_wanted(s) && is_sampled())
		add_filter(s);
	return frontend_accept(s);
}

/* HAProxy calls this function when it has checked its configuration. */
int haproxy_filter_add(void)
{
	traced.id = (char *)filter_id;
	LIST_INIT(&traced.filter_configs);
	LIST_APPEND(&traced.filter_configs, &filter_conf.list);
	for (struct proxy *proxy = proxies_list; proxy; proxy = proxy->next)
		if ((proxy->cap & PR_CAP_FE) && !(proxy->cap & PR_CAP_INT) &&
		    (proxy->mode == PR_MODE_HTTP || proxy->mode == PR_MODE_TCP) &&
		    proxy->accept == frontend_accept)
			proxy->accept = on_accept;
	return ERR_NONE;
}
