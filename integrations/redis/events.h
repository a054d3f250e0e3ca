/* SPDX-License-Identifier: MIT */
/* The events and counters of redis. */
#ifndef REDIS_RINGPIPE_EVENTS_H
#define REDIS_RINGPIPE_EVENTS_H

#include <ringpipe/ringpipe.h>

#define KW_COMMANDS 0x1u
#define KW_KEYS 0x2u
#define KW_CLIENTS 0x4u
#define KW_PERSISTENCE 0x8u
#define KW_REPLICATION 0x10u
#define KW_SLOW 0x20u

RP_PROVIDER(redis, "redis");

/*
 * The server has no hook at the end of a command, so the end is approximate: it is never early. Its
 * fields have 8 bytes each: a processor waits when it loads what it has just stored in parts.
 */
RP_EVENT_EX(redis, command_start, (RP_ID(1), RP_KEYWORDS(KW_COMMANDS), RP_OPCODE(RP_OPCODE_START),
	    RP_MESSAGE("{0} of client {1}")), RP_STRING_N(command), RP_U64(client),
	    RP_U32(arguments), RP_U32(keys), RP_U64(bytes), RP_U64(key_hash), RP_STRING_N(key));
RP_EVENT_EX(redis, command_stop, (RP_ID(2), RP_KEYWORDS(KW_COMMANDS), RP_OPCODE(RP_OPCODE_STOP),
	    RP_MESSAGE("{0} ns or less")), RP_U64(duration_ns), RP_U64(class_below_us),
	    RP_U64(ended_by_command));

RP_EVENT_EX(redis, key_expired, (RP_ID(10), RP_KEYWORDS(KW_KEYS)), RP_U32(database),
	    RP_U64(key_hash), RP_STRING_N(key));
RP_EVENT_EX(redis, key_evicted, (RP_ID(11), RP_KEYWORDS(KW_KEYS)), RP_U32(database),
	    RP_U64(key_hash), RP_STRING_N(key));
RP_EVENT_EX(redis, flushed, (RP_ID(12), RP_KEYWORDS(KW_KEYS)), RP_I32(database),
	    RP_BOOL(is_synchronous));

RP_EVENT_EX(redis, client_connected, (RP_ID(20), RP_KEYWORDS(KW_CLIENTS)), RP_U64(client),
	    RP_STRING(address), RP_U16(port));
RP_EVENT_EX(redis, client_disconnected, (RP_ID(21), RP_KEYWORDS(KW_CLIENTS)), RP_U64(client),
	    RP_STRING(address), RP_U16(port));
/* Sampled: the server has no hook when it blocks a client. */
RP_EVENT_EX(redis, clients_blocked, (RP_ID(22), RP_KEYWORDS(KW_CLIENTS)), RP_U64(clients));

/* `state` is started, ended or failed. `kind` is RDB or AOF, or the use of a child is unknown. */
RP_EVENT_EX(redis, persistence, (RP_ID(30), RP_KEYWORDS(KW_PERSISTENCE), RP_MESSAGE("{0} {1}")),
	    RP_STRING(kind), RP_STRING(state), RP_BOOL(in_child));
RP_EVENT_EX(redis, loading, (RP_ID(32), RP_KEYWORDS(KW_PERSISTENCE), RP_MESSAGE("{0} {1}")),
	    RP_STRING(kind), RP_STRING(state));
RP_EVENT_EX(redis, shutdown, (RP_ID(33), RP_KEYWORDS(KW_PERSISTENCE)));

RP_EVENT_EX(redis, role_changed, (RP_ID(40), RP_KEYWORDS(KW_REPLICATION), RP_MESSAGE("now a {0}")),
	    RP_STRING(role), RP_STRING(master_host), RP_I32(master_port));
RP_EVENT_EX(redis, replica, (RP_ID(41), RP_KEYWORDS(KW_REPLICATION), RP_MESSAGE("{0}")),
	    RP_STRING(state));
RP_EVENT_EX(redis, master_link, (RP_ID(42), RP_KEYWORDS(KW_REPLICATION), RP_MESSAGE("{0}")),
	    RP_STRING(state));

/* An entry of the server's slow log, with the time that the server measured. */
RP_EVENT_EX(redis, slow_command, (RP_ID(50), RP_LEVEL(RP_LEVEL_WARNING), RP_KEYWORDS(KW_SLOW),
	    RP_MESSAGE("{1} took {3} us")), RP_U64(entry), RP_STRING_N(command), RP_U32(arguments),
	    RP_U64(duration_us), RP_TIME(time), RP_STRING_N(client_address));

RP_COUNTER(redis, commands, "commands", "Commands processed");
RP_COUNTER(redis, keys_expired, "keys", "Keys expired");
RP_COUNTER(redis, keys_evicted, "keys", "Keys evicted");
RP_COUNTER(redis, keyspace_hits, "lookups", "Lookups that found their key");
RP_COUNTER(redis, keyspace_misses, "lookups", "Lookups that found no key");
RP_COUNTER(redis, bytes_received, "By", "Bytes received from clients");
RP_COUNTER(redis, bytes_sent, "By", "Bytes sent to clients");
RP_GAUGE(redis, clients, "clients", "Connected clients");
RP_GAUGE(redis, clients_waiting, "clients", "Clients that a command blocks");
RP_GAUGE(redis, memory, "By", "Memory in use");

#endif
