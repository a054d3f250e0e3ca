/* SPDX-License-Identifier: MIT */
/* The DiagnosticServer without its thread: what it has open, and one turn of its loop. */
#ifndef RP_DIAG_SERVER_H
#define RP_DIAG_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "diag/client.h"
#include "diag/dump.h"
#include "diag/ports.h"
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
	int woken_fd;			/* in the epoll set; readable when called by wake_fd */
	int wake_fd;
	int epoll_fd;
	int timer_fd;			/* ripe when a turn is due; -1: whoever turns keeps time */
	uint64_t timer_ns;		/* CLOCK_MONOTONIC it is set to; 0: it is not */
	int new_fd;			/* a connection on its way to a slot of clients */
	char directory[RP_PORT_PATH_BYTES];
	bool aside;			/* the default port's usual name is another's */
	uint8_t cookie[16];
	uint64_t accept_after_ns;	/* 0: the listening sockets are in the epoll set */
	struct rp_ports ports;
	struct rp_trace_table traces;
	struct rp_dump dump;
	struct rp_client clients[RP_CLIENTS_MAX];
};

extern struct rp_server rp_server;

/* Closes it and says so. */
void rp_server_take_out(int *fd);

/*
 * Makes everything but the pair that wakes it, which is there already, and lets the ports listen.
 * `polled`: the epoll set gets ripe by itself when time has passed.
 * Return: 0, or -errno when there is no port at all.
 */
int rp_server_open(bool polled);

/*
 * Waits for something to happen, at most so long (-1: for ever), and does what is to be done. Also
 * ends when the host closed wake_fd.
 * Return: 0, or -errno when there is no waiting any more.
 */
int rp_server_turn(int most_ms);

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
