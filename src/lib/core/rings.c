/* SPDX-License-Identifier: MIT */
/*
 * How the limit on a session's memory (buffer_bytes) is divided.
 *
 * A session that does not overwrite has a pool of buffers for all its writers. All buffers have one
 * size: a power of two, or slightly more (with_largest_records()). Each concurrency id and each
 * fallback lock claims one buffer after the other (THE POOL in ring/slot.h). One thread alone can
 * therefore fill all of the memory. When the pool is exhausted, the unused space is the rest of the
 * buffers that other writers are filling. Many small buffers limit that waste. But if buffers are
 * too small, the largest records leave much of each unused. Locks of a pool of the smallest buffers
 * therefore keep some rings that are nearly full, for smaller records (choose_lock() in
 * ring/fallback.c). The size of a buffer is:
 *
 *	a 128th of the limit; for a small limit a 64th, up to 512 KB; at least 128 KB, which holds
 *	the largest record; smaller for a large limit with more than 8 processors
 *
 * The limit includes the sink's memory: a 32nd of the limit and 256 KB, at most 2.25 MB. Below
 * 8 MB it is 256 KB, which hold one block of events and an output of little more than one.
 *
 * An overwriting session has rings of fixed sizes, each with eight sub-buffers: half of its memory
 * for the rings of concurrency ids, an eighth for each of three fallback locks (seven without
 * rseq), and an eighth for the rings of state events, which are divided the same way.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "core/rings.h"
#include "core/session_state.h"
#include "recover/files.h"
#include "ring/slot.h"

#define RING_MIN (64u << 10)
#define BUFFER_MIN (128u << 10)
#define BUFFERS_WANTED 128u		/* at most half of RP_POOL_MAX */
#define BUFFERS_LEAST 64u		/* before they become smaller than LARGE_BUFFER */
#define LARGE_BUFFER (512u << 10)
#define BUFFERS_PER_WRITER 16u
#define FIXED_FALLBACKS 8u
#define WAITING_MIN (8u << 10)		/* waiting output in a sink */
#define WAITING_MAX (1u << 20)
#define SINK_DIVISOR 64u
#define SINK_BESIDES (256u << 10)	/* memory of a sink in addition to waiting output */
#define SMALL (8u << 20)		/* limits below this leave the sink only SINK_BESIDES */
#define WAKE_DIVISOR 16u		/* claims wake the drain thread at this part of the pool */
#define OPEN_DIVISOR 4u			/* part of a pool that locks leave partly filled */
#define OPEN_MAX 8u
#define ENLARGED (2u << 20)		/* limits from here on have slightly larger buffers */
#define PAGE ((size_t)4096)
#define RINGS_AT_START 8u
#define FALLBACK_IDS (1u << 16)		/* first id of fixed fallback rings */
#define STATE_IDS (1u << 17)		/* added to the ids of rings for state events */

_Static_assert(BUFFER_MIN >= RP_RECORD_MAX, "a buffer takes the largest record");

static size_t power_of_two_below(size_t value)
{
	size_t power = 1;

	while (power * 2 <= value)
		power *= 2;
	return power;
}

/*
 * Return the size of a buffer. `writers`: the number of threads that may write simultaneously, each
 * to a separate buffer.
 */
static size_t buffer_size(size_t budget, size_t writers)
{
	size_t size = power_of_two_below(budget / BUFFERS_WANTED);
	size_t least = power_of_two_below(budget / BUFFERS_LEAST);

	if (least > LARGE_BUFFER)
		least = LARGE_BUFFER;
	if (size < least)
		size = least;
	while (size > BUFFER_MIN && budget / size < BUFFERS_PER_WRITER * writers &&
	       budget / size * 2 <= RP_POOL_MAX)
		size /= 2;
	return size < BUFFER_MIN ? BUFFER_MIN : size;
}

/*
 * Return the size for as many of the largest records as there are multiples of 64 KB in `size`. In
 * a buffer of 128 KB, the largest record leaves half unused. In files, buffers keep a size that is
 * a power of two. The smallest sessions keep it too, because they would have a buffer less.
 */
static size_t with_largest_records(const struct rp_session *session, size_t size)
{
	const size_t records = size / RP_PAYLOAD_MAX;
	const size_t bytes = (records * rp_record_step(RP_RECORD_MAX) + PAGE - 1) & ~(PAGE - 1);

	return session->recovery || session->budget_bytes < ENLARGED ? size : bytes;
}

static int add_source(struct rp_session *session, size_t bytes, uint32_t id)
{
	struct rp_source *source = &session->sources[session->source_count];
	int ret;

	id += session->is_state_rings ? STATE_IDS : 0;
	ret = session->recovery ?
	      rp_recovery_make_ring(session->recovery, bytes, id, &source->ring, &source->file) :
	      rp_ring_create(bytes, id, &source->ring);
	if (ret != 0)
		return ret;
	if (session->flags & RP_SESSION_OVERWRITE)
		rp_ring_set_overwrite(source->ring);
	if (session->is_state_rings)
		source->ring->watermark = source->ring->size;
	session->used_bytes += bytes;
	rp_store_release(&session->source_count, session->source_count + 1);
	return 0;
}

/* Create the buffers: one mapping for all, or a file for each. */
static int make_buffers(struct rp_session *session, size_t size, uint32_t count)
{
	int ret = session->recovery ? 0 : rp_ring_array_create(size, count, &session->array);

	session->used_bytes += session->array.control_bytes;
	for (uint32_t i = 0; ret == 0 && i < count; i++) {
		if (session->recovery) {
			ret = add_source(session, size, i);
		} else {
			session->sources[i].ring = rp_ring_array_at(&session->array, i);
			session->source_count++;
			session->used_bytes += size;
		}
		if (ret == 0) {
			session->pool[i] = session->sources[i].ring;
			rp_ring_set_pooled(session->pool[i]);
		}
	}
	return ret;
}

/*
 * Set the sink's limit of waiting output. Return: the part of the session's limit that the sink
 * takes.
 */
static size_t set_sink_share(struct rp_session *session)
{
	size_t waiting = session->budget_bytes / SINK_DIVISOR;

	if (waiting > WAITING_MAX)
		waiting = WAITING_MAX;
	if (session->budget_bytes < SMALL)
		waiting = WAITING_MIN;
	session->sink->waiting_bytes = waiting;
	/* The buffer of the sink grows by doubling. */
	return session->budget_bytes < SMALL ? SINK_BESIDES : 2 * waiting + SINK_BESIDES;
}

static int make_pool(struct rp_session *session)
{
	/*
	 * Without rseq there are no concurrency ids, and the writers are holders of fallback locks.
	 */
	size_t writers = session->ring_count ? session->ring_count :
			 (size_t)sysconf(_SC_NPROCESSORS_CONF);
	size_t size = with_largest_records(session, buffer_size(session->budget_bytes, writers));
	size_t count = (session->budget_bytes - set_sink_share(session)) / size;

	if (count > RP_POOL_MAX)
		count = RP_POOL_MAX;
	session->pool = calloc(count + 1, sizeof(*session->pool));
	session->sources = calloc(count, sizeof(*session->sources));
	session->active = calloc(count, sizeof(struct rp_source *));
	if (!session->pool || !session->sources || !session->active)
		return -ENOMEM;
	session->pool_count = (uint32_t)count;
	session->pool_wake = count / WAKE_DIVISOR;
	if (size < 2 * BUFFER_MIN)
		session->pool_open = count / OPEN_DIVISOR < OPEN_MAX ? count / OPEN_DIVISOR :
				     OPEN_MAX;
	/* With few buffers, not every id may keep one; the other ids use the fallback. */
	if (session->ring_count > count / 2)
		session->ring_count = (uint32_t)count / 2;
	session->fallback_count = RP_FALLBACKS;
	return make_buffers(session, size, (uint32_t)count);
}

/* Rings of state events replace one fallback ring. */
static int make_fixed(struct rp_session *session)
{
	unsigned int count = (rp_rseq_usable ? FIXED_FALLBACKS / 2 : FIXED_FALLBACKS) -
			     (session->state_rings != NULL);
	size_t bytes = power_of_two_below(session->budget_bytes / FIXED_FALLBACKS);
	size_t sources = session->ring_count + FIXED_FALLBACKS;
	int ret = 0;

	sources *= session->state_rings ? 2 : 1;
	session->sources = calloc(sources, sizeof(*session->sources));
	session->active = calloc(sources, sizeof(struct rp_source *));
	if (!session->sources || !session->active)
		return -ENOMEM;
	for (unsigned int i = 0; ret == 0 && i < count; i++) {
		session->sources[i].fallback = i + 1;
		ret = add_source(session, bytes, FALLBACK_IDS + i);
	}
	session->fallback_count = session->source_count;
	if (session->ring_count)
		session->ring_bytes = power_of_two_below(session->budget_bytes / 2 /
							 session->ring_count);
	if (session->ring_bytes < RING_MIN)
		session->ring_bytes = RING_MIN;
	if (session->state_rings)
		session->budget_bytes -= session->state_rings->budget_bytes;
	/*
	 * The lowest ids have rings before the first event. On the fallback, many threads that
	 * start to write simultaneously would compete for its locks. Untouched pages take no
	 * memory.
	 */
	return ret == 0 ? rp_session_make_rings(session, RINGS_AT_START) : ret;
}

int rp_session_make_memory(struct rp_session *session)
{
	session->ring_count = rp_slot_ring_count();
	session->rings = calloc(session->ring_count ? session->ring_count : 1,
				sizeof(*session->rings));
	if (!session->rings)
		return -ENOMEM;
	if (!session->is_state_rings && !(session->flags & RP_SESSION_OVERWRITE))
		return make_pool(session);
	return make_fixed(session);
}

int rp_session_make_rings(struct rp_session *session, uint64_t wanted)
{
	for (uint64_t cid = 0; cid < wanted && cid < session->ring_count; cid++) {
		int ret;

		if (session->rings[cid] ||
		    session->used_bytes + session->ring_bytes > session->budget_bytes)
			continue;
		ret = add_source(session, session->ring_bytes, (uint32_t)cid);
		if (ret != 0)
			return ret;
		rp_store_release(&session->rings[cid],
				 session->sources[session->source_count - 1].ring);
	}
	return 0;
}

/* Whether a writer may return to a ring. */
static bool has_given_up(const struct rp_session *session)
{
	bool given_up = false;

	for (uint32_t i = 0; session->sources && i < session->source_count; i++)
		given_up |= session->sources[i].given_up;
	return given_up;
}

/* Free all buffers except those whose writers may return. */
static void free_array(struct rp_session *session)
{
	if (!has_given_up(session)) {
		rp_ring_array_destroy(&session->array);
		return;
	}
	for (uint32_t i = 0; i < session->source_count; i++) {
		if (!session->sources[i].given_up)
			rp_ring_array_drop(&session->array, i);
	}
	session->array.memory = NULL;
}

static void free_rings(struct rp_session *session)
{
	for (uint32_t i = 0; session->sources && i < session->source_count; i++) {
		if (!session->sources[i].given_up)
			rp_ring_destroy(session->sources[i].ring);
	}
}

/*
 * Free the table of buffers. A writer that may return can still read it, to find the buffer that it
 * claimed. Tables of such writers are chained by their last entries, so that leak checkers find
 * them.
 */
static void leave_pool(struct rp_session *session)
{
	static void *left;

	if (!session->pool || !has_given_up(session)) {
		free(session->pool);
		return;
	}
	session->pool[session->pool_count] = left;
	left = session->pool;
}

void rp_session_free_rings(struct rp_session *session)
{
	if (!session->is_state_rings)
		rp_recovery_destroy(session->recovery);
	session->recovery = NULL;
	if (session->array.memory)
		free_array(session);
	else
		free_rings(session);
	leave_pool(session);
	free(session->sources);
	free(session->active);
	free(session->rings);
	session->sources = NULL;
	session->active = NULL;
	session->rings = NULL;
	session->pool = NULL;
	session->pool_count = 0;
	session->source_count = 0;
	session->used_bytes = 0;
}

void rp_session_free_state_rings(struct rp_session *session)
{
	struct rp_session *state_rings = session->state_rings;

	session->state_rings = NULL;
	if (state_rings)
		rp_session_free_rings(state_rings);
	free(state_rings);
}

static uint64_t unread(const struct rp_source *source)
{
	return rp_load_acquire(&source->ring->head) - source->position;	/* [RING-PUB] */
}

bool rp_session_above(const struct rp_session *session, unsigned int divisor)
{
	uint64_t sum = 0;

	if (session->flags & RP_SESSION_OVERWRITE)
		return false;
	for (uint32_t i = 0; i < session->source_count; i++)
		sum += unread(&session->sources[i]);
	return sum > session->used_bytes / divisor;
}
