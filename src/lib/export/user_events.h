/* SPDX-License-Identifier: MIT */
/*
 * Sessions whose events go to the kernel's user_events, where perf, ftrace and BPF read them. A
 * client of the diagnostics socket requests one with CollectTracing5 of type 1. The client passes
 * the open file that registers and writes events, and names tracepoints. The kernel sets the enable
 * bits of a tracepoint's events when a reader opens it. No ring is involved: an event is one system
 * call of its writer.
 */
#ifndef RP_EXPORT_USER_EVENTS_H
#define RP_EXPORT_USER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/session.h>

/* Simultaneous sessions; each takes one of the exporters' bits in enable words. */
#define RP_USER_EVENTS_MAX 4u

/* Events with a separate tracepoint. */
struct rp_tracepoint_set {
	const char *name;
	const uint32_t *ids;
	size_t id_count;
};

/* The tracepoints of one provider's events. */
struct rp_tracepoints {
	const char *name;	/* for events in no set; NULL: none */
	const struct rp_tracepoint_set *sets;
	size_t set_count;
};

struct rp_user_events_setup {
	const struct rp_session_provider *providers;	/* NULL: all events, see below */
	const struct rp_tracepoints *tracepoints;	/* one per provider */
	size_t provider_count;
	int fd;			/* user_events_data; owned by the session, also on failure */
	/* Called on the session's thread at the session's end. Must not block. May be NULL. */
	void (*on_end)(void *data);
	void *data;
};

struct rp_user_events;

/*
 * Start a session: register the tracepoints and all existing events. Later events are registered
 * when they are created. Without providers, each event of the process gets a separate tracepoint
 * with typed fields (user_fields.h), also in a forked child.
 *
 * Context: any thread, not an exporter's call or a provider's callback; waits until the session's
 * thread has registered them.
 * Return: 0; -EOPNOTSUPP: `fd` is not a user_events file; -EINVAL: an invalid configuration of a
 * provider, an invalid name of a tracepoint, or an id in two sets; -EBUSY: RP_USER_EVENTS_MAX
 * sessions run; -ENOMEM; -errno of the kernel for a tracepoint, -EADDRINUSE if another tracepoint
 * has its name.
 */
int rp_user_events_open(const struct rp_user_events_setup *setup,
			struct rp_user_events **ret_session);

/* Disable and unregister the events. on_end reports the session's end. May be called repeatedly. */
void rp_user_events_finish(struct rp_user_events *session);

/* Finish, wait for the end and free the memory. */
void rp_user_events_close(struct rp_user_events *session);

/*
 * Start a session of all events that lasts as long as the process, with the kernel's own file.
 * Return: 0; -errno as above, or of open(2).
 */
int rp_user_events_open_all(void);

/* Get the statistics. Context: any thread, until rp_user_events_close(). */
void rp_user_events_stats(struct rp_user_events *session, struct rp_session_stats *ret_stats);

#endif
