/* SPDX-License-Identifier: MIT */
/*
 * The DiagnosticServer: the .NET diagnostics IPC protocol, so that dotnet-trace and its like find
 * this process.
 */
#ifndef RP_DIAG_DIAG_H
#define RP_DIAG_DIAG_H

/*
 * Starts the server: one thread, all signals masked, asleep in epoll. The socket appears after
 * delay_ms (a forked child that execs at once leaves none behind).
 * Return: 0 or -errno of thread creation; a socket that cannot be made is no error.
 */
int rp_diag_start(unsigned int delay_ms);

/* Ends the thread, its sessions, and removes the socket. At exit, or never. */
void rp_diag_stop(void);

/*
 * First in a forked child, before rp_diag_start(): closes what was inherited and forgets the
 * parent's server; its file stays.
 */
void rp_diag_forget(void);

#endif
