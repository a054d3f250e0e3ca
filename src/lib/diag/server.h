/* SPDX-License-Identifier: MIT */
/* The DiagnosticServer without its thread: what it has open, and one turn of its loop. */
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
/* accept4() says EMFILE as long as the host has no descriptor to spare; ask again after this. */
#define RP_STARVED_NS (250ull * 1000000u)

/*
 * A forked child closes the descriptors it finds here. They come and go under fd_lock, which fork()
 * takes, so the child finds all there are, and none whose number another thread has by now.
 */
struct rp_server {
	pthread_mutex_t fd_lock;	/* never held across anything that waits */
	bool polled;			/* by the host: there is a timer in the epoll set */
	bool lost;			/* the host closed what more than one client needs */
	int epoll_fd;
	int timer_fd;			/* ripe when a turn is due; -1: whoever turns keeps time */
	uint64_t timer_ns;		/* CLOCK_MONOTONIC it is set to; 0: it is not */
	int new_fd;			/* a connection on its way to a slot of clients */
	char directory[RP_PORT_PATH_BYTES];
	bool own_name;			/* the default port's usual name is another's */
	uint8_t cookie[16];
	uint64_t accept_after_ns;	/* 0: the listening sockets are in the epoll set */
	struct rp_ports ports;
	struct rp_trace_table traces;
	struct rp_sending sendings[RP_SENDINGS_MAX];
	struct rp_dump dump;
	struct rp_client clients[RP_CLIENTS_MAX];
};

extern struct rp_server rp_server;

/* Closes it and says so. */
void rp_server_take_out(int *fd);

/* The source of an epoll event: a kind, and the slot's index in the lower bits. */
enum rp_watched {
	RP_WATCHED_CALL,
	RP_WATCHED_LISTEN,
	RP_WATCHED_CLIENT,
	RP_WATCHED_TRACE,
	RP_WATCHED_DUMP,
};

/* Into the epoll set, or changed there. Return: 0 or -errno. */
int rp_server_watch_client(int operation, const struct rp_client *client);
int rp_server_watch_trace(int operation, const struct rp_trace *trace);
int rp_server_watch_dump(void);
void rp_server_watch_ports(int operation);

/* Always before close(): a forked child that holds the connection would keep it in the set. */
void rp_server_unwatch(int fd);

/*
 * Makes everything but the pair that wakes it, which is there already, and lets the ports listen.
 * Return: 0, or -errno when there is no port at all.
 */
int rp_server_open(void);

/*
 * Forgets the descriptors behind whose numbers is no longer what was opened: the host closed them,
 * or put something of its own there. For who holds fd_lock, or is alone in a forked child.
 * Return: rp_server.lost.
 */
bool rp_server_forget_lost(void);

/* Opens anew what was forgotten, so that the server goes on. Return: 0 or -errno. */
int rp_server_mend(void);

/*
 * Waits for something to happen, at most so long (-1: for ever), and does what is to be done.
 * Return: 0; 1: the server has to be mended first.
 */
int rp_server_poll_once(int most_ms);

/* Ends the sessions, the clients and the ports; fine after rp_server_open() failed. */
void rp_server_close(void);

/* How many sessions there may be at once, by what RLIMIT_NOFILE is now. */
size_t rp_server_sessions_max(void);

/*
 * A slot for one more client: a free one, or that of the oldest client whose time is up at `now`;
 * of those who wait for a session's end, only when there is no other. NULL: not before `ret_later`.
 */
struct rp_client *rp_server_find_slot(uint64_t now, uint64_t *ret_later);

#endif
