/* SPDX-License-Identifier: MIT */
/*
 * The DiagnosticServer: the .NET diagnostics IPC protocol, so that dotnet-trace and its like find
 * this process.
 */
#ifndef RP_DIAG_DIAG_H
#define RP_DIAG_DIAG_H

#include "diag/ports.h"

/* Adds a port to the default one. Call it before rp_diag_start(). Return: as rp_ports_add(). */
int rp_diag_add_port(const struct rp_port *port);

/* Start-up waits for a client of the default port. Before rp_diag_start(). */
void rp_diag_suspend_default(void);

/* The default port is the .NET runtime's: ours gets another name. Before rp_diag_start(). */
void rp_diag_use_own_name(void);

/*
 * Starts the server: one thread, all signals masked, asleep in poll(2). The socket is there on
 * return, or appears after delay_ms (a forked child that execs at once leaves none behind).
 * Return: 0 or -errno of thread creation; a socket that cannot be made is no error.
 */
int rp_diag_start(unsigned int delay_ms);

/*
 * Waits until every port that suspends start-up got its ResumeRuntime, turning the loop if that is
 * the host's. Not on the server's thread.
 * Return: 0; -ETIMEDOUT.
 */
int rp_diag_wait(unsigned int timeout_ms);

/* The host turns the loop, by rp_diag_fd() and rp_diag_dispatch(). Before rp_diag_start(). */
void rp_diag_poll(void);

/* As rp_diagnostics_fd() and rp_diagnostics_dispatch(), which wait 0 ms for something to do. */
int rp_diag_fd(void);
int rp_diag_dispatch(int most_ms);

/* The ports, for messages. */
const struct rp_ports *rp_diag_ports(void);

/* Ends the thread, its sessions, and removes the socket. At exit, or never. */
void rp_diag_stop(void);

/*
 * First in a forked child, before rp_diag_start(): closes what was inherited and forgets the
 * parent's server; its file stays.
 */
void rp_diag_forget(void);

#endif
