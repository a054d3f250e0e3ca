/* SPDX-License-Identifier: MIT */
/*
 * The kernel keeps a list of addresses and bits for each process. The list belongs to the thread
 * that registered and to the threads that it created since. Other threads cannot remove an address,
 * and a child inherits the list only if the forking thread has it. So each session has a thread
 * that only registers and unregisters. Other threads send it requests under the exporters' lock,
 * and wait. The session's thread takes that lock itself only when no request can come any more.
 *
 * ORDERING of a session's end: a Dekker pair. Either the writer finds no session, or the session's
 * thread finds the writer's claim and waits until the writer releases it.
 *
 *	writer					finish, then the session's thread
 *	------					---------------------------------
 *	claims |= one		[USER-CLAIM]	slot->session = NULL	[USER-SESSION]
 *	load slot->session	[USER-SESSION]	load claims		[USER-CLAIM]
 */
#include "export/user_events.h"

#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <urcu/list.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "core/exporter_set.h"
#include "export/tracepoints.h"
#include "export/user_event.h"
#include "export/user_words.h"

#define CLAIMS 32u
#define SCRATCH_BYTES ((size_t)CLAIMS * RP_USER_EVENT_SCRATCH_BYTES)
#define WRITERS_NS 2000000000u	/* maximum wait for writers of an event */
#define LOOK_MS 100		/* polling interval: the kernel changes bits without notice */

/* An enable word. */
struct site {
	struct cds_list_head node;	/* in slot->sites */
	struct rp_export *export;
	struct rp_user_event *record;	/* of the session; NULL: the event is not in the session */
};

struct trace_request {
	enum { BEGIN, ADD, REMOVE, END } what;
	struct rp_export *const *exports;	/* to add or to remove */
	size_t count;
	int result;
};

struct rp_user_events {
	pthread_mutex_t lock;		/* guards the next two members */
	struct trace_request *request;
	bool ending;
	pthread_cond_t changed;
	pthread_t thread;

	struct slot *slot;
	bool finished;			/* guarded by the exporters' lock */
	bool typed;			/* all events, each with its own tracepoint */
	struct rp_tracepoint_table table;
	int fd;
	struct rp_file_id file;
	uint8_t *scratch;		/* CLAIMS pieces */
	uint64_t delivered, bytes, too_big, failed;
	void (*on_end)(void *data);
	void *data;
};

/* One of the exporters, by its bit. */
struct slot {
	struct rp_exporter *exporter;
	struct cds_list_head sites;
	struct rp_user_events *owner;	/* from open to the end; guarded by the exporters' lock */
	struct rp_user_events *session;	/* the session that writers use */
	uint64_t busy;			/* events lost because all scratch was claimed */
	uint32_t claims;		/* one bit for each piece of scratch in use */
	uint32_t left;			/* claims of writers that never finish */
};

static struct slot slots[RP_EXPORTERS_MAX];

static struct slot *slot_of(const struct rp_export *export)
{
	return &slots[__builtin_ctzll(export->bit) - RP_EXPORTER_BIT];
}

/* The functions below run on the session's thread. */

/* An event that cannot be registered is silently left out: no caller could report the error. */
static void register_site(struct rp_user_events *session, struct site *site)
{
	struct rp_export *export = site->export;
	const struct rp_tracepoint *tracepoint = NULL;
	struct rp_user_event *record;

	if (!session->typed)
		tracepoint = rp_tracepoint_of(&session->table, export->def);
	if ((!session->typed && !tracepoint) ||
	    rp_user_event_make(export->def, session->typed, &record) < 0)
		return;
	rp_store_relaxed(&export->lost, 0);	/* losses of an earlier session */
	/* A writer that sees the bit before the record writes nothing. */
	if (rp_user_word_register(session->fd,
				  tracepoint ? tracepoint->command : record->fields.command,
				  &export->event->enable, export->bit, &record->write_index) == 0)
		rp_store_release(&site->record, record);
	else
		rp_user_event_free(record);
}

/* If the host has reused the number, the end of this thread unregisters the word. */
static void unregister_site(const struct rp_user_events *session, const struct site *site)
{
	if (site->record && rp_file_is(session->fd, &session->file))
		rp_user_word_unregister(session->fd, &site->export->event->enable,
					site->export->bit);
}

static int begin(struct rp_user_events *session)
{
	struct rp_tracepoint_table *table = &session->table;
	struct site *site;

	for (size_t i = 0; i < table->tracepoint_count; i++) {
		uint32_t write_index;
		int r = rp_user_word_register(session->fd, table->tracepoints[i].command,
					      &table->tracepoints[i].enable, 1, &write_index);

		if (r < 0)
			return r;
	}
	cds_list_for_each_entry(site, &session->slot->sites, node)
		register_site(session, site);
	return 0;
}

static void end(struct rp_user_events *session)
{
	struct site *site;

	cds_list_for_each_entry(site, &session->slot->sites, node)
		unregister_site(session, site);
	if (!rp_file_is(session->fd, &session->file))
		return;
	for (size_t i = 0; i < session->table.tracepoint_count; i++)
		rp_user_word_unregister(session->fd, &session->table.tracepoints[i].enable, 1);
}

/* The requester holds the exporters' lock, so the list of sites does not change. */
static void serve(struct rp_user_events *session, struct trace_request *request)
{
	if (request->what == BEGIN)
		request->result = begin(session);
	else if (request->what == END)
		end(session);
	for (size_t i = 0; i < request->count; i++) {
		struct site *site = request->exports[i]->data;

		if (site && request->what == ADD)
			register_site(session, site);
		else if (site)
			unregister_site(session, site);
	}
}

/*
 * Wait for writers that were writing an event when the session was removed from its slot. A writer
 * that left a signal handler by longjmp(3) never finishes: its piece of scratch stays claimed.
 */
static void wait_for_writers(struct slot *slot)
{
	uint64_t limit = rp_clock_monotonic_ns() + WRITERS_NS;

	while (rp_load_seq_cst(&slot->claims) & ~slot->left) {	/* [USER-CLAIM] */
		if (rp_clock_monotonic_ns() > limit) {
			slot->left |= rp_load_seq_cst(&slot->claims);
			break;
		}
		poll(NULL, 0, 1);
	}
}

/* Empty the slot, which another session may then take. */
static void leave_slot(struct rp_user_events *session)
{
	struct slot *slot = session->slot;
	struct site *site;

	wait_for_writers(slot);
	rp_exporters_lock();
	cds_list_for_each_entry(site, &slot->sites, node) {
		if (site->record)
			rp_export_switch(site->export, false);
		rp_user_event_free(site->record);
		site->record = NULL;
	}
	if (rp_file_is(session->fd, &session->file))
		close(session->fd);
	session->fd = -1;
	slot->owner = NULL;
	rp_exporters_unlock();
}

/* The caller holds the session's lock. On a timeout, announce bits that the kernel has changed. */
static void wait_or_look(struct rp_user_events *session)
{
	struct timespec limit;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_nsec += LOOK_MS * 1000000;
	limit.tv_sec += limit.tv_nsec / 1000000000;
	limit.tv_nsec %= 1000000000;
	if (pthread_cond_timedwait(&session->changed, &session->lock, &limit) == ETIMEDOUT) {
		pthread_mutex_unlock(&session->lock);
		rp_exporters_announce();
		pthread_mutex_lock(&session->lock);
	}
}

static void *run(void *data)
{
	struct rp_user_events *session = data;

	pthread_mutex_lock(&session->lock);
	while (session->request || !session->ending) {
		if (session->request) {
			serve(session, session->request);
			session->request = NULL;
			pthread_cond_broadcast(&session->changed);
		} else {
			wait_or_look(session);
		}
	}
	pthread_mutex_unlock(&session->lock);
	leave_slot(session);
	rp_exporters_announce();
	if (session->on_end)
		session->on_end(session->data);
	return NULL;
}

/* Send a request to the session's thread and wait. The caller holds the exporters' lock. */
static int ask(struct rp_user_events *session, struct trace_request request)
{
	pthread_mutex_lock(&session->lock);
	session->request = &request;
	pthread_cond_broadcast(&session->changed);
	while (session->request)
		pthread_cond_wait(&session->changed, &session->lock);
	pthread_mutex_unlock(&session->lock);
	return request.result;
}

/* The operations of the exporter (core/exporters.h). */

static void add(struct rp_export *const *exports, size_t count)
{
	struct slot *slot = slot_of(exports[0]);

	if (!slot->sites.next)
		CDS_INIT_LIST_HEAD(&slot->sites);
	for (size_t i = 0; i < count; i++) {
		struct site *site = calloc(1, sizeof(*site));

		if (!site)
			continue;
		site->export = exports[i];
		cds_list_add_tail(&site->node, &slot->sites);
		exports[i]->data = site;
	}
	if (slot->session)
		ask(slot->session, (struct trace_request){ ADD, exports, count, 0 });
}

static void take_away(struct rp_export *const *exports, size_t count)
{
	struct slot *slot = slot_of(exports[0]);

	if (slot->session)
		ask(slot->session, (struct trace_request){ REMOVE, exports, count, 0 });
	for (size_t i = 0; i < count; i++) {
		struct site *site = exports[i]->data;

		if (!site)
			continue;
		cds_list_del(&site->node);
		rp_user_event_free(site->record);
		free(site);
	}
}

/* Claim a piece of scratch. Return: -1 if all are in use. */
static int claim(struct slot *slot)
{
	uint32_t claims = rp_load_relaxed(&slot->claims);
	int piece;

	do {
		if (claims == UINT32_MAX)
			return -1;
		piece = __builtin_ctz(~claims);
	} while (!rp_cas_seq_cst(&slot->claims, &claims, claims | 1u << piece)); /* [USER-CLAIM] */
	return piece;
}

/* Return: false if the event is lost. */
static bool write_record(struct rp_user_events *session, const struct rp_user_event *record,
			 const struct rp_part *parts, unsigned int part_count,
			 uint64_t payload_bytes, int piece)
{
	uint8_t *scratch = session->scratch + (size_t)piece * RP_USER_EVENT_SCRATCH_BYTES;
	int r = -EIO;

	/* The host may have reused the descriptor for another file. */
	if (rp_file_is(session->fd, &session->file))
		r = rp_user_event_write(record, session->fd, parts, part_count, payload_bytes,
					scratch);
	if (r == 0) {
		rp_add_relaxed(&session->delivered, 1);
		rp_add_relaxed(&session->bytes, payload_bytes);
	} else if (r == -EMSGSIZE) {
		rp_add_relaxed(&session->too_big, 1);
	} else if (r != -EBADF) {
		rp_add_relaxed(&session->failed, 1);
	}
	/* -EBADF: the tracepoint has no reader any more, so the event is not lost. */
	return r == 0 || r == -EBADF;
}

static void write_event(struct rp_export *export, const struct rp_part *parts,
			unsigned int part_count, uint64_t payload_bytes)
{
	const struct site *site = export->data;
	struct slot *slot = slot_of(export);
	struct rp_user_events *session;
	struct rp_user_event *record;
	int saved = errno, piece = site ? claim(slot) : -1;

	if (piece < 0) {
		rp_add_relaxed(&slot->busy, site != NULL);
		rp_add_relaxed(&export->lost, site != NULL);
		return;
	}
	session = rp_load_seq_cst(&slot->session);	/* [USER-SESSION] */
	record = session ? rp_load_acquire(&site->record) : NULL;
	if (record && !write_record(session, record, parts, part_count, payload_bytes, piece))
		rp_add_relaxed(&export->lost, 1);
	rp_and_seq_cst(&slot->claims, ~(1u << piece));
	errno = saved;
}

static int start_thread(struct rp_user_events *session);

/*
 * A child begins without the sessions that its parent's clients requested. If the forking thread
 * had the kernel's list, the child has a copy of it, and this thread must remove its addresses. A
 * session of all events continues in the child, which registers the events again.
 */
static void forget_in_child(struct slot *slot)
{
	struct rp_user_events *session = slot->owner;
	bool ours = rp_file_is(session->fd, &session->file);
	struct site *site;

	end(session);
	cds_list_for_each_entry(site, &slot->sites, node) {
		rp_export_switch(site->export, false);
		rp_user_event_free(site->record);
		site->record = NULL;
	}
	slot->claims = slot->left = 0;
	if (slot->session && session->typed && ours && start_thread(session) == 0) {
		ask(session, (struct trace_request){ .what = BEGIN });
		return;
	}
	if (ours)
		close(session->fd);
	slot->owner = slot->session = NULL;
}

/* The core calls both handlers once per exporter; the first call handles all slots. */
static bool is_child;

static void fork_prepare(void)
{
	is_child = false;
}

static void fork_child(void)
{
	if (is_child)
		return;
	is_child = true;
	for (struct slot *slot = slots; slot < slots + RP_EXPORTERS_MAX; slot++) {
		if (slot->owner)
			forget_in_child(slot);
	}
}

static const struct rp_exporter_ops ops = {
	.size = sizeof(ops),
	.flags = RP_EXPORTER_KERNEL,
	.name = "user_events",
	.write = write_event,
	.add = add,
	.remove = take_away,
	.fork_prepare = fork_prepare,
	.fork_child = fork_child,
};

/* Take the slot of an earlier session, or make one. Return: NULL if all slots are in use. */
static struct slot *take_slot(struct rp_user_events *session)
{
	static unsigned int made;
	struct rp_exporter *exporter;
	struct slot *found = NULL;

	rp_exporters_lock();
	for (struct slot *slot = slots; slot < slots + RP_EXPORTERS_MAX && !found; slot++) {
		if (slot->exporter && !slot->owner)
			found = slot;
	}
	if (found)
		found->owner = session;
	rp_exporters_unlock();
	if (found)
		return found;
	if (rp_add_seq_cst(&made, 1) >= RP_USER_EVENTS_MAX ||
	    rp_exporter_register(&ops, &exporter) < 0) {
		rp_add_seq_cst(&made, -1);
		return NULL;
	}
	rp_exporters_lock();
	found = &slots[exporter->slot];
	if (!found->sites.next)
		CDS_INIT_LIST_HEAD(&found->sites);
	found->exporter = exporter;
	found->owner = session;
	rp_exporters_unlock();
	return found;
}

static int start_thread(struct rp_user_events *session)
{
	pthread_condattr_t clock;

	session->request = NULL;
	pthread_mutex_init(&session->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&session->changed, &clock);
	pthread_condattr_destroy(&clock);
	return rp_thread_create(&session->thread, "ringpipe-user", run, session);
}

static void free_session(struct rp_user_events *session)
{
	rp_tracepoint_table_fini(&session->table);
	if (session->scratch)
		munmap(session->scratch, SCRATCH_BYTES);
	free(session);
}

/* Prepare everything except the thread. */
static int prepare(struct rp_user_events *session, const struct rp_user_events_setup *setup)
{
	struct statfs file_system;
	int r;

	if (fstatfs(session->fd, &file_system) < 0 || file_system.f_type != TRACEFS_MAGIC)
		return -EOPNOTSUPP;
	session->typed = !setup->providers;
	r = session->typed ? 0 : rp_tracepoint_table_make(&session->table, setup);
	if (r < 0)
		return r;
	session->scratch = mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (session->scratch == MAP_FAILED) {
		session->scratch = NULL;
		return -ENOMEM;
	}
	session->slot = take_slot(session);
	return session->slot ? 0 : -EBUSY;
}

void rp_user_events_finish(struct rp_user_events *session)
{
	rp_exporters_lock();
	if (!session->finished) {
		session->finished = true;
		ask(session, (struct trace_request){ .what = END });
		rp_store_seq_cst(&session->slot->session, NULL);	/* [USER-SESSION] */
		pthread_mutex_lock(&session->lock);
		session->ending = true;
		pthread_cond_broadcast(&session->changed);
		pthread_mutex_unlock(&session->lock);
	}
	rp_exporters_unlock();
}

static int start(struct rp_user_events *session)
{
	struct slot *slot = session->slot;
	int r = start_thread(session);

	rp_exporters_lock();
	if (r < 0) {
		slot->owner = NULL;
		rp_exporters_unlock();
		return r;
	}
	slot->busy = 0;
	rp_store_release(&slot->session, session);
	r = ask(session, (struct trace_request){ .what = BEGIN });
	rp_exporters_unlock();
	if (r == 0) {
		rp_exporters_announce();
	} else {
		session->on_end = NULL;
		rp_user_events_finish(session);
		pthread_join(session->thread, NULL);
	}
	return r;
}

int rp_user_events_open(const struct rp_user_events_setup *setup,
			struct rp_user_events **ret_session)
{
	struct rp_user_events *session = calloc(1, sizeof(*session));
	int r;

	if (!session) {
		close(setup->fd);
		return -ENOMEM;
	}
	session->fd = setup->fd;
	session->on_end = setup->on_end;
	session->data = setup->data;
	(void)rp_file_identify(session->fd, &session->file);
	r = prepare(session, setup);
	if (r == 0)
		r = start(session);
	if (r < 0) {
		if (session->fd >= 0)
			close(session->fd);
		free_session(session);
		return r;
	}
	*ret_session = session;
	return 0;
}

int rp_user_events_open_all(void)
{
	struct rp_user_events_setup setup = { .fd = rp_user_words_open() };
	struct rp_user_events *session;

	return setup.fd < 0 ? setup.fd : rp_user_events_open(&setup, &session);
}

void rp_user_events_close(struct rp_user_events *session)
{
	rp_user_events_finish(session);
	pthread_join(session->thread, NULL);
	free_session(session);
}

void rp_user_events_stats(struct rp_user_events *session, struct rp_session_stats *ret_stats)
{
	*ret_stats = (struct rp_session_stats){
		.size = sizeof(*ret_stats),
		.delivered = rp_load_relaxed(&session->delivered),
		.bytes = rp_load_relaxed(&session->bytes),
	};
	ret_stats->lost_by[RP_LOSS_TOO_BIG] = rp_load_relaxed(&session->too_big);
	ret_stats->lost_by[RP_LOSS_BUSY] = rp_load_relaxed(&session->slot->busy);
	ret_stats->lost_by[RP_LOSS_SINK] = rp_load_relaxed(&session->failed);
	for (unsigned int i = 0; i < RP_LOSS_REASON_COUNT; i++)
		ret_stats->lost += ret_stats->lost_by[i];
}
