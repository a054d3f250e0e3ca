/* SPDX-License-Identifier: MIT */
/* Handles events of clients, sessions and the dump helper for the server's loop. */
#ifndef RP_DIAG_SERVE_H
#define RP_DIAG_SERVE_H

#include <stdint.h>

#include "diag/client.h"
#include "diag/trace.h"

/* A client has so long to send its request, and as long to take its reply. */
#define RP_CLIENT_NS (5000ull * 1000000u)

/* Reads from and writes to a client. `events` are epoll's, 0 for a new client. May drop it. */
void rp_serve_client(struct rp_client *client, uint32_t events);
void rp_serve_drop(struct rp_client *client);

/* The client of a stream went away: ends its session now, not at its next event. */
void rp_serve_trace(struct rp_trace *trace);
/* Gives a session back that ended, and their reply to those who asked for its end. */
void rp_serve_close_trace(struct rp_trace *trace);
void rp_serve_close_ended(void);	/* all of those */

/* Ends the connections of snapshots: those that were sent, or all, waiting for their threads. */
void rp_serve_close_sent(void);
void rp_serve_close_sendings(void);

/* The helper said something, or ended. */
void rp_serve_dump(void);
void rp_serve_close_dump(void);

#endif
