/* SPDX-License-Identifier: MIT */
/* A session whose rings are files, for recovery. */
#ifndef RP_CORE_SESSION_RECOVERY_H
#define RP_CORE_SESSION_RECOVERY_H

struct rp_clock_map;
struct rp_session;
struct rp_session_setup;

/*
 * Create the files for recovery, if the options request them. Return: 0; -EINVAL: there is no
 * output that recovery can continue; or the error of creating the files.
 */
int rp_session_make_recovery(struct rp_session *session, const struct rp_session_setup *setup);

/* Write the first record, after which recovery works. Does nothing without files. */
void rp_session_start_recovery(struct rp_session *session);

/* Record the progress of the output. On the drain thread, or before the session starts. */
void rp_session_record(struct rp_session *session, const struct rp_clock_map *map);

/* Record the losses so far after the output failed. Does nothing without files. */
void rp_session_record_lost(struct rp_session *session);

/* Leave the files in place: the rings hold events that a failed output does not contain. */
void rp_session_leave_recovery(struct rp_session *session);

#endif
