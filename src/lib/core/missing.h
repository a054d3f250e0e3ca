/* SPDX-License-Identifier: MIT */
/*
 * Providers that a session asks for and that the process does not have. The session is asked one
 * second after its start, or at its end: executables and libraries register after ours is loaded.
 */
#ifndef RP_CORE_MISSING_H
#define RP_CORE_MISSING_H

struct rp_missing;
struct rp_provider;
struct rp_session;

/*
 * Have the session write an event ProviderMissing for each such provider, and call `report` once
 * for each, on the drain thread and without a lock; it must not block. `existing` has the names of
 * the providers that the process has, with commas between. Return: 0; -ENOMEM.
 */
int rp_session_watch_missing(struct rp_session *session,
			     void (*report)(const char *provider, const char *existing));

/* With the core's lock held: the session is asked for what it wants of the provider. */
void rp_missing_note(const struct rp_session *session, const struct rp_provider *provider);
/* With the core's lock held, in each pass. */
void rp_missing_settle(struct rp_session *session);
/* On the drain thread, without the lock, after rp_missing_settle(). */
void rp_missing_report(struct rp_session *session);
/* Write the events, once. Return: 0, or what the sink returned. */
int rp_missing_emit(struct rp_session *session);
void rp_missing_free(struct rp_missing *missing);

#endif
