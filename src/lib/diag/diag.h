/* SPDX-License-Identifier: MIT */
/*
 * The DiagnosticServer: it implements the .NET diagnostics IPC protocol, so that dotnet-trace and
 * similar tools find this process.
 */
#ifndef RP_DIAG_DIAG_H
#define RP_DIAG_DIAG_H

#include "diag/ports.h"

/* Add a port to the default one. Call before rp_diag_start(). Return: as rp_ports_add(). */
int rp_diag_add_port(const struct rp_port *port);

/* Make start-up wait for a client of the default port. Call before rp_diag_start(). */
void rp_diag_suspend_default(void);

/*
 * Use another name for the default port, because a .NET runtime in this process has the usual one.
 * Call before rp_diag_start().
 */
void rp_diag_use_own_name(void);

/*
 * Start the server: one thread with all signals masked, asleep in poll(2). The socket exists on
 * return, or appears after delay_ms, so that a forked child that execs immediately leaves none.
 * Return: 0 or -errno of thread creation. A socket that cannot be created is not an error.
 */
int rp_diag_start(unsigned int delay_ms);

/*
 * Wait until every port that suspends start-up has received its ResumeRuntime. If the host polls,
 * this function runs the loop. Do not call on the server's thread.
 * Return: 0; -ETIMEDOUT.
 */
int rp_diag_wait(unsigned int timeout_ms);

/*
 * Wait until the thread of a forked child has opened the ports, or has failed to open them, for 3
 * seconds at most. Do nothing in other processes, on threads of the library, or if the host polls.
 */
void rp_diag_wait_open(void);

/*
 * Let the host run the loop, with rp_diag_fd() and rp_diag_dispatch(). Call before rp_diag_start().
 */
void rp_diag_poll(void);

/*
 * Start the diagnostics thread only when a client connects: the host polls rp_diag_fd() and then
 * calls rp_diag_dispatch(), which starts it. This has no effect in a process that connects to a
 * tool, has a port in addition to the default one, or suspends its start-up. Call before
 * rp_diag_start().
 */
void rp_diag_start_on_demand(void);

/* Start the thread that starts on demand. Return: 0; -errno of thread creation. */
int rp_diag_prepare(void);

/* As rp_diagnostics_fd() and rp_diagnostics_dispatch(); the latter waits up to `most_ms`. */
int rp_diag_fd(void);
int rp_diag_dispatch(int most_ms);

/* Return: the ports, for messages about them. */
const struct rp_ports *rp_diag_ports(void);

/* End the thread and the sessions, and remove the socket. Call at exit, or never. */
void rp_diag_stop(void);

/*
 * Call first in a forked child, before rp_diag_start(): close the inherited descriptors and forget
 * the parent's server. The parent's socket file stays.
 */
void rp_diag_forget(void);

#endif
