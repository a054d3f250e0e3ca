/* SPDX-License-Identifier: MIT */
/* The parts of the extension, each with the hooks by which PostgreSQL calls it. */
#ifndef PG_RINGPIPE_HOOKS_H
#define PG_RINGPIPE_HOOKS_H

#include <postgres.h>

#include <executor/execdesc.h>
#include <port/atomics.h>
#include <storage/lwlock.h>
#include <storage/proc.h>

#include <ringpipe/activity.h>

/* Counters of the whole server, in the order of ringpipe_counter_names. */
enum ringpipe_counter {
	RINGPIPE_STATEMENTS,
	RINGPIPE_PLANS,
	RINGPIPE_LOGGED_ERRORS,
	RINGPIPE_SAMPLES,
	RINGPIPE_COUNTERS,
};

/*
 * The counters of a PGPROC. Only the process that owns the PGPROC writes them. The next owner
 * continues with the same values, so the sum of all is the counter of the server.
 */
union ringpipe_cell {
	uint64 values[RINGPIPE_COUNTERS];
	char line[PG_CACHE_LINE_SIZE];
};

#define RINGPIPE_SESSIONS_MAX 8
#define RINGPIPE_PROVIDERS_MAX 512

/* A session of ringpipe_start(), which each process starts for itself. */
struct ringpipe_wanted {
	int id;				/* 0: unused */
	bool is_running;
	bool recover;			/* rings are files, which outlive the processes */
	int buffer_mb;
	int processes;			/* that run the session now */
	int failed;			/* processes whose session failed */
	uint64 delivered, lost;		/* of sessions that ended */
	char providers[RINGPIPE_PROVIDERS_MAX];
	char folder[MAXPGPATH];
};

struct ringpipe_shared {
	LWLock *lock;			/* of next_id and `wanted` */
	pg_atomic_uint64 generation;	/* of `wanted` */
	int next_id;
	struct ringpipe_wanted wanted[RINGPIPE_SESSIONS_MAX];	/* by id % RINGPIPE_SESSIONS_MAX */
	union ringpipe_cell cells[FLEXIBLE_ARRAY_MEMBER];
};

/* The hooks read these for each statement: no other library may have them. */
#pragma GCC visibility push(hidden)
extern struct ringpipe_shared *ringpipe_shared;	/* NULL: not preloaded */
extern uint64 ringpipe_seen_generation;	/* of the sessions of this process */
extern const char *const ringpipe_counter_names[RINGPIPE_COUNTERS];
extern bool ringpipe_sql_text;
extern const struct rp_activity *ringpipe_trace;	/* of ringpipe.traceparent, or NULL */
extern int ringpipe_sample_interval_ms;

uint64 ringpipe_counter_sum(enum ringpipe_counter counter);
void ringpipe_query_init(void);
void ringpipe_log_init(void);
/* Returns the text or, until the next call, its first 16 KB: a larger event would be lost. */
const char *ringpipe_text_cut(const char *text);
void ringpipe_sampler_init(void);
void ringpipe_sessions_update(void);

uint64 ringpipe_plan_id(PlanState *state);
void ringpipe_nodes_write(QueryDesc *query, uint64 plan_id);
#pragma GCC visibility pop

static inline void ringpipe_count(enum ringpipe_counter counter)
{
	/* The postmaster and the process that writes the log files have no PGPROC. */
	if (MyProc)
		ringpipe_shared->cells[MyProc->pgprocno].values[counter]++;
}

/* Whether SQL wants other sessions than this process has. */
static inline bool ringpipe_sessions_changed(void)
{
	return pg_atomic_read_u64(&ringpipe_shared->generation) != ringpipe_seen_generation;
}

/* Starts and stops sessions of this process. */
static inline void ringpipe_sessions_poll(void)
{
	if (unlikely(ringpipe_sessions_changed()))
		ringpipe_sessions_update();
}

#endif
