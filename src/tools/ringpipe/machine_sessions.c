/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/machine_sessions.h"

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
#include "tools/cli/tool.h"

/* How often the command searches for processes that have started. */
#define SCAN_MS 500

struct member {
	pid_t target;
	uint64_t start_time;		/* of the target */
	bool is_async;			/* as in struct rp_target */
	pid_t process;			/* that runs its session; 0: it has ended */
};

struct machine {
	const struct rp_machine_sessions *sessions;
	struct member *rows;
	size_t count, capacity;
	size_t running;
	unsigned int stops;		/* requests so far */
	struct rp_stop_signal last_signal;
};

void rp_shared_output_init(struct rp_shared_output *output)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&output->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

void rp_shared_output_lock(struct rp_shared_output *output)
{
	if (pthread_mutex_lock(&output->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&output->lock);
}

void rp_shared_output_unlock(struct rp_shared_output *output)
{
	pthread_mutex_unlock(&output->lock);
}

/* Ctrl-C on a terminal is for the parent alone, which passes it on. */
static void run_member(const struct rp_machine_sessions *sessions, const struct rp_target *target,
		       pid_t parent)
{
	setpgid(0, 0);
	rp_signals_end_with(parent);
	/* The signalfd, which this process inherits, receives its own signals. */
	_exit(sessions->run(sessions->data, target));
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
		run_member(machine->sessions, target, parent);
	if (process < 0)
		return -errno;
	rp_provider_search_expect(machine->sessions->search);
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
	const int number = machine->stops++ == 0 ? SIGTERM : SIGINT;

	for (size_t i = 0; i < machine->count; i++) {
		if (machine->rows[i].process)
			kill(machine->rows[i].process, number);
	}
}

static void take_signals(struct machine *machine)
{
	struct signalfd_siginfo info;

	while (read(machine->sessions->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (rp_signals_is_request(&info, &machine->last_signal))
			stop(machine);
	}
	reap(machine);
	if (machine->sessions->output->reader_left && !machine->stops)
		stop(machine);
}

int rp_machine_sessions_run(const struct rp_machine_sessions *sessions)
{
	struct machine machine = { .sessions = sessions };
	const int64_t end_ms = sessions->duration_ms ?
			       rp_now_ms() + (int64_t)sessions->duration_ms : INT64_MAX;
	int ret = 0;

	while (!machine.stops || machine.running) {
		struct pollfd wait = { .fd = sessions->signal_fd, .events = POLLIN };

		if (!machine.stops && (ret || rp_now_ms() >= end_ms))
			stop(&machine);
		else if (!machine.stops)
			ret = scan(&machine);
		if (machine.stops && !machine.running)
			break;
		poll(&wait, 1, SCAN_MS);
		take_signals(&machine);
		rp_provider_search_step(sessions->search, false, false);
	}
	rp_provider_search_step(sessions->search, true, false);
	free(machine.rows);
	if (ret)
		rp_tool_error("%s: %s", sessions->command, strerror(-ret));
	if (machine.stops > 1 && !ret)
		return RP_EXIT_GAVE_UP;
	return ret || sessions->output->is_cut || rp_provider_search_has_failed(sessions->search) ?
	       RP_EXIT_FAILURE : RP_EXIT_OK;
}
