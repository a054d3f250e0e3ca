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
#include "core/exporter.h"
#include "core/probe.h"
#include "core/sink.h"
#include "ring/slot.h"

#define RP_SESSION_BITS ((1ull << RP_SLOTS) - 1)
#define RP_FINISH_NS 2000000000u	/* for a peer that does not read */
#define RP_SLOW_NS 10000000000u		/* for one that reads little at a time */
#define RP_OWN_BITS ((1ull << 48) - 1)	/* the 16 above are the kernel's */

/* A definition: shared by all sites that say the same. Kept until no ring can hold its index. */
struct rp_def {
	struct rp_event_def public;
	struct rp_chain_node chain;	/* in core.definitions */
	struct cds_list_head retired;	/* in core.retired, once refs is 0 */
	uint64_t retired_pass;
	uint32_t refs;			/* sites */
	uint32_t pins;			/* sinks that hold on to it */
};

/* A registered struct rp_event: one enable word. */
struct rp_site {
	struct cds_list_head node;	/* in provider->sites */
	struct rp_chain_node by_id;	/* in core.sites */
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_def *def;
	bool heap;			/* made by rp_event_create() */
	struct cds_list_head untold;	/* in core.untold, until exporters know of it */
	struct rp_export *exports[RP_EXPORTERS_MAX];	/* by exporter; writers read it */
};

/* What a provider's callback was last told of an exporter. */
struct rp_export_state {
	uint64_t keywords;	/* of the events that it enabled, all together */
	uint64_t lost;		/* whatever is enabled by now */
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
	struct rp_export_state told[RP_EXPORTERS_MAX];	/* by exporter */
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
	uint64_t lost_told;
	uint32_t file;		/* its number in the session's directory, if it is a file */
	bool given_up;		/* its lock is held by a writer that left */
};

struct rp_session {
	/* Under core.lock. */
	struct cds_list_head node;	/* in core.sessions */
	uint64_t id;
	uint32_t slot;
	uint32_t flags;
	enum rp_session_state state;
	bool discard;			/* finishing: the rest is lost on purpose */
	bool patient;			/* its sink may take for ever */
	bool callbacks_aside;
	uint64_t wait_ns;		/* of writers, for room; 0: none */
	char *name;
	struct rp_config *configs;
	size_t config_count;
	struct rp_sink *sink;
	struct rp_keep *keep;		/* its rings are files, for recovery; or NULL */
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
	struct rp_session_stats stats;	/* as of the last pass */
	uint64_t deadline_ns;		/* while finishing: put off when the output takes some */
	uint64_t until_ns;		/* … but not beyond this */
	uint32_t snapshots;		/* being made: it does not end meanwhile */
	struct rp_clock_map *map;	/* overwriting: the last pass's; NULL before the first */
	uint64_t begun_ns;		/* since then all it wants is on */
	uint64_t slots;			/* bit mask: its slot and that of `kept` */
	/*
	 * Overwriting: rings of state events, which nobody empties. On no list; it has a slot of
	 * its own. NULL once its rings are the session's, at the end.
	 */
	struct rp_session *kept;
	bool keeps_state;		/* it is such a one */
	uint32_t sample_interval_ns;

	/* The drain thread's. */
	bool failed;		/* the sink is out of use */
	int error;
	struct rp_ring **rings;		/* by concurrency id, the table that writers see */
	uint32_t ring_count;
	size_t budget_bytes, used_bytes, ring_bytes;
	struct rp_source *sources;	/* fallback rings first, then in order of creation */
	uint32_t source_count;
	uint32_t fallback_count;
	uint64_t finish_bytes;		/* what the sink had written in the pass before */
	bool handshaken;
	bool ended;		/* rings and accounts are closed, stats final */
	uint64_t last_ns;
	uint64_t passed;		/* the last pass that took everything up to its T */
	uint64_t clamped;
	uint64_t account_busy, account_too_big, account_blocked;	/* taken over at the end */
	uint64_t lost_sink, lost_damaged;
	uint64_t told[RP_LOSS_REASON_COUNT];	/* by EventsLost, FULL excepted */
	uint64_t cuts_told;
	uint64_t lost_in_stream;	/* at the last sequence point of the stream */
	uint64_t last_point_ns;
	bool coarse_told;	/* CoarseTime */
	uint64_t window_from_ns, window_to_ns;	/* overwriting, at the end: what is still to tell */
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
	size_t free_count, free_room;
	uint64_t next_serial;
	struct cds_list_head retired;
	uint32_t secret_events;		/* made at run time, with secrets */

	uint64_t past_delivered, past_lost;	/* by sessions that are gone */
	void (*watcher)(void);		/* see rp_core_watch() */

	struct rp_exporter exporters[RP_EXPORTERS_MAX];
	uint32_t exporter_count;
	struct cds_list_head untold;	/* sites that exporters do not know yet */

	/* drain.c */
	bool drain_started;
	pthread_t drain_thread;
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

/* event.c, with the lock held */
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
bool rp_options_tail_is_zero(const void *options, uint32_t size, size_t known);
int rp_config_copy(struct rp_config *config, const struct rp_session_provider *provider);
void rp_configs_free(struct rp_config *configs, size_t count);

/* enable.c, with the lock held */
const struct rp_config *rp_session_config(const struct rp_session *session,
					  const struct rp_provider *provider);
bool rp_config_wants(const struct rp_config *config, const struct rp_event_def *def);
void rp_session_switch(struct rp_session *session, bool on);
uint64_t rp_site_session_bits(const struct rp_site *site);	/* … told to those who keep files */
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
void rp_notices_run(bool aside);	/* without the lock: delivers what is queued */
/* Whether this thread is in the provider's callback. */
bool rp_notices_is_inside(const struct rp_provider *provider);

/* exporter.c: without the lock, with that of the exporters */
void rp_exporters_settle(void);		/* tells of sites that came */
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

/* drain.c */
int rp_drain_start(void);		/* with the lock held; nothing if it runs */
void rp_drain_forget(void);		/* in a forked child */
void rp_drain_move_coarse(void);	/* now and then, while a session is stamped by it */
void rp_drain_wake(void);		/* any thread, signal handlers included */
void rp_drain_wake_if_asleep(void);	/* the writers' cheaper form */

/* wait.c */
struct rp_wait {
	uint64_t until_ns;
	uint32_t word;			/* as it was announced */
	bool moved;			/* the drain thread got rid of something meanwhile */
};

/* False: the caller must not wait. After each true it tries to write once more. */
bool rp_wait_begin(struct rp_wait *wait, struct rp_slot *slot);
/* Waits for room. False: the time is up, or there will be none. */
bool rp_wait_more(struct rp_wait *wait, struct rp_slot *slot, enum rp_write_result result);
void rp_wait_end(void);
void rp_wait_wake(struct rp_slot *slot);	/* there is room, or nothing to wait for */

/* session.c */
/* What the output has and rings need not keep, for recovery. The drain thread, or before it. */
void rp_session_record(struct rp_session *session, const struct rp_clock_map *map,
		       uint64_t lost_besides);
void rp_session_free(struct rp_session *session);

/* losses.c, on the drain thread */
uint64_t rp_session_lost_by(const struct rp_session *session, enum rp_loss_reason reason);
uint64_t rp_session_lost(const struct rp_session *session);
int rp_session_tell_losses(struct rp_session *session);		/* what is new; as a sink's event */
uint64_t rp_session_told(const struct rp_session *session);
/* An event of ringpipe's own, at the time of the last one given out. As a sink's event(). */
int rp_session_tell(struct rp_session *session, const struct rp_event_def *def,
		    const void *payload, uint32_t payload_bytes);
int rp_session_tell_coarse(struct rp_session *session);	/* once, if its times are */

/* drain.c: how far the coarse clock moves at a time */
#define RP_COARSE_NS 1000000u

/* snapshot.c */
void rp_session_keep_map(struct rp_session *session, const struct rp_clock_map *map);
bool rp_session_is_copied(struct rp_session *session);
void rp_session_begin_at_oldest(struct rp_session *session, struct rp_clock_map *map);
int rp_session_tell_window(struct rp_session *session);
void rp_session_keep_window(struct rp_session *session);	/* that event, for recovery */

/* merge.c, on the drain thread */
enum rp_pass {
	RP_PASS_QUIET,		/* all taken, the rings nearly empty */
	RP_PASS_BUSY,		/* all taken, but a ring filled above its watermark meanwhile */
	RP_PASS_URGENT,		/* the same, above half */
	RP_PASS_BLOCKED,	/* the sink takes no more for now */
	RP_PASS_DONE,		/* the session is over, its rings are gone */
};
enum rp_pass rp_session_pass(struct rp_session *session, bool finishing, uint64_t now_ticks,
			     struct rp_clock_map *map);
/* Gives the sink what its sources hold up to `bound`. 0, -EAGAIN: some is left, or the sink's. */
int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map);
/* Waits for writers that hold a fallback lock. Return: how many did not give it back. */
unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns);
/* For a sink that said -EAGAIN: whether it is worth waiting for any longer. */
bool rp_session_may_wait(struct rp_session *session);
int rp_session_make_fallbacks(struct rp_session *session);	/* at start, on any thread */
void rp_session_free_rings(struct rp_session *session);
bool rp_session_above(const struct rp_session *session, unsigned int divisor);
void rp_session_fill_stats(struct rp_session *session);

#endif
