/* SPDX-License-Identifier: MIT */
/*
 * The state of the engine: providers, events, sessions, and the locks around them.
 *
 * One mutex, rp_core.lock, guards all of it but what is said to belong to the drain thread. It is
 * never held across a callback, a blocking system call, or a wait, so the fork handlers may take
 * it.
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
#define RP_FINISH_NS 2000000000u	/* limit for a peer that reads nothing */
#define RP_SLOW_NS 10000000000u		/* limit for a slow peer */
#define RP_OWN_BITS ((1ull << 48) - 1)	/* the 16 above are the kernel's */

/* A definition: shared by all sites that say the same. Kept until no ring can hold its index. */
struct rp_def {
	struct rp_event_def public;
	struct rp_chain_node chain;	/* in core.definitions */
	struct cds_list_head retired;	/* in core.retired, once refs is 0 */
	uint64_t retired_pass;
	uint32_t refs;			/* sites */
	uint32_t pins;			/* sinks that hold on to it */
	struct rp_limit *limit;		/* or NULL */
};

/* A registered struct rp_event: one enable word. */
struct rp_site {
	struct cds_list_head node;	/* in provider->sites */
	struct rp_chain_node by_id;	/* in core.sites */
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_def *def;
	bool heap;			/* made by rp_event_create() */
	struct cds_list_head unreported;	/* in core.untold, until exporters know of it */
	struct rp_export *exports[RP_EXPORTERS_MAX];	/* by exporter; writers read it */
};

/* The state of an exporter that a provider's callback got last. */
struct rp_export_state {
	uint64_t keywords;	/* union over the events that it enabled */
	uint64_t lost;		/* kept after events are disabled */
	uint32_t events;
	uint8_t level;		/* the highest */
};

/* A call of a provider's callback that is due. */
struct rp_notice {
	struct cds_list_head node;
	struct rp_guid source;
	bool enabled;
	char *filter_data;
};

/* One of core.exporters. */
struct rp_exporter {
	const struct rp_exporter_ops *ops;
	uint64_t id;		/* from the numbers of sessions */
	uint32_t slot;		/* which one it is */
};

struct rp_provider {
	struct cds_list_head node;	/* in core.providers */
	struct cds_list_head sites;
	struct cds_list_head notices;	/* struct rp_notice, oldest first */
	char *name;
	bool declared;			/* by RP_PROVIDER */
	bool by_name;			/* "*" does not mean it */
	bool dead;			/* no further callbacks */
	bool leaving;			/* exporters do not see it any more */
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
	RP_SESSION_FINISHING,	/* bits are off, the drain thread delivers the rest */
	RP_SESSION_ENDED,	/* nothing left but the struct and its figures */
};

/* A ring as the drain thread reads it. */
struct rp_source {
	struct rp_ring *ring;
	uint64_t position;	/* consumed up to here */
	uint64_t limit;		/* a head seen after the sequence point's membarrier */
	uint64_t ticks;		/* of the record at `position` */
	uint64_t lost_reported;
	uint64_t lost_fallback_reported;
	uint32_t file;		/* its number in the session's directory, if it is a file */
	uint32_t fallback;	/* 1 + the index of the lock it is, or was, written under; or 0 */
	bool given_up;		/* its lock is held by a writer that may come back */
	/* For the buffers of a pool. */
	bool is_ring;		/* a concurrency id's, as of this pass */
	uint64_t retired;	/* the pass in which it began to retire */
	uint64_t retired_head;	/* its head then */
	uint64_t seen_lock;	/* its fallback's, when it was not that one's ring any more; or 0 */
};

struct rp_session {
	/* Under core.lock. */
	struct cds_list_head node;	/* in core.sessions */
	uint64_t id;
	uint32_t slot;
	uint32_t flags;
	enum rp_session_state state;
	bool discard;			/* finishing: the rest is lost on purpose */
	bool no_deadline;			/* its sink may take for ever */
	bool callbacks_async;
	uint64_t wait_ns;		/* of writers, for room; 0: none */
	char *name;
	struct rp_config *configs;
	size_t config_count;
	struct rp_sink *sink;
	struct rp_missing *missing;	/* see core/missing.h; or NULL */
	struct rp_recovery_files *recovery;	/* its rings are files, for recovery; or NULL */
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
	struct rp_session_stats stats;	/* as of the last pass */
	uint64_t deadline_ns;		/* while finishing: put off when the output takes some */
	uint64_t until_ns;		/* … but not beyond this */
	uint32_t snapshots;		/* being made: it does not end meanwhile */
	struct rp_clock_map *map;	/* overwriting: the last pass's; NULL before the first */
	uint64_t begun_ns;		/* since then all it wants is on */
	uint64_t slots;			/* bit mask: its slot and that of `state_rings` */
	/*
	 * Overwriting sessions: a session with the rings of state events, which are never emptied.
	 * It is on no list and has its own slot. NULL after its rings moved to this session.
	 */
	struct rp_session *state_rings;
	bool keeps_state;		/* it is such a one */
	uint32_t sample_interval_ns;
	uint32_t format;	/* of its snapshots */

	/* The drain thread's. */
	bool failed;		/* the sink is out of use */
	int error;
	struct rp_ring **rings;		/* by concurrency id, the table that writers see */
	uint32_t ring_count;
	size_t budget_bytes, used_bytes, ring_bytes;
	/* Fixed rings: the fallback's first, then in order of creation. A pool: by index. */
	struct rp_source *sources;
	uint32_t source_count;
	struct rp_source **active;	/* those that have records, by the time of the next one */
	uint32_t active_count;
	struct rp_ring **pool;		/* the table that writers see; NULL: its rings are fixed */
	uint32_t pool_count, pool_wake;
	uint32_t retiring;		/* buffers */
	struct rp_ring_array array;	/* the buffers, unless they are files */
	uint32_t fallback_count;
	uint64_t finish_bytes;		/* what the sink had written in the pass before */
	bool quiesced;
	bool ended;		/* stats are final, rings freed or being freed; under core.lock */
	uint64_t last_ns;
	uint64_t passed;		/* the last pass that took everything up to its T */
	uint64_t clamped;
	/* Taken over at the end. */
	uint64_t stats_busy, stats_too_big, stats_blocked, stats_full;
	uint64_t lost_sink, lost_damaged;
	uint64_t reported[RP_LOSS_REASON_COUNT];	/* by EventsLost, FULL excepted */
	uint64_t cuts_reported;
	uint64_t skipped;		/* reported: see limit.h */
	uint64_t lost_in_stream;	/* at the last sequence point of the stream */
	uint64_t last_point_ns;
	bool coarse_reported;	/* CoarseTime */
	bool missing_reported;	/* ProviderMissing */
	bool counts_stacks;	/* see core/cut_stacks.h */
	uint64_t stacks_reported;	/* rules, by StacksCut */
	uint64_t window_from_ns, window_to_ns;	/* overwriting, at the end: not emitted yet */
};

#define RP_DEF_CHUNK 1024u
#define RP_DEF_CHUNKS 1024u

struct rp_core {
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a session ended, a notice was delivered, a pin dropped */
	struct cds_list_head providers;
	struct cds_list_head sessions;
	uint32_t session_count;
	uint64_t slots_used;		/* bit mask */
	uint64_t generation;		/* of session slots */
	uint64_t next_session_id;
	uint64_t stack_slots;		/* slots whose session wants stacks */
	uint64_t push_slots;		/* … belongs to a push listener */

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

	uint64_t past_delivered, past_lost;	/* by sessions that are gone */
	void (*watcher)(void);		/* see rp_core_watch(); set while the library is loaded */

	struct rp_exporter exporters[RP_EXPORTERS_MAX];
	uint32_t exporter_count;
	struct cds_list_head unreported;	/* sites that exporters do not know yet */

	/* drain.c */
	uint64_t pass;			/* drain passes begun */
	uint64_t pass_ns;		/* when the last one ended */
	uint32_t work;			/* the drain thread should look; under no lock */
};

extern struct rp_core rp_core;

/* For a session, an exporter, or who else has something turned on. */
static inline uint64_t rp_core_next_id(void)
{
	return rp_add_relaxed(&rp_core.next_session_id, 1) + 1;
}

/*
 * Whether the thread runs a listener's callback: no push listener is offered what it writes, and it
 * waits for no provider's callback. initial-exec: signal handlers write.
 */
extern __thread bool rp_thread_listens __attribute__((tls_model("initial-exec")));

/* Makes the engine ready, once; cheap afterwards. 0 or -errno. */
int rp_core_init(void);

/* fork.c: the handlers that ringpipe.c registers */
void rp_core_fork_prepare(void);
void rp_core_fork_parent(void);
void rp_core_fork_child(void);

/* The id of a declaration, which may follow from its name. Context: any. */
uint32_t rp_event_id(const struct rp_event_decl *decl);

/* event.c, with the lock held */
/* A provider's event with this id, or NULL. */
const struct rp_event_def *rp_provider_event(const struct rp_provider *provider, uint32_t id);
int rp_def_get(const char *provider, const struct rp_event_decl *decl, struct rp_def **ret_def);
void rp_def_put(struct rp_def *def);
struct rp_def *rp_def_by_index(uint32_t index);		/* any thread */
void rp_defs_reap(uint64_t passed);			/* frees what was retired before */
int rp_site_add(struct rp_provider *provider, struct rp_event *event, struct rp_def *def,
		bool heap);
void rp_site_remove(struct rp_site *site);

/* provider.c: an object's tables, without the lock */
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
void rp_session_put_on(struct rp_session *session);	/* slot filled, then bits on */
void rp_session_take_off(struct rp_session *session);	/* bits off, then slot empty */
void rp_export_state_get(const struct rp_provider *provider, const struct rp_exporter *exporter,
			 struct rp_export_state *ret_state);

/* notices.c, with the lock held */
void rp_source_guid(uint64_t id, struct rp_guid *ret_guid);
int rp_notice_add(struct rp_provider *provider, uint64_t source, bool enabled,
		  const char *filter_data);
void rp_notice_add_session(struct rp_provider *provider, const struct rp_session *session,
			   bool enabled);
void rp_notices_add(struct rp_session *session, bool enabled);	/* for each provider it wants */
void rp_notices_drop(struct rp_provider *provider);
void rp_notices_deliver(void);		/* gives the lock up meanwhile */
void rp_notices_run(bool async);	/* without the lock: delivers what is queued */
/* Whether this thread is in the provider's callback. */
bool rp_notices_is_inside(const struct rp_provider *provider);

/* exporter.c: without the lock, with that of the exporters */
void rp_exporters_settle(void);		/* announces new sites */
void rp_exporters_withdraw(struct rp_provider *provider);
void rp_exporters_withdraw_event(struct rp_event *event);

/* exporter.c, with the lock held */
void rp_exporters_replay(struct rp_provider *provider);	/* to a callback that is new */
uint64_t rp_exporters_kernel_bits(void);

/* exporter.c: on the writer's thread */
void rp_export_write(const struct rp_event *event, uint64_t bit, const struct rp_part *parts,
		     unsigned int part_count, uint64_t payload_bytes);

/* exporter.c: the handlers that ringpipe.c registers, around those of the engine */
void rp_exporters_fork_prepare(void);
void rp_exporters_fork_parent(void);
void rp_exporters_fork_child(void);

/* listing.c, without the lock: calls the watcher */
void rp_core_changed(void);

#endif
