/* SPDX-License-Identifier: MIT */
/* The state of a session, by the threads that change it. core.h describes the lock. */
#ifndef RP_CORE_SESSION_STATE_H
#define RP_CORE_SESSION_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/session.h>
#include <urcu/list.h>

#include "core/ring_source.h"
#include "core/sink.h"
#include "ring/ring.h"

struct rp_clock_map;
struct rp_config;
struct rp_missing;
struct rp_recovery_files;

enum rp_session_state {
	RP_SESSION_RUNNING,
	RP_SESSION_FINISHING,	/* bits are off; the drain thread delivers the remaining events */
	RP_SESSION_ENDED,	/* only the struct and its stats are left */
};

/* The end of a session: finishing, until the output is complete or its time is up. */
struct rp_session_finish {
	bool discard;		/* without delivering the remaining events */
	uint64_t checked_ns;	/* time of the previous rp_session_may_wait(), or of the stop */
	uint64_t idle_ns;	/* waited since the output accepted bytes */
	uint64_t waited_ns;	/* … since the stop */
	uint64_t sink_bytes;	/* that the sink had written in the previous pass */
};

/* The counts that the stream already contains. Each report has only the increase since then. */
struct rp_session_reported {
	uint64_t lost[RP_LOSS_REASON_COUNT];	/* by EventsLost, except FULL: see rp_source */
	uint64_t cuts;			/* payloads, by PayloadsCut */
	uint64_t stack_rules;		/* by StacksCut */
	bool coarse;			/* CoarseTime */
	bool missing;			/* ProviderMissing */
	uint64_t point_lost;		/* losses in the last sequence point */
	uint64_t point_ns;		/* time of the last sequence point */
};

/*
 * Counts of a session's lost and changed events, except the losses that its rings count. Only
 * session_stats.c writes this struct.
 */
struct rp_session_counts {
	uint64_t sink, damaged;		/* lost */
	uint64_t presumed;		/* lost unless their writers return, and not reported */
	uint64_t clamped;
	/* Lost. Copied from the slot when all writers have left it: then `quiesced` is true. */
	uint64_t busy, too_big, blocked, full;
};

/* The time for which an overwriting session has all events. */
struct rp_session_window {
	uint64_t from_ns;
	uint64_t to_ns;		/* 0: already emitted */
};

struct rp_session {
	/* Set by the thread that opens the session. */
	uint64_t id;
	uint32_t slot;
	uint64_t slots;			/* bit mask: its slot and the slot of `state_rings` */
	uint32_t flags;
	uint32_t sample_interval_ns;
	uint32_t format;		/* of its snapshots */
	uint64_t wait_ns;		/* how long writers wait for space; 0: not at all */
	bool no_deadline;		/* its sink may take any time */
	bool callbacks_async;
	bool is_state_rings;		/* this session is a `state_rings` */
	bool counts_stacks;		/* see core/cut_stacks.h */
	char *name;
	struct rp_sink *sink;
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
	/*
	 * Overwriting sessions only: a session with the rings of state events, which are never
	 * emptied. It is not in rp_core.sessions, and has a separate slot. NULL after its rings
	 * moved to this session.
	 */
	struct rp_session *state_rings;

	/* Under rp_core.lock. */
	struct cds_list_head node;	/* in core.sessions */
	enum rp_session_state state;
	struct rp_config *configs;
	size_t config_count;
	struct rp_missing *missing;	/* or NULL: see core/missing.h */
	struct rp_session_stats stats;	/* as of the last pass */
	uint32_t snapshots;		/* being taken; the session does not end before */
	struct rp_clock_map *map;	/* overwriting: from the last pass; NULL before the first */
	uint64_t begun_ns;		/* since then, all wanted events are enabled */
	bool ended;			/* stats are final, rings freed or being freed */
	struct rp_session_finish finish;

	/* Used by the drain thread only, from here on. */
	bool failed;			/* the sink failed */
	int error;
	bool quiesced;
	uint64_t last_ns;
	uint64_t passed;		/* the last pass that delivered everything up to its T */
	struct rp_session_counts counts;
	uint64_t skipped;		/* by limits, and reported. With the lock: see limit.h */
	bool is_snapshot;		/* a copy of a session, see snapshot.c */
	uint64_t limits_reported;	/* by a snapshot: up to this serial of a definition */
	struct rp_session_reported reported;
	struct rp_session_window window;

	/* Its rings. Writers read the tables while the session has a slot. */
	struct rp_recovery_files *recovery;	/* the files of its rings; or NULL */
	struct rp_ring **rings;		/* by concurrency id; writers read this table */
	uint32_t ring_count;
	size_t budget_bytes, used_bytes, ring_bytes;
	/*
	 * Fixed rings: the rings of the fallback, then the others in order of creation. A pool: by
	 * index.
	 */
	struct rp_source *sources;
	uint32_t source_count;
	struct rp_source **active;	/* space for a merge: see core/merge.h */
	struct rp_ring **pool;		/* writers read this table; NULL: the rings are fixed */
	uint32_t pool_count, pool_wake, pool_open;
	uint32_t retiring;		/* buffers */
	struct rp_ring_array array;	/* the buffers, unless they are files */
	uint32_t fallback_count;
};

#endif
