/* SPDX-License-Identifier: MIT */
/*
 * Finds providers that a session names but the process does not have. The check runs one second
 * after rp_session_watch_missing(), or at the session's end if that is earlier. It does not run at
 * once, because executables and libraries register their providers after this library is loaded.
 */
#ifndef RP_CORE_MISSING_H
#define RP_CORE_MISSING_H

struct rp_missing;
struct rp_provider;
struct rp_session;

/*
 * Make the session write an event ProviderMissing for each provider that it requests and the
 * process does not have. For each, the drain thread also calls `report`, unless it is NULL; it
 * holds no lock, and `report` must not block. `existing` has the names of the providers that
 * existed since this call, with commas between them, up to 999 bytes. Return: 0; -ENOMEM: no
 * memory.
 */
int rp_session_watch_missing(struct rp_session *session,
			     void (*report)(const char *provider, const char *existing));

/* Note that the provider exists. The caller holds the core's lock. */
void rp_missing_note(const struct rp_session *session, const struct rp_provider *provider);
/* Complete the check when it is due. In each pass, with the core's lock held. */
void rp_missing_settle(struct rp_session *session);
/* Call `report`. On the drain thread, without the lock, after rp_missing_settle(). */
void rp_missing_report(struct rp_session *session);
/* Write the events, once. Return: 0, or the error of the sink. */
int rp_missing_emit(struct rp_session *session);
void rp_missing_free(struct rp_missing *missing);

#endif
