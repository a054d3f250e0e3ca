/* SPDX-License-Identifier: MIT */
/* Snapshots on a signal: the part that library initialisation (src/lib/ringpipe.c) uses. */
#ifndef RP_SINK_SNAPSHOT_SIGNAL_H
#define RP_SINK_SNAPSHOT_SIGNAL_H

/* Arguments: "cannot do", the object, errno. */
typedef void rp_warn_function(const char *what, const char *value, int error);

/*
 * As rp_snapshot_on_signal(), with the signal's name ("USR2", "SIGUSR2") or number. A thread of the
 * library calls `warn_by` for each snapshot that could not be written.
 */
int rp_snapshot_signal_start_named(const char *name, const char *path, rp_warn_function *warn_by);

/* In a forked child: restore the program's handler. */
void rp_snapshot_signal_forget(void);

#endif
