/* SPDX-License-Identifier: MIT */
/*
 * Serves a view to a browser on this machine. Only loopback is bound; a path must begin with a
 * secret token, and the Host header must name the server, so that neither other users nor pages of
 * other sites, which resolve their name to 127.0.0.1, can read the traces.
 */
#ifndef RP_TOOL_VIEW_SERVER_H
#define RP_TOOL_VIEW_SERVER_H

#include "tools/view/view_query.h"

struct rp_view_server;

/*
 * Start a server.
 * @port: 0: any that is free.
 * Return: 0; -errno: it was printed.
 */
int rp_view_server_start(const struct rp_traces *view, uint16_t port,
			 struct rp_view_server **ret_server);

/* Return: the address of the page, valid as long as the server. */
const char *rp_view_server_url(const struct rp_view_server *server);

/* Stop a server that has no clients yet. */
void rp_view_server_stop(struct rp_view_server *server);

#endif
