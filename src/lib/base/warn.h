/* SPDX-License-Identifier: MIT */
#ifndef RP_BASE_WARN_H
#define RP_BASE_WARN_H

/*
 * Print a message on standard error, in one write. Use this only for settings in the environment of
 * a process and for declarations in its objects, which have no other way to report a failure. If
 * standard error is a pipe without a reader, the host receives no signal.
 * Context: any thread that holds none of the library's locks, since the pipe may be full.
 */
__attribute__((format(printf, 1, 2))) void rp_warn(const char *format, ...);

#endif
