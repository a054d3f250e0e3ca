/* SPDX-License-Identifier: MIT */
/* Snapshots when a signal comes, from inside: what the front door needs. */
#ifndef RP_SINK_SNAPSHOT_SIGNAL_H
#define RP_SINK_SNAPSHOT_SIGNAL_H

/* "cannot do", what, errno. */
typedef void rp_warn_function(const char *what, const char *value, int error);

/*
 * As rp_snapshot_on_signal(), with the signal as "USR2", "SIGUSR2" or a number. A thread of the
 * library calls `warn_by` for each snapshot that could not be written.
 */
int rp_snapshot_signal_start_named(const char *name, const char *path, rp_warn_function *warn_by);

/* In a forked child: the signal is the program's again. */
void rp_snapshot_signal_forget(void);

#endif
