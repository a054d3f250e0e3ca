/* SPDX-License-Identifier: MIT */
/* Loads the extension: its settings, its shared memory, its counters and the other hooks. */
#include "hooks.h"

#include <pthread.h>

#include <access/twophase.h>
#include <fmgr.h>
#include <miscadmin.h>
#include <storage/ipc.h>
#include <storage/shmem.h>
#include <utils/guc.h>

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

struct ringpipe_shared *ringpipe_shared;
bool ringpipe_sql_text;
const struct rp_activity *ringpipe_trace;
int ringpipe_sample_interval_ms;

const char *const ringpipe_counter_names[RINGPIPE_COUNTERS] = {
	"statements", "plans", "logged_errors", "samples",
};

static char *traceparent;
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

/* PostgreSQL frees `extra` after the value. */
static bool check_traceparent(char **text, void **extra, GucSource source)
{
	struct rp_activity activity;
	uint8_t flags;

	if (!**text)
		return true;
	if (rp_traceparent_parse(*text, strlen(*text), &activity, &flags) != 0) {
		GUC_check_errdetail("A traceparent has the form "
				    "VERSION-TRACE-SPAN-FLAGS of the W3C.");
		return false;
	}
	*extra = malloc(sizeof(activity));
	if (!*extra)
		return false;
	memcpy(*extra, &activity, sizeof(activity));
	return true;
}

static void assign_traceparent(const char *text, void *extra)
{
	ringpipe_trace = extra;
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
		&traceparent, "", PGC_USERSET, 0, check_traceparent, assign_traceparent, NULL);
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
	/*
	 * With two threads, glibc puts two atomic operations around system calls that may wait, but
	 * not with this type, which has no effect while disabled. Child processes inherit both.
	 */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	(void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	define_settings();
	previous_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	ringpipe_query_init();
	ringpipe_log_init();
	ringpipe_sampler_init();
}
