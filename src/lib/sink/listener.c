/* SPDX-License-Identifier: MIT */
/*
 * Listeners: the drain thread fills chunks, and the reader (the listener's thread or the caller of
 * rp_listener_next()) empties them.
 *
 * At most CHUNKS chunks are full or being filled. If no chunk is free, the sink is full: events
 * stay in their rings, and those that do not fit there are lost and counted. An event counts as
 * delivered once the reader has taken it. A chunk pins the definitions of its events until it is
 * empty.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/field.h>
#include <ringpipe/listener.h>

#include "base/atomic.h"
#include "base/failure.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/drain_wake.h"
#include "core/event_batch.h"
#include "core/session_setup.h"
#include "nettrace/field_walk.h"

#define CHUNK_BYTES (256u << 10)
#define CHUNKS 4u

/* One event in a chunk; frames and payload follow. */
struct listener_entry {
	const struct rp_event_def *def;
	uint64_t time_ns;
	uint32_t thread, processor;
	uint32_t frame_count, payload_bytes;
	uint32_t step;
	uint32_t pins;			/* 1: the chunk's first event of this definition */
	struct rp_guid activity, related_activity;
};

struct chunk {
	uint32_t used, read;
	uint8_t bytes[CHUNK_BYTES] __attribute__((aligned(8)));
};

struct rp_listener {
	struct rp_sink sink;
	struct rp_session *session;
	rp_listener_callback callback;
	void *data;
	pthread_t thread;		/* thread of a push listener */
	pid_t process;
	bool joined;
	struct rp_listener *waits_for;	/* its callback ends that listener; under `waits` */

	/* Only the drain thread uses these. */
	struct chunk *filling;
	uint64_t filled;		/* number of chunks begun */
	struct pinned {
		uint64_t serial;
		uint64_t chunk;		/* `filled` when last pinned */
	} *pinned;			/* by index of the definition */
	size_t pinned_count;
	uint64_t given;			/* application events put into chunks */

	pthread_mutex_t lock;
	pthread_cond_t ready;
	struct chunk *queue[CHUNKS];	/* full chunks, oldest first; queue[0] is being read */
	unsigned int queued;
	struct chunk *spare[CHUNKS];
	unsigned int spares;
	uint64_t consumed;		/* application events taken by the reader */
	bool closed;			/* nothing more will be queued */
	bool discard;			/* the reader stops */

	struct chunk chunks[CHUNKS];
};

static pthread_mutex_t waits = PTHREAD_MUTEX_INITIALIZER;
static __thread struct rp_listener *own;	/* the listener whose callback this thread runs */

static struct rp_listener *of(struct rp_sink *sink)
{
	return (struct rp_listener *)((char *)sink - offsetof(struct rp_listener, sink));
}

/* Pin a definition for the chunk being filled. `*ret_pins`: 1 if the chunk did not pin it yet. */
static int pin(struct rp_listener *listener, const struct rp_event_def *def, uint32_t *ret_pins)
{
	struct pinned *pinned;

	if (def->index >= listener->pinned_count) {
		size_t count = def->index + 64u;

		pinned = realloc(listener->pinned, count * sizeof(*pinned));
		if (!pinned)
			return -ENOMEM;
		memset(pinned + listener->pinned_count, 0,
		       (count - listener->pinned_count) * sizeof(*pinned));
		listener->pinned = pinned;
		listener->pinned_count = count;
	}
	pinned = &listener->pinned[def->index];
	*ret_pins = pinned->serial != def->serial || pinned->chunk != listener->filled;
	if (*ret_pins)
		rp_def_pin(def);
	*pinned = (struct pinned){ def->serial, listener->filled };
	return 0;
}

/* Unpin the definitions of a chunk's events. */
static void empty_chunk(struct chunk *chunk)
{
	const struct listener_entry *entry;

	for (uint32_t at = 0; at < chunk->used; at += entry->step) {
		entry = (const struct listener_entry *)(chunk->bytes + at);
		if (entry->pins)
			rp_def_unpin(entry->def);
	}
	chunk->used = 0;
	chunk->read = 0;
}

/* Queue the chunk being filled, and begin a spare chunk. Return: 0; -EAGAIN: no spare chunk. */
static int next_chunk(struct rp_listener *listener)
{
	int ret = 0;

	pthread_mutex_lock(&listener->lock);
	if (listener->filling && listener->filling->used) {
		listener->queue[listener->queued++] = listener->filling;
		listener->filling = NULL;
		pthread_cond_signal(&listener->ready);
	}
	if (!listener->filling && listener->spares) {
		listener->filling = listener->spare[--listener->spares];
		listener->filled++;
	}
	if (!listener->filling)
		ret = -EAGAIN;
	pthread_mutex_unlock(&listener->lock);
	return ret;
}

static void note_progress(struct rp_listener *listener)
{
	uint64_t consumed = rp_load_acquire(&listener->consumed);

	listener->sink.delivered = consumed;
	listener->sink.pending = listener->given - consumed;
}

static int listener_event(struct rp_sink *sink, const struct rp_record_view *view)
{
	struct rp_listener *listener = of(sink);
	const struct rp_event_def *def = view->def;
	uint32_t frames_bytes = view->frame_count * 8u;
	uint32_t step = (uint32_t)(sizeof(struct listener_entry) + frames_bytes +
				   view->payload_bytes + 7) & ~7u;
	struct listener_entry *entry;
	uint32_t pins;
	int ret = 0;

	if (!listener->filling || listener->filling->used + step > CHUNK_BYTES)
		ret = next_chunk(listener);
	if (ret == 0)
		ret = pin(listener, def, &pins);
	if (ret != 0)
		return ret;
	entry = (struct listener_entry *)(listener->filling->bytes + listener->filling->used);
	*entry = (struct listener_entry){
		.def = def,
		.time_ns = view->time_ns,
		.thread = view->thread,
		.processor = view->processor,
		.frame_count = view->frame_count,
		.payload_bytes = view->payload_bytes,
		.step = step,
		.pins = pins,
	};
	if (view->activity)
		memcpy(&entry->activity, view->activity, sizeof(entry->activity));
	if (view->related_activity)
		memcpy(&entry->related_activity, view->related_activity, sizeof(entry->activity));
	memcpy(entry + 1, view->frames ? view->frames : "", frames_bytes);
	memcpy((char *)(entry + 1) + frames_bytes, view->payload ? view->payload : "",
	       view->payload_bytes);
	listener->filling->used += step;
	if (def->index >= RP_DEF_OWN_COUNT)
		listener->given++;
	return 0;
}

static int listener_batch(struct rp_sink *sink, struct rp_event_batch *batch)
{
	return rp_event_batch_deliver(batch, sink, listener_event, NULL, NULL);
}

static int listener_sequence_point(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	(void)sink, (void)time_ns, (void)lost;
	return 0;
}

static int listener_flush(struct rp_sink *sink)
{
	struct rp_listener *listener = of(sink);

	note_progress(listener);
	if (listener->filling && !listener->filling->used)
		return 0;
	/* Ignore a missing spare chunk here: the next event reports it. */
	(void)next_chunk(listener);
	return 0;
}

/* Return: 0 once the reader has taken everything; -EAGAIN before. */
static int listener_finish(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	struct rp_listener *listener = of(sink);
	bool empty;

	(void)time_ns, (void)lost;
	(void)listener_flush(sink);
	pthread_mutex_lock(&listener->lock);
	empty = !listener->queued && !(listener->filling && listener->filling->used);
	pthread_mutex_unlock(&listener->lock);
	note_progress(listener);
	return empty ? 0 : -EAGAIN;
}

static void listener_abandon(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	struct rp_listener *listener = of(sink);

	(void)time_ns, (void)lost;
	pthread_mutex_lock(&listener->lock);
	listener->discard = true;
	pthread_mutex_unlock(&listener->lock);
	note_progress(listener);
}

/* rp_listener_stop() frees the listener after this call. */
static void listener_destroy(struct rp_sink *sink)
{
	struct rp_listener *listener = of(sink);

	pthread_mutex_lock(&listener->lock);
	listener->closed = true;
	pthread_cond_broadcast(&listener->ready);
	pthread_mutex_unlock(&listener->lock);
}

static const struct rp_sink_ops listener_ops = {
	.batch = listener_batch,
	.event = listener_event,
	.sequence_point = listener_sequence_point,
	.flush = listener_flush,
	.finish = listener_finish,
	.abandon = listener_abandon,
	.destroy = listener_destroy,
};

/* If the first chunk was read to its end, make it a spare. Unlocks the held lock meanwhile. */
static void recycle(struct rp_listener *listener)
{
	struct chunk *chunk = listener->queue[0];

	if (!listener->queued || chunk->read < chunk->used)
		return;
	pthread_mutex_unlock(&listener->lock);
	empty_chunk(chunk);
	pthread_mutex_lock(&listener->lock);
	memmove(listener->queue, listener->queue + 1, --listener->queued * sizeof(chunk));
	listener->spare[listener->spares++] = chunk;
}

/* Wait until `until`, or without a limit if NULL, for an entry. The caller holds the lock. */
static bool wait_ready(struct rp_listener *listener, const struct timespec *until)
{
	int ret = 0;

	recycle(listener);
	while (ret == 0 && !listener->queued && !listener->closed && !listener->discard)
		ret = until ? pthread_cond_timedwait(&listener->ready, &listener->lock, until) :
		      pthread_cond_wait(&listener->ready, &listener->lock);
	return listener->queued && !listener->discard;
}

/* Fill the struct up to ret_event->size. */
static void fill_event(const struct listener_entry *entry, struct rp_listener_event *ret_event)
{
	const struct rp_event_def *def = entry->def;
	const struct rp_listener_event event = {
		.size = sizeof(event),
		.id = def->id,
		.provider = def->provider,
		.name = def->name,
		.fields = def->fields,
		.field_count = def->field_count,
		.version = def->version,
		.level = def->level,
		.opcode = def->opcode,
		.processor = (uint16_t)entry->processor,
		.keywords = def->keywords,
		.time_ns = entry->time_ns,
		.thread = entry->thread,
		.frame_count = entry->frame_count,
		.frames = (const uint64_t *)(entry + 1),
		.activity = entry->activity,
		.related_activity = entry->related_activity,
		.payload = (const uint8_t *)(entry + 1) + entry->frame_count * 8u,
		.payload_bytes = entry->payload_bytes,
	};

	rp_sized_write(ret_event, &event, sizeof(event));
}

static int take(struct rp_listener *listener, struct rp_listener_event *ret_event,
		const struct timespec *until)
{
	const struct listener_entry *entry;
	struct chunk *chunk;
	int ret;

	pthread_mutex_lock(&listener->lock);
	if (!wait_ready(listener, until)) {
		ret = listener->closed || listener->discard ? -EPIPE : 0;
		pthread_mutex_unlock(&listener->lock);
		return ret;
	}
	chunk = listener->queue[0];
	entry = (const struct listener_entry *)(chunk->bytes + chunk->read);
	chunk->read += entry->step;
	if (entry->def->index >= RP_DEF_OWN_COUNT)
		rp_store_release(&listener->consumed, listener->consumed + 1);
	pthread_mutex_unlock(&listener->lock);
	fill_event(entry, ret_event);
	return 1;
}

RP_PUBLIC int rp_listener_next(struct rp_listener *listener, struct rp_listener_event *ret_event,
			       int timeout_ms)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct timespec until;

	if (listener->callback || !ret_event ||
	    !rp_sized_fits(ret_event, RP_LISTENER_EVENT_SIZE_V1))
		return -EINVAL;
	if (timeout_ms < 0)
		return take(listener, ret_event, NULL);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return take(listener, ret_event, &until);
}

static void *push_run(void *data)
{
	struct rp_listener *listener = data;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	own = listener;
	rp_session_begin_listening();
	while (take(listener, &event, NULL) == 1)
		listener->callback(&event, listener->data);
	return NULL;
}

/* Unpin only now: a callback could read a definition's name until its thread was joined. */
static void free_listener(struct rp_listener *listener)
{
	for (unsigned int i = 0; i < CHUNKS; i++)
		empty_chunk(&listener->chunks[i]);
	if (own == listener)
		own = NULL;
	/*
	 * In a forked child, destroying the copies would wait for waiters that do not exist there.
	 */
	if (listener->process == getpid()) {
		pthread_mutex_destroy(&listener->lock);
		pthread_cond_destroy(&listener->ready);
	}
	free(listener->pinned);
	free(listener);
}

static struct rp_listener *make_listener(rp_listener_callback callback, void *data)
{
	struct rp_listener *listener = calloc(1, sizeof(*listener));
	pthread_condattr_t attr;

	if (!listener)
		return NULL;
	listener->sink.ops = &listener_ops;
	listener->sink.fd = -1;
	listener->sink.no_deadline = true;
	listener->sink.pushes = callback != NULL;
	listener->sink.memory_bytes = sizeof(*listener);
	listener->callback = callback;
	listener->data = data;
	listener->process = getpid();
	for (unsigned int i = 0; i < CHUNKS; i++)
		listener->spare[listener->spares++] = &listener->chunks[i];
	pthread_mutex_init(&listener->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&listener->ready, &attr);
	pthread_condattr_destroy(&attr);
	return listener;
}

RP_PUBLIC int rp_listener_start(const struct rp_session_options *options,
				rp_listener_callback callback, void *data,
				struct rp_listener **ret_listener)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_session_options own_options;
	struct rp_session_setup setup = { .options = &own_options };
	struct rp_listener *listener;
	int ret;

	rp_failed_call = NULL;
	if (!ret_listener || rp_sized_read(&own_options, sizeof(own_options),
					   RP_SESSION_OPTIONS_SIZE_V1, options) != 0 ||
	    (own_options.flags & RP_SESSION_OVERWRITE) || own_options.roll_bytes)
		return -EINVAL;
	listener = make_listener(callback, data);
	if (!listener)
		return -ENOMEM;
	setup.sink = &listener->sink;
	ret = rp_session_open(&setup, &listener->session);
	if (ret != 0) {
		free_listener(listener);
		return ret;
	}
	if (callback) {
		ret = rp_thread_start(&listener->thread, "ringpipe-listen", push_run, listener);
		if (ret != 0) {
			rp_session_discard(listener->session);
			rp_session_stop(listener->session, NULL);
			free_listener(listener);
			return ret;
		}
	}
	*ret_listener = listener;
	return 0;
}

/* A forked child has a copy of the struct but not the thread. */
static bool has_thread(const struct rp_listener *listener)
{
	return listener->callback && !listener->joined && listener->process == getpid();
}

static void join(struct rp_listener *listener)
{
	if (!has_thread(listener))
		return;
	pthread_join(listener->thread, NULL);
	listener->joined = true;
}

/* A child forked in a callback is not in that callback, and must not lock `waits`. */
static bool in_callback(void)
{
	return own && own->process == getpid();
}

/*
 * Prepare to wait for a listener's thread. A callback must not wait for its own thread, nor for a
 * thread that waits, directly or through others, for the callback's thread. Only the waiting thread
 * frees the listener that it waits for, so this function can follow the chain.
 *
 * Return: 0; -EDEADLK.
 */
static int begin_wait(struct rp_listener *listener)
{
	struct rp_listener *next;

	if (rp_drain_is_self())
		return -EDEADLK;
	if (!in_callback() || !has_thread(listener))
		return 0;
	pthread_mutex_lock(&waits);
	for (next = listener; next && next != own; next = next->waits_for)
		;
	if (!next)
		own->waits_for = listener;
	pthread_mutex_unlock(&waits);
	return next ? -EDEADLK : 0;
}

static void end_wait(void)
{
	if (!in_callback())
		return;
	pthread_mutex_lock(&waits);
	own->waits_for = NULL;
	pthread_mutex_unlock(&waits);
}

RP_PUBLIC int rp_listener_set_providers(struct rp_listener *listener,
					const struct rp_session_provider *providers,
					size_t provider_count)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return rp_session_set_providers(listener->session, providers, provider_count);
}

RP_PUBLIC int rp_listener_drain(struct rp_listener *listener)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret = begin_wait(listener);

	if (ret != 0)
		return ret;
	rp_session_finish(listener->session);
	join(listener);
	end_wait();
	return 0;
}

RP_PUBLIC void rp_listener_discard(struct rp_listener *listener)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	rp_session_discard(listener->session);
}

RP_PUBLIC int rp_listener_stop(struct rp_listener *listener, struct rp_session_stats *ret_stats)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!listener)
		return 0;
	ret = rp_sized_fits(ret_stats, RP_SESSION_STATS_SIZE_V1) ? begin_wait(listener) : -EINVAL;
	if (ret != 0)
		return ret;
	/* A callback gets the pending events; a pull listener has no reader any more. */
	if (listener->process == getpid() && !listener->callback)
		rp_session_discard(listener->session);
	ret = rp_session_stop(listener->session, ret_stats);
	join(listener);
	end_wait();
	free_listener(listener);
	return ret;
}

RP_PUBLIC void rp_listener_get_fields(const struct rp_listener_event *event,
				      struct rp_fields *ret_fields)
{
	*ret_fields = (struct rp_fields){
		.at = event->payload,
		.end = (const uint8_t *)event->payload + event->payload_bytes,
		.fields = event->fields,
		.left = event->field_count,
		.layout = RP_LAYOUT_WRITTEN,
	};
}

RP_PUBLIC int rp_listener_get_stats(struct rp_listener *listener,
				    struct rp_session_stats *ret_stats)
{
	return rp_session_get_stats(listener->session, ret_stats);
}
