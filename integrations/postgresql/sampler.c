/* SPDX-License-Identifier: MIT */
/*
 * The background worker "ringpipe sampler". It samples what has no hook: waits, waits for locks
 * with the owners of the locks, the progress of vacuums, and the server's own statistics. It also
 * has the counters of the whole server. A client attaches to this process to get them.
 */
#include "hooks.h"

#include <commands/progress.h>
#include <miscadmin.h>
#include <pgstat.h>
#include <port/pg_bitutils.h>
#include <postmaster/bgworker.h>
#include <storage/latch.h>
#include <storage/lock.h>
#include <storage/procarray.h>
#include <tcop/tcopprot.h>
#include <utils/array.h>
#include <utils/fmgrprotos.h>
#include <utils/memutils.h>
#include <utils/timestamp.h>

#include "events.h"

#define WAIT_CLASS 0xff000000u
/* The interval while no session wants samples. */
#define IDLE_MS 1000

PGDLLEXPORT void ringpipe_sampler_main(Datum argument);

static uint32 wait_of(int pid)
{
	PGPROC *proc = BackendPidGetProc(pid);

	if (!proc)
		proc = AuxiliaryPidGetProc(pid);
	return proc ? *(volatile uint32 *)&proc->wait_event_info : 0;
}

static void write_vacuum(const PgBackendStatus *status)
{
	const int64 *values = status->st_progress_param;

	if (status->st_progress_command != PROGRESS_COMMAND_VACUUM)
		return;
	postgresql_samples_vacuum(status->st_procpid, status->st_databaseid,
				  status->st_progress_command_target,
				  (uint32_t)values[PROGRESS_VACUUM_PHASE],
				  values[PROGRESS_VACUUM_TOTAL_HEAP_BLKS],
				  values[PROGRESS_VACUUM_HEAP_BLKS_SCANNED],
				  values[PROGRESS_VACUUM_HEAP_BLKS_VACUUMED],
				  values[PROGRESS_VACUUM_NUM_DEAD_TUPLES]);
}

static void write_wait(const PgBackendStatus *status, uint32 wait)
{
	/* NULL: the process does not wait. */
	const char *type = pgstat_get_wait_event_type(wait), *event = pgstat_get_wait_event(wait);

	/* A process that waits for work does not wait for a resource. */
	if (status->st_procpid == MyProcPid || status->st_state == STATE_IDLE ||
	    (wait & WAIT_CLASS) == PG_WAIT_ACTIVITY ||
	    (!wait && status->st_state == STATE_UNDEFINED))
		return;
	postgresql_samples_wait(status->st_procpid, status->st_query_id, type ? type : "running",
				event ? event : "");
}

/* Returns whether a process waits for a lock. */
static bool sample_processes(void)
{
	int count = pgstat_fetch_stat_numbackends();
	bool waits = false;

	for (int i = 1; i <= count; i++) {
		const LocalPgBackendStatus *local = pgstat_fetch_stat_local_beentry(i);
		uint32 wait = local ? wait_of(local->backendStatus.st_procpid) : 0;

		if (!local)
			continue;
		waits |= (wait & WAIT_CLASS) == PG_WAIT_LOCK;
		write_wait(&local->backendStatus, wait);
		write_vacuum(&local->backendStatus);
	}
	return waits;
}

/* The mode in which a process holds a lock; "" if it only comes first in the queue. */
static const char *mode_of_owner(const LockData *locks, const LOCKTAG *tag, int pid)
{
	for (int i = 0; i < locks->nelements; i++) {
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->pid != pid || !lock->holdMask ||
		    memcmp(&lock->locktag, tag, sizeof(*tag)) != 0)
			continue;
		/* The strongest mode. */
		return GetLockmodeName(tag->locktag_lockmethodid,
				       pg_leftmost_one_pos32((uint32)lock->holdMask));
	}
	return "";
}

static void write_lock_wait(const LockData *locks, const LockInstanceData *waiter)
{
	const LOCKTAG *tag = &waiter->locktag;
	bool has_relation = tag->locktag_type <= LOCKTAG_TUPLE;
	Datum owners = DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(waiter->pid));
	ArrayType *array = DatumGetArrayTypeP(owners);
	const int32 *pids = (const int32 *)ARR_DATA_PTR(array);
	int count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const char *mode = GetLockmodeName(tag->locktag_lockmethodid, waiter->waitLockMode);
	int64 waited_us = waiter->waitStart ? GetCurrentTimestamp() - waiter->waitStart : 0;

	for (int i = 0; i < count; i++) {
		const char *held = mode_of_owner(locks, tag, pids[i]);

		postgresql_samples_lock_wait(waiter->pid, pids[i],
					     LockTagTypeNames[tag->locktag_type], held, mode,
					     has_relation ? tag->locktag_field1 : 0,
					     has_relation ? tag->locktag_field2 : 0,
					     (uint64_t)Max(waited_us, 0));
	}
}

static void sample_locks(void)
{
	const LockData *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
		if (locks->locks[i].waitLockMode != NoLock)
			write_lock_wait(locks, &locks->locks[i]);
}

static void sample_writes(void)
{
	const PgStat_WalStats *wal = pgstat_fetch_stat_wal();
	const PgStat_CheckpointerStats *checkpoints = pgstat_fetch_stat_checkpointer();
	const PgStat_BgWriterStats *writer = pgstat_fetch_stat_bgwriter();

	postgresql_samples_writes(wal->wal_records, wal->wal_fpi, wal->wal_bytes,
				  wal->wal_buffers_full, wal->wal_write, wal->wal_sync,
				  checkpoints->timed_checkpoints,
				  checkpoints->requested_checkpoints,
				  checkpoints->buf_written_checkpoints,
				  checkpoints->buf_written_backend, writer->buf_written_clean);
}

/* Returns whether a session wants samples. */
static bool sample(void)
{
	bool processes = postgresql_samples_wait_enabled() ||
			 postgresql_samples_vacuum_enabled() ||
			 postgresql_samples_lock_wait_enabled();

	if (!processes && !postgresql_samples_writes_enabled())
		return false;
	pgstat_clear_snapshot();
	if (processes && sample_processes() && postgresql_samples_lock_wait_enabled())
		sample_locks();
	sample_writes();
	ringpipe_count(RINGPIPE_SAMPLES);
	return true;
}

static int observe(struct rp_observation *observation, void *data)
{
	return rp_observe(observation, (double)ringpipe_counter_sum((uintptr_t)data), NULL, 0);
}

static void create_counters(void)
{
	struct rp_counter *counter;

	for (uintptr_t i = 0; i < RINGPIPE_COUNTERS; i++) {
		const struct rp_counter_decl decl = {
			.size = sizeof(decl), .kind = RP_COUNTER_OBSERVED_SUM,
			.name = ringpipe_counter_names[i], .observe = observe, .data = (void *)i,
		};

		if (rp_counter_create(postgresql_provider(), &decl, &counter) < 0)
			ereport(WARNING, (errmsg("cannot create the counter %s", decl.name)));
	}
}

void ringpipe_sampler_main(Datum argument)
{
	MemoryContext context;
	int interval_ms;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	create_counters();
	context = AllocSetContextCreate(TopMemoryContext, "ringpipe sampler",
					ALLOCSET_DEFAULT_SIZES);
	for (;;) {
		MemoryContextReset(context);
		MemoryContextSwitchTo(context);
		ringpipe_sessions_poll();
		interval_ms = sample() ? ringpipe_sample_interval_ms :
			      Max(ringpipe_sample_interval_ms, IDLE_MS);
		(void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
				interval_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void ringpipe_sampler_init(void)
{
	BackgroundWorker worker = {
		.bgw_name = "ringpipe sampler",
		.bgw_flags = BGWORKER_SHMEM_ACCESS,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = 5,
		.bgw_library_name = "ringpipe_hooks",
		.bgw_function_name = "ringpipe_sampler_main",
	};

	if (ringpipe_sample_interval_ms > 0)
		RegisterBackgroundWorker(&worker);
}
