/* SPDX-License-Identifier: MIT */
/*
 * ringpipe tail without a process: a process of its own for each session, so that a traced process
 * that hangs does not delay the others. They print whole lines, under a lock.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/cli/signals.h"
#include "tools/ringpipe/tail.h"

/* How often the command searches for processes that have started. */
#define SCAN_MS 500

struct member {
	pid_t target;
	uint64_t start_time;		/* of the target */
	bool is_async;			/* as in struct rp_target */
	pid_t process;			/* that prints its events; 0: it has ended */
};

struct machine {
	struct rp_tail *tail;
	struct member *rows;
	size_t count, capacity;
	size_t running;
	unsigned int stops;		/* signals so far */
};

/* Ctrl-C on a terminal is for the parent alone, which passes it on. */
static void run_member(struct rp_tail *tail, const struct rp_target *target, pid_t parent)
{
	setpgid(0, 0);
	rp_signals_end_with(parent);
	tail->plan.duration_ms = 0;
	/* The signalfd, which this process inherits, receives its own signals. */
	_exit(rp_tail_process(tail, target));
}

static bool is_same(const struct member *row, const struct rp_target *target)
{
	return row->target == target->pid && row->start_time == target->start_time &&
	       row->is_async == target->is_async;
}

static bool is_known(const struct machine *machine, const struct rp_target *target)
{
	for (size_t i = 0; i < machine->count; i++) {
		if (is_same(&machine->rows[i], target))
			return true;
	}
	return false;
}

/* Forget the members that have ended together with their targets. */
static void forget_ended(struct machine *machine, const struct rp_target_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < machine->count; i++) {
		bool is_there = machine->rows[i].process != 0;

		for (size_t k = 0; k < list->count && !is_there; k++)
			is_there = is_same(&machine->rows[i], &list->rows[k]);
		if (is_there)
			machine->rows[kept++] = machine->rows[i];
	}
	machine->count = kept;
}

static int add_member(struct machine *machine, const struct rp_target *target)
{
	struct member *rows = rp_array_reserve(machine->rows, machine->count, &machine->capacity,
					       1, sizeof(*rows));
	const pid_t parent = getpid();
	pid_t process;

	if (!rows)
		return -ENOMEM;
	machine->rows = rows;
	fflush(NULL);
	process = fork();
	if (process == 0)
		run_member(machine->tail, target, parent);
	if (process < 0)
		return -errno;
	rows[machine->count++] = (struct member){
		.target = target->pid, .start_time = target->start_time,
		.is_async = target->is_async, .process = process,
	};
	machine->running++;
	return 0;
}

static int scan(struct machine *machine)
{
	struct rp_target_list list;
	int ret = rp_target_list_scan(&list);

	if (ret)
		return ret;
	forget_ended(machine, &list);
	for (size_t i = 0; i < list.count && ret == 0; i++) {
		if (!is_known(machine, &list.rows[i]))
			ret = add_member(machine, &list.rows[i]);
	}
	rp_target_list_fini(&list);
	return ret;
}

static void reap(struct machine *machine)
{
	pid_t process;

	while ((process = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (size_t i = 0; i < machine->count; i++) {
			if (machine->rows[i].process != process)
				continue;
			machine->rows[i].process = 0;
			machine->running--;
		}
	}
}

static void stop(struct machine *machine)
{
	machine->stops++;
	for (size_t i = 0; i < machine->count; i++) {
		if (machine->rows[i].process)
			kill(machine->rows[i].process, SIGTERM);
	}
}

static void take_signals(struct machine *machine)
{
	struct signalfd_siginfo info;

	while (read(machine->tail->plan.signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			stop(machine);
	}
	reap(machine);
	if (machine->tail->shared->reader_left && !machine->stops)
		stop(machine);
}

int rp_tail_machine(struct rp_tail *tail)
{
	struct machine machine = { .tail = tail };
	const int64_t end_ms = tail->plan.duration_ms ?
			       rp_now_ms() + (int64_t)tail->plan.duration_ms : INT64_MAX;
	int ret = 0;

	while (!machine.stops || machine.running) {
		struct pollfd wait = { .fd = tail->plan.signal_fd, .events = POLLIN };

		if (!machine.stops && (ret || rp_now_ms() >= end_ms))
			stop(&machine);
		else if (!machine.stops)
			ret = scan(&machine);
		if (machine.stops && !machine.running)
			break;
		poll(&wait, 1, SCAN_MS);
		take_signals(&machine);
	}
	free(machine.rows);
	if (ret)
		rp_tool_error("tail: %s", strerror(-ret));
	return ret ? RP_EXIT_FAILURE : machine.stops > 1 ? RP_EXIT_GAVE_UP : RP_EXIT_OK;
}
