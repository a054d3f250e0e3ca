/* SPDX-License-Identifier: MIT */
/*
 * Waits, from switches of threads. A record of a switch has the time; a sample of the tracepoint
 * sched:sched_switch, which precedes it, has the stack of the thread that stops. Without records,
 * the samples have the times, too. Samples of sched:sched_waking and sched:sched_wakeup have the
 * thread that ends a wait.
 *
 * Source: the files `format` in /sys/kernel/tracing/events/sched/.
 */
#include <errno.h>
#include <string.h>

#include "tools/trace/perf_copy.h"

/* Offsets of fields of the tracepoints, after the 8 bytes that all have. */
enum {
	SWITCH_STATE = 32,		/* i64, of the thread that stops */
	SWITCH_NEXT = 56,		/* i32, the thread that continues */
	WAKING_THREAD = 24,		/* i32 */
};

/* A bit above these means that the thread was preempted. */
#define STATE_MASK 0xffu

static bool read_raw(const struct rp_perf_sample *sample, size_t at, void *ret, size_t size)
{
	if (!sample->raw || at + size > sample->raw_bytes)
		return false;
	memcpy(ret, sample->raw + at, size);
	return true;
}

static void stop(struct rp_perf_thread *thread, const struct rp_perf_place *place)
{
	thread->out = place->time;
	thread->process = place->process;
	thread->woken = 0;
}

/* Which thread ended the wait, and when; what perf did not record is 0. */
static int put_details(struct rp_perf_copy *copy, const struct rp_perf_thread *thread,
		       const struct rp_perf_place *place)
{
	const uint64_t duration = place->time - thread->out;
	const uint64_t waker = thread->woken ? thread->waker_thread : 0;
	const uint32_t waker_process = thread->woken ? thread->waker_process : 0;
	const uint32_t state = (uint32_t)thread->state & STATE_MASK;
	/* A thread that stops in state 0 is ready to run all the time. */
	const uint64_t runnable = thread->woken ? place->time - thread->woken :
				  thread->has_state && !state ? duration : 0;

	rp_perf_put_bytes(copy, &duration, sizeof(duration));
	rp_perf_put_bytes(copy, &runnable, sizeof(runnable));
	rp_perf_put_bytes(copy, &state, sizeof(state));
	rp_perf_put_bytes(copy, &waker_process, sizeof(waker_process));
	rp_perf_put_bytes(copy, &waker, sizeof(waker));
	return rp_perf_put(copy, RP_MACHINE_WAIT_DETAILS, place, NULL, 0);
}

/* The thread continues at `place`. */
static int resume(struct rp_perf_copy *copy, struct rp_perf_thread *thread,
		  const struct rp_perf_place *place)
{
	struct rp_perf_process *process = rp_perf_get_process(copy, place->process);
	uint64_t frames[RP_PERF_FRAMES_MAX];
	uint32_t count;
	int ret;

	if (!process)
		return -ENOMEM;
	ret = rp_perf_put_process(copy, process);
	count = rp_perf_copy_frames(thread->frames, thread->frame_count, frames);
	if (ret == 0)
		ret = rp_perf_put_frames(copy, process, frames, count);
	rp_perf_put_number(copy, place->time - thread->out);
	if (ret == 0)
		ret = rp_perf_put(copy, RP_MACHINE_WAIT, place, frames, count);
	if (ret == 0 && (thread->has_state || thread->woken))
		ret = put_details(copy, thread, place);
	return ret;
}

static int end_wait(struct rp_perf_copy *copy, struct rp_perf_thread *thread,
		    const struct rp_perf_place *place)
{
	const int ret = thread->out && place->time >= thread->out ?
			resume(copy, thread, place) : 0;

	*thread = (struct rp_perf_thread){ .tid = thread->tid, .process = thread->process };
	return ret;
}

int rp_perf_take_switch(struct rp_perf_copy *copy, const struct rp_perf_entry *record)
{
	struct rp_perf_thread *thread;
	struct rp_perf_place place;

	rp_perf_read_trailer(&copy->file, record, &place);
	/* The idle threads of all processors have the id 0. */
	if (place.thread == 0)
		return 0;
	thread = rp_perf_get_thread(copy, place.thread);
	if (!thread)
		return -ENOMEM;
	if (!(rp_perf_header(&copy->file, record).misc & PERF_RECORD_MISC_SWITCH_OUT))
		return end_wait(copy, thread, &place);
	stop(thread, &place);
	return 0;
}

/* The thread of the sample stops, and another one continues. */
static int take_switch_sample(struct rp_perf_copy *copy, const struct rp_perf_sample *sample)
{
	struct rp_perf_place place = sample->place;
	struct rp_perf_thread *thread;
	int32_t next;

	if (place.thread) {
		thread = rp_perf_get_thread(copy, place.thread);
		if (!thread)
			return -ENOMEM;
		thread->frames = sample->frames;
		thread->frame_count = sample->frame_count;
		thread->has_state = read_raw(sample, SWITCH_STATE, &thread->state,
					     sizeof(thread->state));
		if (!copy->has_switches)
			stop(thread, &place);
	}
	if (copy->has_switches || !read_raw(sample, SWITCH_NEXT, &next, sizeof(next)) || next <= 0)
		return 0;
	thread = rp_perf_get_thread(copy, (uint32_t)next);
	if (!thread)
		return -ENOMEM;
	place.thread = thread->tid;
	place.process = thread->process;
	return end_wait(copy, thread, &place);
}

/* The thread of the sample wakes another one. */
static int take_waking_sample(struct rp_perf_copy *copy, const struct rp_perf_sample *sample)
{
	struct rp_perf_thread *thread;
	int32_t woken;

	if (!read_raw(sample, WAKING_THREAD, &woken, sizeof(woken)) || woken <= 0)
		return 0;
	thread = rp_perf_get_thread(copy, (uint32_t)woken);
	if (!thread)
		return -ENOMEM;
	/* sched_wakeup may follow sched_waking, on the processor of the woken thread. */
	if (thread->woken || !thread->out)
		return 0;
	thread->woken = sample->place.time;
	thread->waker_process = sample->place.process;
	thread->waker_thread = sample->place.thread;
	return 0;
}

int rp_perf_take_tracepoint(struct rp_perf_copy *copy, const struct rp_perf_sample *sample)
{
	const char *name = rp_perf_event_name(&copy->file, sample->event);

	if (strcmp(name, "sched:sched_switch") == 0)
		return take_switch_sample(copy, sample);
	if (strcmp(name, "sched:sched_waking") == 0 || strcmp(name, "sched:sched_wakeup") == 0)
		return take_waking_sample(copy, sample);
	return 0;
}

int rp_perf_note_running(struct rp_perf_copy *copy, const struct rp_perf_place *place)
{
	struct rp_perf_thread *thread;

	if (copy->has_switches || !copy->thread_count || !place->thread)
		return 0;
	thread = rp_perf_get_thread(copy, place->thread);
	if (!thread)
		return -ENOMEM;
	thread->out = 0;
	return 0;
}
