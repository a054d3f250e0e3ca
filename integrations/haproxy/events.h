/* SPDX-License-Identifier: MIT */
/* The events of HAProxy. Times are in milliseconds, and -1 if HAProxy did not reach the phase. */
#ifndef HAPROXY_RINGPIPE_EVENTS_H
#define HAPROXY_RINGPIPE_EVENTS_H

#include <ringpipe/ringpipe.h>

#define KW_REQUESTS 0x1u
#define KW_SESSIONS 0x2u

RP_PROVIDER(haproxy, "haproxy");

RP_EVENT_EX(haproxy, request_start, (RP_ID(1), RP_KEYWORDS(KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{0}: {1} {2}")), RP_STRING(frontend),
	    RP_STRING_N(method), RP_STRING_N(path), RP_STRING_N(host), RP_STRING(client_address));
RP_EVENT_EX(haproxy, request_stop, (RP_ID(2), RP_KEYWORDS(KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{1}/{2}: {3}, {6} in {14} ns")),
	    RP_STRING(frontend), RP_STRING(backend), RP_STRING(server), RP_I32(status),
	    RP_U64(bytes_received), RP_U64(bytes_sent), RP_STRING(termination), RP_I32(retries),
	    RP_I64(request_ms), RP_I64(queue_ms), RP_I64(connect_ms), RP_I64(response_ms),
	    RP_I64(data_ms), RP_I64(active_ms), RP_U64(duration_ns));

RP_EVENT_EX(haproxy, session_start, (RP_ID(3), RP_KEYWORDS(KW_SESSIONS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{0}: {1}")), RP_STRING(frontend),
	    RP_STRING(client_address));
RP_EVENT_EX(haproxy, session_stop, (RP_ID(4), RP_KEYWORDS(KW_SESSIONS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{1}/{2}: {5} in {10} ns")),
	    RP_STRING(frontend), RP_STRING(backend), RP_STRING(server), RP_U64(bytes_received),
	    RP_U64(bytes_sent), RP_STRING(termination), RP_I32(retries), RP_I64(queue_ms),
	    RP_I64(connect_ms), RP_I64(active_ms), RP_U64(duration_ns));

#endif
