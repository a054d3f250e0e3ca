/* SPDX-License-Identifier: MIT */
/* The DiagnosticServer without its thread: its descriptors, and one iteration of its loop. */
#ifndef RP_DIAG_SERVER_H
#define RP_DIAG_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "diag/client.h"
#include "diag/dump_command.h"
#include "diag/ports.h"
#include "diag/sending.h"
#include "diag/trace.h"

#define RP_CLIENTS_MAX 64u
/* accept4() returns EMFILE while the host has no free descriptor; the server then retries. */
#define RP_STARVED_NS (250ull * 1000000u)

/*
 * A forked child closes the descriptors that it finds here. They are opened and closed under
 * fd_lock, which fork() takes: so the child finds all of them, and no number that was reused.
 */
struct rp_server {
	pthread_mutex_t fd_lock;	/* never held during a wait */
	bool polled;			/* by the host: the epoll set contains a timer */
	bool lost;			/* the host closed a descriptor that several clients need */
	int epoll_fd;
	int timer_fd;			/* expires when an iteration is due; -1: none */
	uint64_t timer_ns;		/* expiry by CLOCK_MONOTONIC; 0: not set */
	int new_fd;			/* a new connection that has no client slot yet */
	char directory[RP_PORT_PATH_BYTES];
	bool own_name;			/* a .NET runtime has the usual name of the default port */
	uint8_t cookie[16];
	uint64_t accept_after_ns;	/* 0: the listening sockets are watched */
	struct rp_ports ports;
	struct rp_trace_table traces;
	struct rp_sending sendings[RP_SENDINGS_MAX];
	struct rp_dump dump;
	struct rp_client clients[RP_CLIENTS_MAX];
};

extern struct rp_server rp_server;

/* Close the descriptor and set it to -1. */
void rp_server_take_out(int *fd);

/* The source of an epoll event: a kind, and the slot's index in the lower bits. */
enum rp_watched {
	RP_WATCHED_CALL,
	RP_WATCHED_LISTEN,
	RP_WATCHED_CLIENT,
	RP_WATCHED_TRACE,
	RP_WATCHED_DUMP,
};

/* Add the client to the epoll set, or change its events. Return: 0 or -errno. */
int rp_server_watch_client(int operation, const struct rp_client *client);
int rp_server_watch_trace(int operation, const struct rp_trace *trace);
int rp_server_watch_dump(void);
void rp_server_watch_ports(int operation);

/* Call before close(): otherwise a forked child that holds the connection keeps it in the set. */
void rp_server_unwatch(int fd);

/*
 * Open everything except the wake pair, which exists already, and let the ports listen.
 * Return: 0, or -errno if there is no port at all.
 */
int rp_server_open(void);

/*
 * Forget the descriptors whose numbers are closed or belong to another file of the host. The caller
 * holds fd_lock, or is alone in a forked child.
 * Return: rp_server.lost.
 */
bool rp_server_forget_lost(void);

/* Reopen the forgotten descriptors, so that the server continues. Return: 0 or -errno. */
int rp_server_mend(void);

/*
 * Wait for events, at most `most_ms` (-1: without a limit), and handle them.
 * Return: 0; 1: the caller must call rp_server_mend() first.
 */
int rp_server_poll_once(int most_ms);

/* End the sessions, the clients and the ports; allowed after rp_server_open() failed. */
void rp_server_close(void);

/* The maximum number of simultaneous sessions, from the current RLIMIT_NOFILE. */
size_t rp_server_sessions_max(void);

/*
 * Find a slot for one more client: a free one, or that of the oldest client whose grace period has
 * passed at `now`. A client that waits for a session's end is selected only if there is no other.
 * NULL: retry at `ret_later`.
 */
struct rp_client *rp_server_find_slot(uint64_t now, uint64_t *ret_later);

#endif
