/* SPDX-License-Identifier: MIT */
/*
 * Sessions whose events go to the kernel's user_events, where perf, ftrace and BPF see them: what a
 * client of the diagnostics socket asks for with CollectTracing5 of type 1. It brings the open file
 * by which events are registered and written, and names tracepoints; the kernel sets the enable
 * bits of a tracepoint's events when somebody begins to read it. No ring is involved: an event is
 * one system call of its writer.
 */
#ifndef RP_EXPORT_USER_EVENTS_H
#define RP_EXPORT_USER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/session.h>

/* At once; each takes one of the bits that exporters have in enable words. */
#define RP_USER_EVENTS_MAX 4u

/* Events that go to a tracepoint of their own. */
struct rp_tracepoint_set {
	const char *name;
	const uint32_t *ids;
	size_t id_count;
};

/* Where the events of one provider go. */
struct rp_tracepoints {
	const char *name;	/* of those that are in no set; NULL: nowhere */
	const struct rp_tracepoint_set *sets;
	size_t set_count;
};

struct rp_user_events_setup {
	const struct rp_session_provider *providers;	/* NULL: see below */
	const struct rp_tracepoints *tracepoints;	/* of each provider */
	size_t provider_count;
	int fd;			/* user_events_data; the session's, also after failure */
	/* On the session's thread, when it has ended. Must not block. May be NULL. */
	void (*on_end)(void *data);
	void *data;
};

struct rp_user_events;

/*
 * Registers the tracepoints and what events there are; those that come later follow. Without
 * providers each event of the process gets a tracepoint of its own, with typed fields
 * (user_fields.h), and a forked child goes on with that.
 *
 * Context: any thread, not an exporter's call or a provider's callback; waits for a thread of its
 * own to be done with the kernel.
 * Return: 0; -EOPNOTSUPP: no file of a kernel's user_events; -EINVAL: what no session can have, a
 * name no tracepoint can have, an id in two sets; -EBUSY: RP_USER_EVENTS_MAX sessions run; -ENOMEM;
 * what the kernel said to a tracepoint, -EADDRINUSE where its name is taken by another.
 */
int rp_user_events_open(const struct rp_user_events_setup *setup,
			struct rp_user_events **ret_session);

/* Events are off and unregistered when this returns; on_end tells the rest. More calls are fine. */
void rp_user_events_finish(struct rp_user_events *session);

/* Finishes, waits for the end and gives the memory back. */
void rp_user_events_close(struct rp_user_events *session);

/*
 * A session of all events, for the whole life of the process, in the kernel's own file. Return: 0;
 * -errno as above, and as open(2) says.
 */
int rp_user_events_open_all(void);

/* Context: any thread, until rp_user_events_close(). */
void rp_user_events_stats(struct rp_user_events *session, struct rp_session_stats *ret_stats);

#endif
