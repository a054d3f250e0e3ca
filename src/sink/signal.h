/* SPDX-License-Identifier: MIT */
/* Snapshots when a signal comes, from inside: what the front door needs. */
#ifndef RP_SINK_SIGNAL_H
#define RP_SINK_SIGNAL_H

/*
 * As rp_snapshot_on_signal(), of "USR2", "SIGUSR2" or a number. `failed` is told, on a thread of
 * ours, of each snapshot that could not be written, with -errno.
 */
int rp_snapshot_signal_start_named(const char *name, const char *path,
				   void (*failed)(const char *path, int error));

/* In a forked child: the signal is the program's again. */
void rp_snapshot_signal_forget(void);

#endif
