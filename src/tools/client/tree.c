/* SPDX-License-Identifier: MIT */
/*
 * Each process of the tree has its own recorder, a child of `ringpipe` that writes an unnamed file.
 * tree_merge.c merges the files.
 */
#include "tools/client/tree_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time_namespace.h"
#include "nettrace/format.h"
#include "tools/client/proc.h"
#include "tools/client/providers.h"

#define SCAN_MS 50
#define SCAN_ALL_MS 500
#define SCAN_ALL_MAX_MS 5000
#define SCAN_SHARE 100			/* the scans of all processes use at most 1 % of a CPU */
#define RESERVED_FILES 48u
#define EXECS_MAX 100u			/* parts of one process */
#define TRIES_MAX 100u			/* the socket exists before the process listens */
#define OTHER_FDS 3			/* that a turn waits for, next to the members' */

/* The process without which there is nothing to record; a recording of the machine has none. */
static bool is_root(const struct rp_tree *tree, const struct rp_tree_member *member)
{
	return !tree->plan->machine && member == tree->members[0];
}

/* Whether the part is of the root, also after the root has executed another program. */
static bool is_of_root(const struct rp_tree *tree, const struct rp_tree_member *member)
{
	const struct rp_tree_member *root = tree->members[0];

	return !tree->plan->machine && member->pid == root->pid &&
	       member->start_time == root->start_time;
}

static bool is_known(const struct rp_tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct rp_tree_member *member = tree->members[i];

		if ((member->pid == pid && !member->gone) ||
		    (member->recorder == pid && member->status_fd >= 0))
			return true;
	}
	return false;
}

static struct rp_tree_member *add_member(struct rp_tree *tree, const struct rp_proc *process)
{
	struct rp_tree_member *member = calloc(1, sizeof(*member));
	struct rp_tree_member **grown = realloc(tree->members, (tree->count + 1) * sizeof(*grown));

	if (grown)
		tree->members = grown;
	if (!member || !grown) {
		free(member);
		tree->error = -ENOMEM;
		return NULL;
	}
	*member = (struct rp_tree_member){
		.pid = process->pid, .inner_pid = process->inner_pid,
		.start_time = process->start_time,
		.clock_offset_ns = rp_time_namespace_offset(process->pid) - tree->clock_offset_ns,
		.status_fd = -1, .spool_fd = -1, .end = RP_TREE_NO_END, .is_new = tree->is_running,
	};
	(void)rp_proc_parent(member->pid, &member->parent);
	rp_container_read(member->pid, member->inner_pid, member->container);
	tree->members[tree->count++] = member;
	return member;
}

/* Whether the process is below the roots, and the filter does not exclude it. */
static bool is_wanted(const struct rp_tree *tree, pid_t pid)
{
	return rp_proc_matches(pid, &tree->plan->filter) == 1 &&
	       rp_proc_descends(pid, &tree->plan->roots);
}

static int on_child(pid_t pid, void *data)
{
	struct rp_tree *tree = data;
	struct rp_proc process;

	if (!is_known(tree, pid) && is_wanted(tree, pid) && rp_proc_read(pid, &process) == 0)
		(void)add_member(tree, &process);
	return 0;
}

/*
 * Ask whether ringpipe or a .NET runtime serves the process's diagnostics socket. Return: 0:
 * ringpipe; -EOPNOTSUPP: a .NET runtime; -ETIMEDOUT: the process does not answer, for example
 * because it is stopped; otherwise as rp_provider_names_get().
 */
static int ask_kind(const struct rp_target *target)
{
	struct rp_provider_names names;
	int ret = rp_provider_names_get(target, NULL, &names);

	if (ret == 0)
		rp_provider_names_fini(&names);
	return ret;
}

/* Runtimes of .NET write version 4 only; the merged trace has version 6 nevertheless. */
static void adapt_to_dotnet(struct rp_recording_plan *plan)
{
	plan->format = 0;
	if (!plan->dotnet_provider_count)
		return;
	plan->providers = plan->dotnet_providers;
	plan->provider_count = plan->dotnet_provider_count;
}

/*
 * Runs in the recorder's process. Ctrl-C on a terminal is for the parent alone, which counts them.
 */
static void record(const struct rp_tree *tree, const struct rp_tree_member *member, int status_fd,
		   pid_t parent)
{
	struct rp_recording_plan plan = *tree->plan;
	struct rp_recording_result result = { .end = RP_RECORDING_FAILED };
	struct rp_output output;
	char path[32], name[PATH_MAX], end;
	int nowhere, kind = 0;

	setpgid(0, 0);
	rp_signals_end_with(parent);
	plan.target = &member->target;
	if (plan.format == RP_NETTRACE_V6)
		kind = ask_kind(&member->target);
	if (kind == -EOPNOTSUPP)
		adapt_to_dotnet(&plan);
	plan.child = NULL;
	plan.report_missing &= is_root(tree, member);
	plan.signal_fd = 0;
	plan.live = false;
	plan.duration_ms = 0;
	plan.begun_fd = status_fd;
	/* There may be many recorders; the parent reports their results at the end. */
	nowhere = is_root(tree, member) ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (nowhere >= 0)
		dup2(nowhere, STDERR_FILENO);
	/* Open the file again, because the parent reads it and has an offset of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", member->spool_fd);
	snprintf(name, sizeof(name), "a part of %s", tree->output->path);
	if (kind != -ETIMEDOUT && rp_output_open(&output, path, true) == 0) {
		output.path = name;
		rp_recording_run(&plan, &output, &result);
		if (rp_output_close(&output))
			result.end = RP_RECORDING_OUTPUT_FAILED;
	}
	end = (char)('0' + result.end);
	_exit(write(status_fd, &end, 1) != 1);
}

/* Each process needs two open files, and soft limits are often 1,024. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Whether there are files for one more process, besides those to read /proc. */
static bool has_free_files(const struct rp_tree *tree)
{
	size_t used = RESERVED_FILES;
	struct rlimit limit;

	for (size_t i = 0; i < tree->count; i++)
		used += (tree->members[i]->spool_fd >= 0) + (tree->members[i]->status_fd >= 0);
	return getrlimit(RLIMIT_NOFILE, &limit) != 0 || used + 2 <= limit.rlim_cur;
}

static int start_recorder(struct rp_tree *tree, struct rp_tree_member *member)
{
	const pid_t parent = getpid();
	int status[2];

	if (!has_free_files(tree))
		return -EMFILE;
	member->spool_fd = rp_output_open_spool(tree->output, rp_target_directory());
	if (member->spool_fd < 0)
		return member->spool_fd;
	if (pipe2(status, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	fflush(NULL);
	member->recorder = fork();
	if (member->recorder == 0)
		record(tree, member, status[1], parent);
	close(status[1]);
	if (member->recorder < 0) {
		close(status[0]);
		return -errno;
	}
	rp_provider_search_expect(tree->plan->search);
	member->status_fd = status[0];
	return 0;
}

/* Record the other socket of the process, too, which may not exist yet. */
static void add_second(struct rp_tree *tree, struct rp_tree_member *first)
{
	const struct rp_proc process = {
		.pid = first->pid, .inner_pid = first->inner_pid, .start_time = first->start_time,
	};
	struct rp_tree_member *second = add_member(tree, &process);

	if (!second)
		return;
	first->has_second = true;
	second->first = first;
	second->is_async = !first->target.is_async;
	second->is_new = first->is_new;
}

/* A runtime of .NET may load libringpipe after the recording of its own events has begun. */
static void note_async(struct rp_tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct rp_tree_member *member = tree->members[i];

		if (member->pid == pid && !member->gone && !member->first && !member->has_second &&
		    member->has_target && !member->target.is_async) {
			add_second(tree, member);
			return;
		}
	}
}

static void look_at(struct rp_tree *tree, struct rp_tree_member *member)
{
	int ret = member->first ?
		  rp_target_look_kind(member->pid, member->is_async, &member->target) :
		  rp_target_look(member->pid, &member->target);

	if (ret == 1) {
		member->has_target = true;
		if (member->target.is_async && !member->first && !member->has_second)
			add_second(tree, member);
		ret = start_recorder(tree, member);
		if (ret) {
			rp_tool_error("cannot record process %d: %s", member->pid, strerror(-ret));
			rp_provider_search_skip(tree->plan->search);
		}
	}
	tree->failed |= ret < 0 && is_root(tree, member);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* How long to wait after a scan, by its duration: a machine may have thousands of processes. */
static int64_t rest_after(uint64_t took_ms)
{
	const uint64_t rest_ms = took_ms * SCAN_SHARE;

	return rest_ms < SCAN_ALL_MS ? SCAN_ALL_MS :
	       rest_ms > SCAN_ALL_MAX_MS ? SCAN_ALL_MAX_MS : (int64_t)rest_ms;
}

/* Finds all processes with a socket. */
static void find_machine(struct rp_tree *tree)
{
	struct rp_target_list list;

	if (rp_target_list_scan(&list) < 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		(void)on_child(list.rows[i].pid, tree);
		if (list.rows[i].is_async)
			note_async(tree, list.rows[i].pid);
	}
	rp_target_list_fini(&list);
}

/* Finds the libraries that processes with a runtime of .NET have loaded. */
static void find_second(struct rp_tree *tree)
{
	struct rp_target target;

	for (size_t i = tree->count; i > 0; i--) {
		const struct rp_tree_member *member = tree->members[i - 1];

		if (member->gone || member->first || member->has_second || !member->has_target ||
		    rp_target_look_kind(member->pid, true, &target) != 1)
			continue;
		rp_target_fini(&target);
		note_async(tree, member->pid);
	}
}

/* Looks at all processes, but not too often. */
static void find_all(struct rp_tree *tree)
{
	const uint64_t began_ns = thread_cpu_ns();

	if (tree->stops || rp_now_ms() < tree->next_scan_ms)
		return;
	if (tree->plan->machine)
		find_machine(tree);
	else
		find_second(tree);
	tree->next_scan_ms = rp_now_ms() + rest_after((thread_cpu_ns() - began_ns) / 1000000);
}

/* Takes processes whose sockets have just appeared. Those of other folders wait for find_all(). */
static void find_new(struct rp_tree *tree)
{
	char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t size;

	while ((size = read(tree->sockets_fd, bytes, sizeof(bytes))) > 0) {
		for (const char *at = bytes; at < bytes + size;) {
			const struct inotify_event *event = (const void *)at;
			bool is_async = false;
			pid_t pid = event->len ? rp_target_socket_pid(event->name, &is_async) : 0;

			if (pid && !tree->stops)
				(void)on_child(pid, tree);
			if (pid && !tree->stops && is_async)
				note_async(tree, pid);
			at += sizeof(*event) + event->len;
		}
	}
}

static int watch_sockets(void)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd >= 0 && inotify_add_watch(fd, rp_target_directory(), IN_CREATE | IN_MOVED_TO) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Finds descendants by the kernel's lists of children. Orphans become children of this process, so
 * its own list is read last.
 */
static void scan(struct rp_tree *tree)
{
	find_all(tree);
	for (size_t i = 0; i < tree->count; i++) {
		struct rp_tree_member *member = tree->members[i];

		if (member->gone && !member->is_reaped)
			member->is_reaped = !rp_proc_exists(member->pid, member->start_time);
		if (member->is_reaped)
			continue;
		member->gone |= !rp_proc_runs(member->pid, member->start_time);
		if (!tree->plan->machine)
			(void)rp_proc_children(member->pid, on_child, tree);
		if (!member->gone && !member->has_target && !tree->stops)
			look_at(tree, member);
	}
	if (tree->plan->child)
		(void)rp_proc_children(getpid(), on_child, tree);
}

/* After an exec, the new program is recorded as another part, which the first member expects. */
static void expect_next_program(struct rp_tree *tree, struct rp_tree_member *member)
{
	const struct rp_proc process = {
		.pid = member->pid, .inner_pid = member->inner_pid,
		.start_time = member->start_time,
	};
	struct rp_tree_member *next;

	if (member->end != '0' + RP_RECORDING_PEER_ENDED || member->execs >= EXECS_MAX ||
	    !rp_proc_runs(member->pid, member->start_time))
		return;
	member->gone = true;
	if (member->first) {
		member->replaced = true;
		return;
	}
	/* A second socket that has not appeared is not one of the next program. */
	for (size_t i = 0; i < tree->count; i++) {
		if (tree->members[i]->first == member && !tree->members[i]->has_target)
			tree->members[i]->gone = true;
	}
	next = add_member(tree, &process);
	if (!next)
		return;
	next->execs = member->execs + 1;
	next->is_new = false;
	member->replaced = true;
}

static void try_again(const struct rp_tree *tree, struct rp_tree_member *member)
{
	if (member->end != '0' + RP_RECORDING_FAILED || is_root(tree, member) || member->is_part ||
	    ++member->tries >= TRIES_MAX || tree->stops ||
	    !rp_proc_runs(member->pid, member->start_time))
		return;
	close(member->spool_fd);
	member->spool_fd = -1;
	rp_target_fini(&member->target);
	member->has_target = false;
	member->end = RP_TREE_NO_END;
}

static void hear(struct rp_tree *tree, struct rp_tree_member *member)
{
	char word;
	ssize_t got;

	while ((got = read(member->status_fd, &word, 1)) == 1) {
		if (word != 'b') {
			member->end = word;
			continue;
		}
		member->begun = true;
		rp_tree_merge_add(tree, member);
	}
	if (got < 0)
		return;
	close(member->status_fd);
	member->status_fd = -1;
	(void)waitpid(member->recorder, NULL, 0);
	tree->failed |= is_root(tree, member) && !member->begun;
	tree->has_lost_root |= is_of_root(tree, member) &&
			       member->end == '0' + RP_RECORDING_OUTPUT_FAILED;
	if (tree->plan->child && !tree->plan->child->resumed && member == tree->members[0])
		rp_child_resume(tree->plan->child, tree->plan->target);
	expect_next_program(tree, member);
	try_again(tree, member);
}

static void stop(struct rp_tree *tree)
{
	const int number = tree->stops++ == 0 ? SIGINT : SIGTERM;

	for (size_t i = 0; i < tree->count; i++) {
		if (tree->members[i]->status_fd >= 0)
			kill(tree->members[i]->recorder, number);
	}
}

static unsigned int count_signals(struct rp_tree *tree)
{
	return tree->plan->child ? rp_child_signals(tree->plan->child) :
	       rp_signals_count(tree->signal_fd, &tree->last_signal);
}

/* While a write waits for the reader of the output. */
static bool takes_signals(void *data)
{
	struct rp_tree *tree = data;

	for (unsigned int n = count_signals(tree); n; n--)
		if (++tree->requests > 1 || !tree->stops)
			stop(tree);
	tree->output->is_stopping |= tree->plan->machine ? tree->plan->progress->has_request :
				     tree->requests > 0;
	return tree->output->is_cancelled |= tree->stops > 1;
}

static bool is_over(const struct rp_tree *tree)
{
	bool alive = false;

	for (size_t i = 0; i < tree->count; i++) {
		if (tree->members[i]->status_fd >= 0)
			return false;
		alive |= !tree->members[i]->gone;
	}
	return (!alive && !tree->plan->machine) || tree->stops || tree->failed;
}

static void turn(struct rp_tree *tree)
{
	struct rp_child *child = tree->plan->child;
	struct pollfd *waits = calloc(tree->count + OTHER_FDS, sizeof(*waits));
	const size_t count = tree->count;
	nfds_t used = OTHER_FDS, at = OTHER_FDS;

	if (!waits) {
		tree->error = -ENOMEM;
		return;
	}
	waits[0] = (struct pollfd){ .fd = tree->signal_fd, .events = POLLIN };
	waits[1] = (struct pollfd){ .fd = child ? child->port.fd : -1, .events = POLLIN };
	waits[2] = (struct pollfd){ .fd = tree->sockets_fd, .events = POLLIN };
	/* poll(2) refuses more entries than the limit of open files, also if they have none. */
	for (size_t i = 0; i < count; i++) {
		if (tree->members[i]->status_fd >= 0)
			waits[used++] = (struct pollfd){ .fd = tree->members[i]->status_fd,
							 .events = POLLIN };
	}
	if (poll(waits, used, SCAN_MS) > 0) {
		for (size_t i = 0; i < count; i++) {
			struct rp_tree_member *member = tree->members[i];

			if (member->status_fd >= 0 && waits[at++].revents)
				hear(tree, member);
		}
		if (waits[2].revents)
			find_new(tree);
		if (waits[1].revents)
			rp_tool_port_accept(&child->port);
		if (waits[0].revents)
			(void)takes_signals(tree);
	}
	free(waits);
	if (child && !child->resumed && tree->members[0]->begun)
		rp_child_resume(child, tree->plan->target);
	if (!tree->stops && tree->plan->duration_ms &&
	    rp_now_ms() - tree->start_ms >= (int64_t)tree->plan->duration_ms)
		stop(tree);
	scan(tree);
	rp_tree_merge_pass(tree);
	if ((tree->error || tree->has_lost_root) && !tree->stops)
		stop(tree);
}

static void fini(struct rp_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct rp_tree_member *member = tree->members[i];

		if (member->spool_fd >= 0)
			close(member->spool_fd);
		if (member->status_fd >= 0)
			close(member->status_fd);
		if (member->has_target)
			rp_target_fini(&member->target);
		rp_thread_table_fini(&member->threads);
		free(member);
	}
	free(tree->members);
	rp_trace_merge_destroy(tree->merge);
	if (tree->sockets_fd >= 0)
		close(tree->sockets_fd);
	if (!tree->plan->child && tree->signal_fd >= 0)
		rp_signals_close(tree->signal_fd);
}

void rp_tree_run(const struct rp_recording_plan *plan, struct rp_output *output,
		 struct rp_recording_result *ret_result)
{
	struct rp_tree tree = {
		.plan = plan, .output = output, .start_ms = rp_now_ms(), .sockets_fd = -1,
		.clock_offset_ns = plan->machine ? 0 : rp_time_namespace_offset(getpid()),
	};
	struct rp_proc process;

	*ret_result = (struct rp_recording_result){ .end = RP_RECORDING_FAILED };
	tree.signal_fd = plan->child ? plan->child->signal_fd : rp_signals_open();
	if (tree.signal_fd < 0) {
		rp_tool_error("cannot receive signals: %s", strerror(-tree.signal_fd));
		return;
	}
	rp_output_make_interruptible(output, tree.signal_fd, takes_signals, &tree);
	raise_file_limit();
	tree.error = rp_tree_merge_start(&tree);
	if (plan->machine)
		tree.sockets_fd = watch_sockets();
	if (plan->machine || (rp_proc_read(plan->target->pid, &process) == 0 &&
			      add_member(&tree, &process)))
		scan(&tree);
	else
		tree.failed = true;
	tree.is_running = true;
	while (!is_over(&tree))
		turn(&tree);
	if (!tree.failed && (tree.count > 0 || plan->machine))
		rp_tree_merge_finish(&tree, ret_result);
	else if (tree.stops > 1)
		ret_result->end = RP_RECORDING_GAVE_UP;
	rp_output_end_interruptible(output);
	fini(&tree);
}
