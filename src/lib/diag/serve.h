/* SPDX-License-Identifier: MIT */
/* Handles events of clients, sessions and the dump helper for the server's loop. */
#ifndef RP_DIAG_SERVE_H
#define RP_DIAG_SERVE_H

#include <stdint.h>

#include "diag/client.h"
#include "diag/trace.h"

/* The time in which a client must send its request, and then read its reply. */
#define RP_CLIENT_NS (5000ull * 1000000u)

/* Receive from and send to a client. `events` are epoll's, 0 for a new client. May drop it. */
void rp_serve_client(struct rp_client *client, uint32_t events);
void rp_serve_drop(struct rp_client *client);

/* The client of a stream has disconnected: finish its session now, not at its next event. */
void rp_serve_trace(struct rp_trace *trace);
/* Close a session that has ended, and send the reply to the clients that waited for its end. */
void rp_serve_close_trace(struct rp_trace *trace);
void rp_serve_close_ended(void);	/* all ended sessions */

/* Close the connections of snapshots: those that were sent, or all, after joining their threads. */
void rp_serve_close_sent(void);
void rp_serve_close_sendings(void);

/* The helper sent a report or has ended. */
void rp_serve_dump(void);
void rp_serve_close_dump(void);

#endif
