/* SPDX-License-Identifier: MIT */
/*
 * The state of the engine: providers, events, sessions, and their locks.
 *
 * One mutex, rp_core.lock, guards the complete state except the members that belong to the drain
 * thread. No thread holds it across a callback, a blocking system call, or a wait, so the fork
 * handlers may take it.
 */
#ifndef RP_CORE_CORE_H
#define RP_CORE_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include <ringpipe/event.h>
#include <ringpipe/provider.h>
#include <ringpipe/session.h>

#include "base/atomic.h"
#include "base/chains.h"
#include "base/clock.h"
#include "core/exporters.h"
#include "core/kernel_probes.h"
#include "core/sink.h"
#include "ring/slot.h"

#define RP_SESSION_BITS ((1ull << RP_SLOTS) - 1)
#define RP_FINISH_NS 2000000000u	/* how long a session waits for a peer that reads nothing */
#define RP_SLOW_NS 10000000000u		/* … for a slow peer */
#define RP_OWN_BITS ((1ull << 48) - 1)	/* the upper 16 belong to the kernel */

/*
 * A definition, shared by all sites with the same declaration. It is kept until no ring can contain
 * its index.
 */
struct rp_def {
	struct rp_event_def public;
	struct rp_chain_node chain;	/* in core.definitions */
	struct cds_list_head retired;	/* in core.retired, once refs is 0 */
	uint64_t retired_pass;
	uint32_t refs;			/* sites */
	uint32_t pins;			/* see rp_def_pin() */
	struct rp_limit *limit;		/* or NULL */
};

/* A registered struct rp_event: one enable word. */
struct rp_site {
	struct cds_list_head node;	/* in provider->sites */
	struct rp_chain_node by_id;	/* in core.sites */
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_def *def;
	bool heap;			/* allocated by rp_event_create() */
	struct cds_list_head unreported;	/* in core.unreported, until exporters know of it */
	struct rp_export *exports[RP_EXPORTERS_MAX];	/* by exporter; writers read this array */
};

/* The state of an exporter that a provider's callback received last. */
struct rp_export_state {
	uint64_t keywords;	/* union over the events that the exporter enabled */
	uint64_t lost;		/* includes events that are disabled now */
	uint32_t events;
	uint8_t level;		/* the highest of these events */
};

/* A queued call of a provider's callback. */
struct rp_notice {
	struct cds_list_head node;
	struct rp_guid source;
	bool enabled;
	char *filter_data;
};

/* One of core.exporters. */
struct rp_exporter {
	const struct rp_exporter_ops *ops;
	uint64_t id;		/* from the ids of sessions */
	uint32_t slot;		/* its index in core.exporters */
};

struct rp_provider {
	struct cds_list_head node;	/* in core.providers */
	struct cds_list_head sites;
	struct cds_list_head notices;	/* struct rp_notice, oldest first */
	char *name;
	bool declared;			/* declared with RP_PROVIDER */
	bool by_name;			/* "*" does not select it */
	bool dead;			/* no further callbacks */
	bool leaving;			/* already withdrawn from exporters */
	bool in_callback;
	pthread_t caller;		/* while in_callback */
	rp_provider_callback callback;
	void *data;
	struct rp_export_state reported[RP_EXPORTERS_MAX];	/* by exporter */
};

struct rp_config {
	char *name;
	char *filter_data;
	uint64_t keywords;
	uint32_t *ids;			/* sorted */
	size_t id_count;
	bool has_filter;
	bool filter_enable;
	uint8_t level;
	bool (*wants)(const struct rp_event_def *def, const void *data);	/* or NULL */
	const void *wants_data;
};

enum rp_session_state {
	RP_SESSION_RUNNING,
	RP_SESSION_FINISHING,	/* bits are off; the drain thread delivers the remaining events */
	RP_SESSION_ENDED,	/* only the struct and its stats are left */
};

/* The drain thread's state for reading one ring. */
struct rp_source {
	struct rp_ring *ring;
	uint64_t position;	/* the drain thread has consumed the bytes below */
	uint64_t limit;		/* the head, read after the sequence point's membarrier */
	uint64_t ticks;		/* of the record at `position` */
	uint64_t lost_reported;
	uint64_t lost_fallback_reported;
	uint32_t file;		/* its number in the session's directory, if the ring is a file */
	uint32_t fallback;	/* 1 + index of the fallback lock for its writes; 0: none */
	bool given_up;		/* its lock is held by a writer that may return */
	/* For the buffers of a pool. */
	bool is_ring;		/* ring of a concurrency id, as of this pass */
	uint64_t retired;	/* pass in which the buffer began to retire */
	uint64_t retired_head;	/* head of the ring at that time */
	uint64_t seen_lock;	/* value of its lock when no longer that lock's ring; or 0 */
};

struct rp_session {
	/* Under rp_core.lock. */
	struct cds_list_head node;	/* in core.sessions */
	uint64_t id;
	uint32_t slot;
	uint32_t flags;
	enum rp_session_state state;
	bool discard;			/* finishing without delivering the remaining events */
	bool no_deadline;			/* its sink may take any time */
	bool callbacks_async;
	uint64_t wait_ns;		/* how long writers wait for space; 0: not at all */
	char *name;
	struct rp_config *configs;
	size_t config_count;
	struct rp_sink *sink;
	struct rp_missing *missing;	/* or NULL: see core/missing.h */
	struct rp_recovery_files *recovery;	/* the files of its rings; or NULL */
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
	struct rp_session_stats stats;	/* as of the last pass */
	uint64_t deadline_ns;		/* finishing: moved when the output accepts bytes */
	uint64_t until_ns;		/* … but not beyond this time */
	uint32_t snapshots;		/* being taken; the session does not end before */
	struct rp_clock_map *map;	/* overwriting: from the last pass; NULL before the first */
	uint64_t begun_ns;		/* since then, all wanted events are enabled */
	uint64_t slots;			/* bit mask: its slot and the slot of `state_rings` */
	/*
	 * Overwriting sessions only: a session with the rings of state events, which are never
	 * emptied. It is on no list and has a separate slot. NULL after its rings moved to this
	 * session.
	 */
	struct rp_session *state_rings;
	bool keeps_state;		/* this session is a `state_rings` */
	uint32_t sample_interval_ns;
	uint32_t format;	/* of its snapshots */

	/* Used by the drain thread only. */
	bool failed;		/* the sink failed */
	int error;
	struct rp_ring **rings;		/* by concurrency id; the table that writers read */
	uint32_t ring_count;
	size_t budget_bytes, used_bytes, ring_bytes;
	/*
	 * Fixed rings: the rings of the fallback, then the others in order of creation. A pool: by
	 * index.
	 */
	struct rp_source *sources;
	uint32_t source_count;
	struct rp_source **active;	/* sources with records, by time of the next record */
	uint32_t active_count;
	struct rp_ring **pool;		/* the table that writers read; NULL: the rings are fixed */
	uint32_t pool_count, pool_wake;
	uint32_t retiring;		/* buffers */
	struct rp_ring_array array;	/* the buffers, unless they are files */
	uint32_t fallback_count;
	uint64_t finish_bytes;		/* bytes that the sink had written in the previous pass */
	bool quiesced;
	bool ended;		/* stats are final, rings freed or being freed; under core.lock */
	uint64_t last_ns;
	uint64_t passed;		/* the last pass that delivered everything up to its T */
	uint64_t clamped;
	/* Copied from the slot at the end of the session. */
	uint64_t stats_busy, stats_too_big, stats_blocked, stats_full;
	uint64_t lost_sink, lost_damaged;
	uint64_t reported[RP_LOSS_REASON_COUNT];	/* by EventsLost, except FULL */
	uint64_t cuts_reported;
	uint64_t skipped;		/* reported: see limit.h */
	uint64_t lost_in_stream;	/* losses in the stream's last sequence point */
	uint64_t last_point_ns;
	bool coarse_reported;	/* CoarseTime */
	bool missing_reported;	/* ProviderMissing */
	bool counts_stacks;	/* see core/cut_stacks.h */
	uint64_t stacks_reported;	/* rules, reported by StacksCut */
	uint64_t window_from_ns, window_to_ns;	/* overwriting, at the end: not yet emitted */
};

#define RP_DEF_CHUNK 1024u
#define RP_DEF_CHUNKS 1024u

struct rp_core {
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a session, a callback or a thread changed state */
	struct cds_list_head providers;
	struct cds_list_head sessions;
	uint32_t session_count;
	uint64_t slots_used;		/* bit mask */
	uint64_t generation;		/* of session slots */
	uint64_t next_session_id;
	uint64_t stack_slots;		/* slots whose session wants stacks */
	uint64_t push_slots;		/* slots whose session belongs to a push listener */

	struct rp_chains definitions;
	struct rp_chains sites;		/* by provider and event id */
	struct rp_def **chunks[RP_DEF_CHUNKS];	/* by index; the drain thread reads without lock */
	uint32_t next_index;
	uint32_t *free_indexes;
	size_t free_count, free_capacity;
	uint64_t next_serial;
	struct cds_list_head retired;
	uint32_t secret_events;		/* dynamic events with secrets */
	struct cds_list_head limits;
	uint32_t limit_count;

	uint64_t past_delivered, past_lost;	/* by sessions that no longer exist */
	void (*watcher)(void);		/* set while the library is loaded: rp_core_watch() */

	struct rp_exporter exporters[RP_EXPORTERS_MAX];
	uint32_t exporter_count;
	struct cds_list_head unreported;	/* sites not yet announced to exporters */

	/* drain.c */
	uint64_t pass;			/* drain passes begun */
	uint64_t pass_ns;		/* when the last one ended */
	uint32_t work;			/* work for the drain thread; under no lock */
};

extern struct rp_core rp_core;

/* Return a new id for a session, an exporter, or another source of enabled events. */
static inline uint64_t rp_core_next_id(void)
{
	return rp_add_relaxed(&rp_core.next_session_id, 1) + 1;
}

/*
 * Whether the thread runs a listener's callback. Its events do not go to push listeners, and it
 * does not wait for the callback of a provider. initial-exec, because signal handlers write events.
 */
extern __thread bool rp_thread_listens __attribute__((tls_model("initial-exec")));

/* Initialise the engine once; later calls are cheap. Return: 0 or -errno. */
int rp_core_init(void);

/* fork.c: the handlers that ringpipe.c registers */
void rp_core_fork_prepare(void);
void rp_core_fork_parent(void);
void rp_core_fork_child(void);

/* Return the id of a declaration, which may be derived from its name. Context: any. */
uint32_t rp_event_id(const struct rp_event_decl *decl);

/* event.c, with the lock held */
/* Return the provider's event with this id, or NULL. */
const struct rp_event_def *rp_provider_event(const struct rp_provider *provider, uint32_t id);
int rp_def_get(const char *provider, const struct rp_event_decl *decl, struct rp_def **ret_def);
void rp_def_put(struct rp_def *def);
struct rp_def *rp_def_by_index(uint32_t index);		/* any thread */
void rp_defs_reap(uint64_t passed);			/* frees definitions retired before */
int rp_site_add(struct rp_provider *provider, struct rp_event *event, struct rp_def *def,
		bool heap);
void rp_site_remove(struct rp_site *site);

/* provider.c: the tables of an object, without the lock */
void rp_core_register(struct rp_object *object);
void rp_core_unregister(struct rp_object *object);

/* enable.c: copies of options, without the lock */
int rp_config_copy(struct rp_config *config, const struct rp_session_provider *provider);
void rp_configs_free(struct rp_config *configs, size_t count);

/* enable.c, with the lock held */
const struct rp_config *rp_session_config(const struct rp_session *session,
					  const struct rp_provider *provider);
bool rp_config_wants(const struct rp_config *config, const struct rp_event_def *def);
void rp_session_switch(struct rp_session *session, bool on);
uint64_t rp_site_session_bits(const struct rp_site *site);	/* also updates recovery files */
void rp_session_put_on(struct rp_session *session);	/* fill the slot, then set bits */
void rp_session_take_off(struct rp_session *session);	/* clear bits, then empty the slot */
void rp_export_state_get(const struct rp_provider *provider, const struct rp_exporter *exporter,
			 struct rp_export_state *ret_state);

/* notices.c, with the lock held */
void rp_source_guid(uint64_t id, struct rp_guid *ret_guid);
int rp_notice_add(struct rp_provider *provider, uint64_t source, bool enabled,
		  const char *filter_data);
void rp_notice_add_session(struct rp_provider *provider, const struct rp_session *session,
			   bool enabled);
void rp_notices_add(struct rp_session *session, bool enabled);	/* for all wanted providers */
void rp_notices_drop(struct rp_provider *provider);
void rp_notices_deliver(void);		/* releases the lock in between */
void rp_notices_run(bool async);	/* without the lock: delivers queued notices */
/* Whether the calling thread is inside the provider's callback. */
bool rp_notices_is_inside(const struct rp_provider *provider);

/* exporters.c: without the lock, but with the exporters' lock */
void rp_exporters_settle(void);		/* announces new sites */
void rp_exporters_withdraw(struct rp_provider *provider);
void rp_exporters_withdraw_event(struct rp_event *event);

/* exporters.c, with the lock held */
void rp_exporters_replay(struct rp_provider *provider);	/* for a new callback */
uint64_t rp_exporters_kernel_bits(void);

/* exporters.c: on the writer's thread */
void rp_export_write(const struct rp_event *event, uint64_t bit, const struct rp_part *parts,
		     unsigned int part_count, uint64_t payload_bytes);

/* exporters.c: the handlers that ringpipe.c registers, around those of the engine */
void rp_exporters_fork_prepare(void);
void rp_exporters_fork_parent(void);
void rp_exporters_fork_child(void);

/* listing.c, without the lock: call the watcher */
void rp_core_changed(void);

#endif
