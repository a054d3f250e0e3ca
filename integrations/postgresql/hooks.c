/* SPDX-License-Identifier: MIT */
/* Loads the extension: its settings, its shared memory, its counters and the other hooks. */
#include "hooks.h"

#include <access/twophase.h>
#include <access/xact.h>
#include <fmgr.h>
#include <miscadmin.h>
#include <storage/ipc.h>
#include <storage/shmem.h>
#include <utils/guc.h>

#include <ringpipe/activity.h>

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

struct ringpipe_shared *ringpipe_shared;
bool ringpipe_sql_text;
char *ringpipe_traceparent;
int ringpipe_sample_interval_ms;

const char *const ringpipe_counter_names[RINGPIPE_COUNTERS] = {
	"statements", "plans", "commits", "aborts", "logged_errors", "samples",
};

static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

static uint32 cell_count(void)
{
	return (uint32)(MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts);
}

static Size shared_size(void)
{
	return add_size(offsetof(struct ringpipe_shared, cells) + PG_CACHE_LINE_SIZE,
			mul_size(cell_count(), sizeof(union ringpipe_cell)));
}

static void request_memory(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("ringpipe", 1);
}

/* Runs at the start of the server, and after the crash of a process, which empties the memory. */
static void start_memory(void)
{
	bool found;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ringpipe_shared = ShmemInitStruct("ringpipe", shared_size(), &found);
	if (!found) {
		memset(ringpipe_shared, 0, shared_size());
		ringpipe_shared->lock = &GetNamedLWLockTranche("ringpipe")->lock;
		pg_atomic_init_u64(&ringpipe_shared->generation, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

uint64 ringpipe_counter_sum(enum ringpipe_counter counter)
{
	uint64 sum = 0;

	for (uint32 i = 0; i < cell_count(); i++)
		sum += *(volatile uint64 *)&ringpipe_shared->cells[i].values[counter];
	return sum;
}

static void on_transaction(XactEvent event, void *data)
{
	if (event == XACT_EVENT_PRE_COMMIT && ringpipe_had_session)
		ringpipe_sessions_poll();
	else if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_PARALLEL_COMMIT)
		ringpipe_count(RINGPIPE_COMMITS);
	else if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		ringpipe_count(RINGPIPE_ABORTS);
}

static bool check_traceparent(char **text, void **extra, GucSource source)
{
	struct rp_activity activity;
	uint8_t flags;

	if (!**text || rp_traceparent_parse(*text, strlen(*text), &activity, &flags) == 0)
		return true;
	GUC_check_errdetail("A traceparent has the form VERSION-TRACE-SPAN-FLAGS of the W3C.");
	return false;
}

static void define_settings(void)
{
	DefineCustomBoolVariable("ringpipe.sql_text",
		"Writes the text of statements and of log lines into events.",
		"If it is off, statements are ***, and log lines are formats.",
		&ringpipe_sql_text, false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("ringpipe.traceparent",
		"The trace to which the following statements belong.",
		"A comment traceparent='...' in a statement has precedence.",
		&ringpipe_traceparent, "", PGC_USERSET, 0, check_traceparent, NULL, NULL);
	DefineCustomIntVariable("ringpipe.sample_interval",
		"The time between samples of waits, locks and vacuums.",
		"0: there is no process that samples.", &ringpipe_sample_interval_ms, 100, 0,
		60000, PGC_POSTMASTER, GUC_UNIT_MS, NULL, NULL, NULL);
	MarkGUCPrefixReserved("ringpipe");
}

void _PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings();
	previous_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	RegisterXactCallback(on_transaction, NULL);
	ringpipe_query_init();
	ringpipe_log_init();
	ringpipe_sampler_init();
}
