/* SPDX-License-Identifier: MIT */
/* A session whose rings are files, for recovery. */
#ifndef RP_CORE_SESSION_RECOVERY_H
#define RP_CORE_SESSION_RECOVERY_H

struct rp_clock_map;
struct rp_session;
struct rp_session_setup;

/* The files, if the options ask for them. Return: 0; -EINVAL: there is no output to continue. */
int rp_session_make_recovery(struct rp_session *session, const struct rp_session_setup *setup);

/* The first record; from here on there is something to recover. Nothing without files. */
void rp_session_start_recovery(struct rp_session *session);

/* Records how far the output is. On the drain thread, or before the session starts. */
void rp_session_record(struct rp_session *session, const struct rp_clock_map *map);

/* The output failed: records the losses up to here. Nothing without files. */
void rp_session_record_lost(struct rp_session *session);

/* The rings hold events that a failed output does not: their files stay. */
void rp_session_leave_recovery(struct rp_session *session);

#endif
