/* SPDX-License-Identifier: MIT */
/*
 * A timer on each thread's CPU clock interrupts that thread. The clock advances only while the
 * thread runs, so a sleeping thread is not interrupted. Since Linux 5.10 the kernel sends such a
 * signal when the thread returns to user space, so the signal does not cut a system call short.
 */
#include "sample/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
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
		/* Set this first: a thread that forks must know which disposition to reset. */
		number = candidate;
		if (sigaction(candidate, &action, NULL) == 0)
			return 0;
	}
	number = 0;
	return -EBUSY;
}

/*
 * A filter refused to delete a timer, which therefore still sends its signal. The default action
 * would end the process, so the handler stays.
 */
static bool timer_remains;

static bool is_ours(void)
{
	struct sigaction now;

	return sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	       now.sa_sigaction == on_tick;
}

static void set_default(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	/* The program may have installed its own handler since. */
	if (is_ours())
		sigaction(number, &action, NULL);
	number = 0;
}

/* Return: whether the signal is in a set of the thread; true if the set cannot be read. */
static bool has_signal(uint32_t thread, const char *field)
{
	uint64_t mask;

	return !rp_task_signals(thread, field, &mask) || mask >> (number - 1) & 1;
}

static bool is_pending_anywhere(void)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	bool pending = !directory;

	while (directory && !pending && (entry = readdir(directory)) != NULL) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);
		char text[8];

		/* A thread that has ended has no pending signals. */
		if (id && rp_thread_file(id, "comm", text, sizeof(text)) >= 0)
			pending = has_signal(id, "\nSigPnd:");
	}
	if (directory)
		closedir(directory);
	return pending;
}

bool rp_sample_signal_give_back(void)
{
	if (number && !rp_load_relaxed(&timer_remains) && !is_pending_anywhere())
		set_default();
	return number == 0 || rp_load_relaxed(&timer_remains);
}

void rp_sample_signal_forget(void)
{
	rp_store_relaxed(&timer_remains, false);
	if (number)
		set_default();
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

	/* In such a thread the signal would stay pending, and could never be given back. */
	if (has_signal(thread->id, "\nSigBlk:"))
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
	if (thread->has_timer && timer_delete(thread->timer) != 0)
		rp_store_relaxed(&timer_remains, true);
	thread->has_timer = false;
}
