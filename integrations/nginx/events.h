/* SPDX-License-Identifier: MIT */
/* The events and counters of nginx. */
#ifndef NGX_RINGPIPE_EVENTS_H
#define NGX_RINGPIPE_EVENTS_H

#include <ringpipe/ringpipe.h>

#define KW_CONNECTIONS 0x1u
#define KW_REQUESTS 0x2u
#define KW_PHASES 0x4u
#define KW_UPSTREAMS 0x8u

RP_PROVIDER(nginx, "nginx");

RP_SPAN_EX(nginx, connection, (RP_ID(1), RP_KEYWORDS(KW_CONNECTIONS),
	   RP_MESSAGE("connection {0} of {1}")), RP_U64(connection), RP_STRING_N(client_address));
RP_EVENT_EX(nginx, tls_handshake_start, (RP_ID(3), RP_KEYWORDS(KW_CONNECTIONS),
	    RP_OPCODE(RP_OPCODE_START)), RP_U64(connection));
RP_EVENT_EX(nginx, tls_handshake_stop, (RP_ID(4), RP_KEYWORDS(KW_CONNECTIONS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{1} {2}")), RP_U64(connection),
	    RP_STRING(protocol), RP_STRING(cipher), RP_BOOL(is_resumed), RP_BOOL(error),
	    RP_U64(duration_ns));

RP_EVENT_EX(nginx, request_start, (RP_ID(5), RP_KEYWORDS(KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{1} {3}{2}")), RP_U64(connection),
	    RP_STRING_N(method), RP_STRING_N(path), RP_STRING_N(host));
RP_EVENT_EX(nginx, request_stop, (RP_ID(6), RP_KEYWORDS(KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{0}, {1} bytes in {5} ns")), RP_U16(status),
	    RP_U64(bytes_sent), RP_U64(bytes_received), RP_STRING_N(cache),
	    RP_U64(request_time_ms), RP_U64(duration_ns));

RP_SPAN_EX(nginx, post_read_phase, (RP_ID(24), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, server_rewrite_phase, (RP_ID(26), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, rewrite_phase, (RP_ID(10), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, preaccess_phase, (RP_ID(12), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, access_phase, (RP_ID(14), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, content_phase, (RP_ID(16), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, precontent_phase, (RP_ID(18), RP_KEYWORDS(KW_PHASES)));
RP_SPAN_EX(nginx, log_phase, (RP_ID(22), RP_KEYWORDS(KW_PHASES)));

RP_EVENT_EX(nginx, upstream_start, (RP_ID(20), RP_KEYWORDS(KW_UPSTREAMS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{0} at {1}")), RP_STRING_N(upstream),
	    RP_STRING_N(peer));
RP_EVENT_EX(nginx, upstream_stop, (RP_ID(21), RP_KEYWORDS(KW_UPSTREAMS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{1}: {2}, {3} bytes in {6} ns")),
	    RP_STRING_N(upstream), RP_STRING_N(peer), RP_U16(status), RP_U64(bytes_received),
	    RP_I64(connect_ms), RP_BOOL(error), RP_U64(duration_ns));

/* request.c has the counters whose totals are in its and upstream.c's variables. */
RP_HISTOGRAM(nginx, request_time, "ms", "Time to serve a request");
RP_HISTOGRAM(nginx, upstream_time, "ms", "Time of requests to upstream servers");
RP_UPDOWN_COUNTER(nginx, connections, "connections", "Open connections of clients");

/* Lines of error_log, and the number of the connection that a line names, or 0. */
RP_PROVIDER(nginx_log, "nginx-log");
RP_EVENT_EX(nginx_log, critical, (RP_ID(1), RP_LEVEL(RP_LEVEL_CRITICAL), RP_MESSAGE("{1}")),
	    RP_U64(connection), RP_STRING_N(text));
RP_EVENT_EX(nginx_log, error, (RP_ID(2), RP_LEVEL(RP_LEVEL_ERROR), RP_MESSAGE("{1}")),
	    RP_U64(connection), RP_STRING_N(text));
RP_EVENT_EX(nginx_log, warning, (RP_ID(3), RP_LEVEL(RP_LEVEL_WARNING), RP_MESSAGE("{1}")),
	    RP_U64(connection), RP_STRING_N(text));
RP_EVENT_EX(nginx_log, notice, (RP_ID(4), RP_LEVEL(RP_LEVEL_INFORMATIONAL), RP_MESSAGE("{1}")),
	    RP_U64(connection), RP_STRING_N(text));
RP_EVENT_EX(nginx_log, debug, (RP_ID(5), RP_LEVEL(RP_LEVEL_VERBOSE), RP_MESSAGE("{1}")),
	    RP_U64(connection), RP_STRING_N(text));

#endif
