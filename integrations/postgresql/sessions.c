/* SPDX-License-Identifier: MIT */
/*
 * Sessions that SQL starts. The shared memory holds what is wanted. Each process that executes
 * statements compares the generation of it with its own, and starts or stops its own sessions when
 * they differ, at its next statement. The end of a session also reaches a process that waits for a
 * client: ringpipe_stop() makes such processes execute an empty transaction.
 */
#include "hooks.h"

#include <access/xact.h>
#include <catalog/pg_authid_d.h>
#include <fmgr.h>
#include <funcapi.h>
#include <miscadmin.h>
#include <storage/ipc.h>
#include <storage/procsignal.h>
#include <storage/sinvaladt.h>
#include <utils/acl.h>
#include <utils/builtins.h>

#include <ringpipe/ringpipe.h>

/* The sessions of this process, in the order of the shared ones. */
static struct {
	int id;				/* 0: none */
	int error;			/* of its start, negative */
	struct rp_session *session;
} own[RINGPIPE_SESSIONS_MAX];

uint64 ringpipe_seen_generation;

/* Reports an error, and adds to a session's shared figures, if its place still belongs to it. */
static void add_stats(int place, int id, int processes, int error,
		      const struct rp_session_stats *stats)
{
	struct ringpipe_wanted *wanted = &ringpipe_shared->wanted[place];

	errno = -error;
	if (error)
		ereport(LOG, (errmsg("session %d of ringpipe failed in this process: %m", id)));
	LWLockAcquire(ringpipe_shared->lock, LW_EXCLUSIVE);
	if (wanted->id == id) {
		wanted->processes += processes;
		wanted->failed += error != 0;
		wanted->delivered += stats->delivered;
		wanted->lost += stats->lost;
	}
	LWLockRelease(ringpipe_shared->lock);
}

static void stop_own(int place)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	int id = own[place].id;

	own[place].id = 0;
	if (!own[place].session)
		return;
	(void)rp_session_stop(own[place].session, &stats);
	own[place].session = NULL;
	add_stats(place, id, -1, stats.error, &stats);
}

static void stop_all(int code, Datum argument)
{
	for (int i = 0; i < RINGPIPE_SESSIONS_MAX; i++)
		stop_own(i);
}

static void on_transaction(XactEvent event, void *data)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		ringpipe_sessions_poll();
}

/* A process calls on_transaction() from its first session on: without it, others cost less. */
static void take_hooks_of_sessions(void)
{
	static bool has_hooks;

	if (has_hooks)
		return;
	/* After the end of the transaction, which ends the spans of a terminated process. */
	on_shmem_exit(stop_all, 0);
	RegisterXactCallback(on_transaction, NULL);
	has_hooks = true;
}

static void start_own(int place, const struct ringpipe_wanted *wanted)
{
	const struct rp_session_stats none = RP_SESSION_STATS_INIT;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_session_provider *list;
	int *error = &own[place].error;

	take_hooks_of_sessions();
	own[place].id = wanted->id;
	options.name = psprintf("ringpipe_start %d", wanted->id);
	options.output_path = psprintf("%s/ringpipe-%d-%d.nettrace", wanted->folder, wanted->id,
				       MyProcPid);
	options.buffer_bytes = (size_t)wanted->buffer_mb << 20;
	/* The library's own folder, below /dev/shm. */
	options.recover_path = wanted->recover ? "" : NULL;
	*error = rp_providers_parse(wanted->providers, &list, &options.provider_count, NULL);
	if (*error == 0) {
		options.providers = list;
		*error = rp_session_start(&options, &own[place].session);
		free(list);
	}
	add_stats(place, wanted->id, *error == 0, *error, &none);
}

static struct ringpipe_wanted copy_of_wanted(int place)
{
	struct ringpipe_wanted wanted;

	LWLockAcquire(ringpipe_shared->lock, LW_SHARED);
	wanted = ringpipe_shared->wanted[place];
	LWLockRelease(ringpipe_shared->lock);
	return wanted;
}

void ringpipe_sessions_update(void)
{
	ringpipe_seen_generation = pg_atomic_read_u64(&ringpipe_shared->generation);
	for (int i = 0; i < RINGPIPE_SESSIONS_MAX; i++) {
		const struct ringpipe_wanted wanted = copy_of_wanted(i);

		if (own[i].id && (own[i].id != wanted.id || !wanted.is_running))
			stop_own(i);
		if (wanted.id && wanted.is_running && own[i].id != wanted.id)
			start_own(i, &wanted);
	}
}

static void require_memory(void)
{
	if (!ringpipe_shared)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("ringpipe must be in shared_preload_libraries")));
}

static void check_start(const char *providers, const char *folder, int buffer_mb)
{
	struct rp_session_provider *parsed = NULL;
	const char *wrong = NULL;
	size_t count = 0, at = 0;
	int ret = rp_providers_parse(providers, &parsed, &count, &at);

	free(parsed);
	/* Without memory, the session cannot start either, and this is then reported. */
	if (ret != -ENOMEM && (ret != 0 || count == 0))
		wrong = psprintf("invalid list of providers, from \"%s\" on",
				 providers + (ret != 0 ? at : 0));
	else if (strlen(providers) >= RINGPIPE_PROVIDERS_MAX || strlen(folder) >= MAXPGPATH)
		wrong = "the list of providers or the folder is too long";
	else if (!is_absolute_path(folder))
		wrong = psprintf("\"%s\" is not the absolute path of a folder", folder);
	else if (buffer_mb < 1 || buffer_mb > 1024)
		wrong = psprintf("the buffer has 1 to 1024 MB, not %d", buffer_mb);
	if (wrong)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s", wrong)));
}

static int place_of(int id)
{
	return (int)((unsigned int)id % RINGPIPE_SESSIONS_MAX);
}

/* PostgreSQL has an idle process read its messages about caches in a transaction of their own. */
static void wake_idle(void)
{
	for (int id = 1; id <= MaxBackends; id++) {
		const PGPROC *proc = BackendIdGetProc(id);
		const pid_t pid = proc ? proc->pid : 0;

		if (pid > 0 && pid != MyProcPid)
			(void)SendProcSignal(pid, PROCSIG_CATCHUP_INTERRUPT, id);
	}
}

/* Tells the processes to stop a session. Returns whether it was running. */
static bool end_wanted(int id)
{
	struct ringpipe_wanted *wanted = &ringpipe_shared->wanted[place_of(id)];
	bool found;

	LWLockAcquire(ringpipe_shared->lock, LW_EXCLUSIVE);
	found = wanted->id == id && wanted->is_running;
	if (found) {
		wanted->is_running = false;
		pg_atomic_fetch_add_u64(&ringpipe_shared->generation, 1);
	}
	LWLockRelease(ringpipe_shared->lock);
	if (found)
		wake_idle();
	return found;
}

PGDLLEXPORT PG_FUNCTION_INFO_V1(ringpipe_start);
Datum ringpipe_start(PG_FUNCTION_ARGS)
{
	struct ringpipe_wanted *wanted;
	const char *providers = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *folder = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int buffer_mb = PG_GETARG_INT32(2), id, tries = 0, place;
	bool is_full;

	require_memory();
	if (!has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("ringpipe_start() requires the role "
				       "pg_write_server_files")));
	check_start(providers, folder, buffer_mb);
	LWLockAcquire(ringpipe_shared->lock, LW_EXCLUSIVE);
	do {
		id = ++ringpipe_shared->next_id;
		place = place_of(id);
		wanted = &ringpipe_shared->wanted[place];
		is_full = wanted->is_running;
	} while (is_full && ++tries < RINGPIPE_SESSIONS_MAX);
	if (!is_full) {
		*wanted = (struct ringpipe_wanted){ id, true, PG_GETARG_BOOL(3), buffer_mb };
		strlcpy(wanted->providers, providers, sizeof(wanted->providers));
		strlcpy(wanted->folder, folder, sizeof(wanted->folder));
		pg_atomic_fetch_add_u64(&ringpipe_shared->generation, 1);
	}
	LWLockRelease(ringpipe_shared->lock);
	if (is_full)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				errmsg("%d sessions are running", RINGPIPE_SESSIONS_MAX),
				errhint("Stop one by ringpipe_stop().")));
	ringpipe_sessions_poll();
	/* Another process may have stopped the session already. */
	if (own[place].id != id || own[place].session)
		PG_RETURN_INT32(id);
	(void)end_wanted(id);
	errno = -own[place].error;
	ereport(ERROR, (errcode_for_file_access(),
			errmsg("cannot start a session in \"%s\": %m", folder)));
}

PGDLLEXPORT PG_FUNCTION_INFO_V1(ringpipe_stop);
Datum ringpipe_stop(PG_FUNCTION_ARGS)
{
	bool found;

	require_memory();
	found = end_wanted(PG_GETARG_INT32(0));
	ringpipe_sessions_poll();
	PG_RETURN_BOOL(found);
}

PGDLLEXPORT PG_FUNCTION_INFO_V1(ringpipe_sessions);
Datum ringpipe_sessions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
	bool nulls[8] = { false };

	require_memory();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < RINGPIPE_SESSIONS_MAX; i++) {
		const struct ringpipe_wanted wanted = copy_of_wanted(i);
		Datum values[] = {
			Int32GetDatum(wanted.id), CStringGetTextDatum(wanted.providers),
			CStringGetTextDatum(wanted.folder), BoolGetDatum(wanted.is_running),
			Int32GetDatum(wanted.processes), Int32GetDatum(wanted.failed),
			Int64GetDatum((int64)wanted.delivered), Int64GetDatum((int64)wanted.lost),
		};

		if (wanted.id)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum)0;
}

PGDLLEXPORT PG_FUNCTION_INFO_V1(ringpipe_counters);
Datum ringpipe_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
	bool nulls[2] = { false };

	require_memory();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < RINGPIPE_COUNTERS; i++) {
		Datum values[] = { CStringGetTextDatum(ringpipe_counter_names[i]),
				   Int64GetDatum((int64)ringpipe_counter_sum(i)) };

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum)0;
}
