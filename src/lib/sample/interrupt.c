/* SPDX-License-Identifier: MIT */
/*
 * A timer on each thread's CPU clock interrupts that thread. The clock advances only while the
 * thread runs, so a sleeping thread is not interrupted. Since Linux 5.10 the kernel sends such a
 * signal when the thread returns to user space, so the signal does not cut a system call short.
 */
#include "sample/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/atomic.h"
#include "base/task_signals.h"
#include "base/thread.h"
#include "core/own.h"
#include "sample/deferred.h"
#include "unwind/host_frames.h"

struct rp_event *rp_sample_event;

static int number;			/* of the signal; 0: none allocated */

void rp_sample_write(uint32_t thread, enum rp_sample_type type, const uint64_t *frames,
		     uint32_t frame_count)
{
	int32_t value = type;
	struct rp_part part = { &value, sizeof(value) };
	struct rp_origin origin = { thread, frame_count, frames };

	(void)rp_event_write_for(rp_sample_event, &part, 1, &origin);
}

static void take_sample(struct rp_sampled *thread, const void *context)
{
	struct rp_window window = { 0, 0 };
	struct rp_registers registers;
	uint64_t frames[RP_STACK_MAX], low, high, pointer;
	struct rp_native_stack stack = { .frames = frames, .has_instruction = true };

	if (!rp_registers_of_context(context, &registers))
		return;
	pointer = registers.value[RP_REG_RSP];
	/* The stack is in use from the stack pointer to its end, so those pages are mapped. */
	if (rp_thread_stack_bounds(&low, &high) && pointer >= low && pointer < high) {
		window.low = pointer;
		window.high = high;
	}
	stack.count = rp_unwind(&registers, &window, frames, RP_STACK_MAX);
	if (rp_host_frames_add(RP_HOST_WALK_SIGNAL, context, &stack) == 0)
		rp_sample_write(rp_thread_id(), RP_SAMPLE_MANAGED, frames, stack.count);
	else
		rp_sample_defer(thread, &stack);
	rp_store_relaxed(&thread->samples, thread->samples + 1);
	rp_store_relaxed(&thread->awake, 1);
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	uint32_t place = (uint32_t)info->si_value.sival_int;
	struct rp_sampled *threads = rp_load_acquire(&rp_threads);

	(void)signal;
	/* A late signal of a deleted timer may name a place that another thread has now. */
	if (info->si_code == SI_TIMER && place < RP_THREADS_MAX &&
	    rp_event_enabled(rp_sample_event) &&
	    rp_load_relaxed(&threads[place].id) == rp_thread_id())
		take_sample(&threads[place], context);
	errno = saved;
}

int rp_sample_signal_take(void)
{
	struct sigaction action = { .sa_sigaction = on_tick }, old;

	if (number)
		return 0;
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	/*
	 * If a handler of the program interrupted ours and left it by siglongjmp(), the readers'
	 * count of the object list would never reach 0.
	 */
	sigfillset(&action.sa_mask);
	for (int candidate = SIGRTMAX; candidate >= SIGRTMIN; candidate--) {
		if (sigaction(candidate, NULL, &old) != 0 || old.sa_flags & SA_SIGINFO ||
		    old.sa_handler != SIG_DFL)
			continue;
		if (sigaction(candidate, &action, NULL) == 0) {
			number = candidate;
			return 0;
		}
	}
	return -EBUSY;
}

void rp_sample_signal_check(void)
{
	struct sigaction now;

	if (number && (sigaction(number, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) ||
		       now.sa_sigaction != on_tick))
		number = 0;
}

/* Return: whether the thread blocks the signal; true if that cannot be read. */
static bool is_blocked(uint32_t thread)
{
	uint64_t blocked;

	return !rp_task_blocked_signals(thread, &blocked) || blocked >> (number - 1) & 1;
}

int rp_sample_timer_start(struct rp_sampled *thread, uint64_t interval_ns)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID };
	/* The first sample is due at the kernel's next tick, if the thread runs then. */
	const struct itimerspec when = {
		.it_value = { .tv_nsec = 1 },
		.it_interval = { (time_t)(interval_ns / 1000000000u),
				 (long)(interval_ns % 1000000000u) },
	};

	/* It may unblock the signal later, and the sample would then be of that time. */
	if (is_blocked(thread->id))
		return -EPERM;
	event.sigev_signo = number;
	event.sigev_value.sival_int = (int)(thread - rp_threads);
	event._sigev_un._tid = (pid_t)thread->id;
	if (timer_create(rp_thread_cpu_clock(thread->id), &event, &thread->timer) != 0)
		return -errno;
	thread->has_timer = true;
	timer_settime(thread->timer, 0, &when, NULL);
	return 0;
}

void rp_sample_timer_stop(struct rp_sampled *thread)
{
	if (thread->has_timer)
		(void)timer_delete(thread->timer);
	thread->has_timer = false;
}
