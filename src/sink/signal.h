/* SPDX-License-Identifier: MIT */
/* Snapshots when a signal comes, from inside: what the front door needs. */
#ifndef RP_SINK_SIGNAL_H
#define RP_SINK_SIGNAL_H

/* "cannot do", what, errno. */
typedef void rp_complain(const char *what, const char *value, int error);

/*
 * As rp_snapshot_on_signal(), of "USR2", "SIGUSR2" or a number. Of each snapshot that could not be
 * written `complain_by` is told, on a thread of ours.
 */
int rp_snapshot_signal_start_named(const char *name, const char *path, rp_complain *complain_by);

/* In a forked child: the signal is the program's again. */
void rp_snapshot_signal_forget(void);

#endif
