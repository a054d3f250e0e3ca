/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/process_table.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/client/machine_time.h"
#include "tools/client/proc.h"

/* Above all thread ids of Linux: what the trace adds to the id of a second life. */
#define LIFE_STEP (1ull << 22)

struct rp_process_table {
	struct rp_proc_filter filter;
	struct rp_images *images;
	struct rp_machine_process **processes;
	size_t process_count, process_capacity;
	struct rp_machine_thread *threads;
	size_t thread_count, thread_capacity;
	struct rp_thread_table pids;	/* pid -> index of the process, plus 1 */
	struct rp_thread_table tids;	/* tid -> index of the thread, plus 1 */
};

int rp_process_table_create(struct rp_images *images, const struct rp_proc_filter *filter,
			    struct rp_process_table **ret_table)
{
	struct rp_process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->images = images;
	table->filter = *filter;
	*ret_table = table;
	return 0;
}

static void destroy_process(struct rp_machine_process *process)
{
	free(process->name);
	free(process->command_line);
	rp_address_space_fini(&process->space);
	rp_thread_table_fini(&process->hits);
	rp_thread_table_fini(&process->functions);
	free(process);
}

void rp_process_table_destroy(struct rp_process_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->process_count; i++)
		destroy_process(table->processes[i]);
	free(table->processes);
	free(table->threads);
	rp_thread_table_fini(&table->pids);
	rp_thread_table_fini(&table->tids);
	free(table);
}

size_t rp_process_table_count(const struct rp_process_table *table)
{
	return table->process_count;
}

struct rp_machine_process *rp_process_table_at(const struct rp_process_table *table, size_t index)
{
	return table->processes[index];
}

static struct rp_machine_process *find_process(const struct rp_process_table *table, pid_t pid)
{
	const struct rp_thread_slot *slot = rp_thread_table_find(&table->pids, (uint64_t)pid);

	return slot && slot->index ? table->processes[slot->index - 1] : NULL;
}

static struct rp_machine_thread *find_thread(const struct rp_process_table *table, pid_t tid)
{
	const struct rp_thread_slot *slot = rp_thread_table_find(&table->tids, (uint64_t)tid);

	return slot ? &table->threads[slot->index - 1] : NULL;
}

/* The new life of a pid takes the place of an earlier one. Return: NULL: no memory. */
static struct rp_machine_process *add_process(struct rp_process_table *table, pid_t pid)
{
	struct rp_machine_process *process = calloc(1, sizeof(*process)), **grown;
	struct rp_thread_slot *slot;

	grown = rp_array_reserve(table->processes, table->process_count, &table->process_capacity,
				 1, sizeof(*grown));
	if (grown)
		table->processes = grown;
	if (!process || !grown ||
	    rp_thread_table_add(&table->pids, (uint64_t)pid, &slot) < 0) {
		free(process);
		return NULL;
	}
	process->pid = process->inner_pid = pid;
	process->matches = -ESRCH;
	process->since_ns = rp_machine_time_ns();
	table->processes[table->process_count++] = process;
	slot->index = table->process_count & 0x3fffffff;
	return process;
}

/* Return: NULL: no memory. */
static struct rp_machine_thread *add_thread(struct rp_process_table *table,
					    struct rp_machine_process *process, pid_t tid)
{
	struct rp_machine_thread *thread = find_thread(table, tid), *grown;
	struct rp_thread_slot *slot;

	process->threads++;
	if (thread) {
		/* The record of its end was lost. */
		if (thread->process && !thread->has_ended)
			thread->process->threads--;
		*thread = (struct rp_machine_thread){
			.process = process, .tid = tid, .since_ns = process->since_ns,
			.seen_ns = process->since_ns,
			.trace_id = thread->trace_id + LIFE_STEP,
		};
		return thread;
	}
	grown = rp_array_reserve(table->threads, table->thread_count, &table->thread_capacity, 1,
				 sizeof(*grown));
	if (grown)
		table->threads = grown;
	if (!grown || rp_thread_table_add(&table->tids, (uint64_t)tid, &slot) < 0)
		return NULL;
	grown[table->thread_count++] = (struct rp_machine_thread){
		.process = process, .tid = tid, .since_ns = process->since_ns,
		.seen_ns = process->since_ns, .trace_id = (uint64_t)tid,
	};
	slot->index = table->thread_count & 0x3fffffff;
	return &grown[table->thread_count - 1];
}

/* Whether the path is that of a file, not of anonymous memory, which has "//anon". */
static bool is_file(const char *path)
{
	return (path[0] == '/' && path[1] != '/') || !strcmp(path, "[vdso]");
}

/* 0; -ENOMEM. */
static int add_mapping(struct rp_process_table *table, struct rp_machine_process *process,
		       const struct rp_image_place *place, uint64_t file_offset)
{
	struct rp_mapped mapped = {
		.start = place->start, .end = place->end, .file_offset = file_offset,
	};

	if (is_file(place->path)) {
		mapped.image = rp_images_get(table->images, place);
		if (!mapped.image)
			return -ENOMEM;
	}
	return rp_address_space_add(&process->space, &mapped);
}

/* A line of /proc/PID/maps; a path may contain any character, and the kernel escapes newlines. */
static int read_mapping(struct rp_process_table *table, struct rp_machine_process *process,
			char *line)
{
	struct rp_image_place place = { .process = process->pid };
	unsigned int device_major, device_minor;
	uint64_t file_offset;
	char permissions[5];
	int path = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &place.start, &place.end, permissions, &file_offset, &device_major,
		   &device_minor, &place.inode, &path) < 7 || !path || permissions[2] != 'x')
		return 0;
	place.path = line + path;
	place.device = (uint64_t)device_major << 20 | device_minor;
	return add_mapping(table, process, &place, file_offset);
}

static int read_mappings(struct rp_process_table *table, struct rp_machine_process *process)
{
	char path[64], *line = NULL;
	size_t space = 0;
	FILE *file;
	int ret = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", process->pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (ret == 0 && getline(&line, &space, file) > 0)
		ret = read_mapping(table, process, line);
	free(line);
	fclose(file);
	return ret;
}

static void set_text(char **text, char *value)
{
	if (!value)
		return;
	free(*text);
	*text = value;
}

/* Name and command line, as far as /proc still has them. */
static void read_names(struct rp_machine_process *process)
{
	char *name = rp_proc_name(process->pid), *command_line = rp_proc_command_line(process->pid);
	struct rp_proc about;

	if (rp_proc_read(process->pid, &about) == 0) {
		process->inner_pid = about.inner_pid;
		process->user = about.uid;
		rp_container_read(process->pid, about.inner_pid, process->container);
	}
	/* "?" stands for a name that could not be read. */
	if (name && (!*name || !strcmp(name, "?"))) {
		free(name);
		name = NULL;
	}
	set_text(&process->name, name);
	set_text(&process->command_line, command_line);
}

struct scan {
	struct rp_process_table *table;
	struct rp_machine_process *process;
};

/* Adds the threads that the table does not have yet. */
static int scan_threads(struct scan *scan)
{
	const uint64_t begin_ns = rp_machine_time_ns();
	const struct dirent *entry;
	char path[64];
	int ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", scan->process->pid);
	dir = opendir(path);
	while (dir && ret == 0 && (entry = readdir(dir))) {
		const pid_t tid = (pid_t)atoi(entry->d_name);
		struct rp_machine_thread *added;

		if (tid <= 0 || rp_process_table_find(scan->table, scan->process->pid, tid))
			continue;
		added = add_thread(scan->table, scan->process, tid);
		if (!added) {
			ret = -ENOMEM;
			break;
		}
		added->since_ns = begin_ns;
		added->seen_ns = rp_machine_time_ns();
	}
	if (dir)
		closedir(dir);
	return ret;
}

static int scan_process(struct rp_process_table *table, pid_t pid)
{
	struct scan scan = { table, add_process(table, pid) };
	int ret;

	if (!scan.process)
		return -ENOMEM;
	scan.process->existed = true;
	read_names(scan.process);
	scan.process->is_kernel = rp_proc_code(pid) == RP_PROC_NO_MEMORY;
	ret = scan_threads(&scan);
	if (ret == 0)
		ret = read_mappings(table, scan.process);
	scan.process->has_ended = scan.process->threads == 0;
	return ret;
}

static bool is_chosen(const struct rp_process_choice *choice, pid_t pid)
{
	struct rp_proc about;

	if (choice->by_user && (rp_proc_read(pid, &about) < 0 || about.uid != choice->user))
		return false;
	return rp_proc_descends(pid, &choice->roots);
}

int rp_process_table_scan(struct rp_process_table *table, const struct rp_process_choice *choice)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc");
	int ret = dir ? 0 : -errno;

	while (ret == 0 && (entry = readdir(dir))) {
		const pid_t pid = (pid_t)atoi(entry->d_name);
		struct scan scan = { table, find_process(table, pid) };

		if (pid <= 0 || !is_chosen(choice, pid))
			continue;
		ret = scan.process ? scan_threads(&scan) : scan_process(table, pid);
	}
	if (dir)
		closedir(dir);
	return ret;
}

size_t rp_process_table_thread_count(const struct rp_process_table *table)
{
	return table->thread_count;
}

pid_t *rp_process_table_threads(const struct rp_process_table *table, size_t *ret_count)
{
	pid_t *threads = calloc(table->thread_count ? table->thread_count : 1, sizeof(*threads));

	*ret_count = threads ? table->thread_count : 0;
	for (size_t i = 0; i < *ret_count; i++)
		threads[i] = table->threads[i].tid;
	return threads;
}

struct rp_machine_thread *rp_process_table_find(const struct rp_process_table *table, pid_t pid,
						pid_t tid)
{
	struct rp_machine_thread *thread = find_thread(table, tid);

	return thread && thread->process && thread->process->pid == pid ? thread : NULL;
}

struct rp_machine_thread *rp_process_table_thread(struct rp_process_table *table, pid_t pid,
						  pid_t tid)
{
	struct rp_machine_thread *thread = rp_process_table_find(table, pid, tid);
	struct rp_machine_process *process;

	if (thread)
		return thread;
	process = find_process(table, pid);
	if (!process) {
		process = add_process(table, pid);
		if (!process || read_mappings(table, process) < 0)
			return NULL;
		read_names(process);
	}
	return add_thread(table, process, tid);
}

bool rp_process_table_wants(const struct rp_process_table *table,
			    struct rp_machine_process *process)
{
	if (!table->filter.by_user && !table->filter.cgroup)
		return true;
	if (process->matches < 0 && !process->has_ended)
		process->matches = rp_proc_matches(process->pid, &table->filter);
	return process->matches < 0 ? process->was_wanted : process->matches;
}

struct rp_machine_process *rp_process_table_process(const struct rp_process_table *table, pid_t pid)
{
	return find_process(table, pid);
}

bool rp_process_table_has(const struct rp_process_table *table, pid_t pid, uint64_t time_ns)
{
	const struct rp_machine_process *process = find_process(table, pid);

	return process &&
	       (!process->has_ended || time_ns <= process->ended_ns + RP_PROCESS_END_NS);
}

void rp_process_table_detach(struct rp_process_table *table, pid_t pid, uint64_t time_ns)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&table->pids, (uint64_t)pid);
	struct rp_machine_process *process = find_process(table, pid);

	/* The start of one of its threads is older than a process that was found later. */
	if (!process || time_ns < process->since_ns)
		return;
	slot->index = 0;
	if (process->has_ended)
		return;
	/* The record of its end was lost. */
	process->has_ended = true;
	process->ended_ns = time_ns;
}

static int follow_start(struct rp_process_table *table, const struct rp_perf_record *record)
{
	const struct rp_machine_thread *known = find_thread(table, record->thread);
	struct rp_machine_process *process = find_process(table, record->process), *parent;
	struct rp_proc about;

	if (known && known->process && !known->has_ended && record->time_ns < known->seen_ns)
		return 0;
	if (record->process == record->start.process) {
		if (!process || !add_thread(table, process, record->thread))
			return process ? -ENOMEM : 0;
		return 0;
	}
	process = add_process(table, record->process);
	if (!process)
		return -ENOMEM;
	process->since_ns = record->time_ns;
	parent = find_process(table, record->start.process);
	if (parent) {
		process->is_kernel = parent->is_kernel;
		process->user = parent->user;
		process->was_wanted = rp_process_table_wants(table, parent);
		memcpy(process->container, parent->container, sizeof(process->container));
		if (parent->inner_pid != parent->pid && rp_proc_read(process->pid, &about) == 0)
			process->inner_pid = about.inner_pid;
		set_text(&process->name, parent->name ? strdup(parent->name) : NULL);
		if (rp_address_space_copy(&process->space, &parent->space) < 0)
			return -ENOMEM;
	}
	return add_thread(table, process, record->thread) ? 0 : -ENOMEM;
}

static void follow_end(struct rp_process_table *table, const struct rp_perf_record *record,
		       struct rp_machine_process **ret_ended)
{
	struct rp_machine_thread *thread = find_thread(table, record->thread);

	if (!thread || !thread->process || thread->has_ended ||
	    record->time_ns < thread->since_ns || thread->process->pid != record->process)
		return;
	thread->has_ended = true;
	if (--thread->process->threads > 0)
		return;
	thread->process->has_ended = true;
	thread->process->ended_ns = record->time_ns;
	*ret_ended = thread->process;
}

/* exec(2) ends all other threads; the kernel reports each end. */
static int follow_name(struct rp_process_table *table, const struct rp_perf_record *record)
{
	struct rp_machine_process *process = find_process(table, record->process);
	char *name;

	if (!process || record->time_ns < process->since_ns || record->process != record->thread)
		return 0;
	name = strdup(record->name.text);
	if (!name)
		return -ENOMEM;
	if (record->name.is_exec) {
		rp_address_space_clear(&process->space);
		/* The same addresses are other functions now. */
		rp_thread_table_fini(&process->hits);
		free(process->command_line);
		process->command_line = NULL;
		set_text(&process->name, name);
		read_names(process);
		process->renamed = process->in_trace;
		process->was_wanted = rp_process_table_wants(table, process);
		process->matches = -ESRCH;
	} else if (process->is_kernel || !process->name) {
		set_text(&process->name, name);
	} else {
		free(name);
	}
	return 0;
}

static int follow_mapping(struct rp_process_table *table, const struct rp_perf_record *record)
{
	struct rp_machine_process *process = find_process(table, record->process);
	struct rp_image_place place;

	if (!process || record->time_ns < process->since_ns)
		return 0;
	place = (struct rp_image_place){
		.process = record->process,
		.start = record->mapping.start,
		.end = record->mapping.end,
		.path = record->mapping.path,
		.device = record->mapping.device,
		.inode = record->mapping.inode,
		.build_id = record->mapping.build_id,
		.build_id_bytes = record->mapping.build_id_bytes,
	};
	return add_mapping(table, process, &place, record->mapping.file_offset);
}

int rp_process_table_follow(struct rp_process_table *table, const struct rp_perf_record *record,
			    struct rp_machine_process **ret_ended)
{
	*ret_ended = NULL;
	switch (record->kind) {
	case RP_PERF_START:
		return follow_start(table, record);
	case RP_PERF_END:
		follow_end(table, record, ret_ended);
		return 0;
	case RP_PERF_NAME:
		return follow_name(table, record);
	case RP_PERF_MAPPING:
		return follow_mapping(table, record);
	default:
		return 0;
	}
}

/* The last process takes the place of a forgotten one. */
static void forget_at(struct rp_process_table *table, size_t index)
{
	struct rp_machine_process *process = table->processes[index];
	struct rp_machine_process *last = table->processes[--table->process_count];
	struct rp_thread_slot *slot = rp_thread_table_find(&table->pids, (uint64_t)process->pid);

	if (slot && slot->index == index + 1)
		slot->index = 0;
	table->processes[index] = last;
	slot = rp_thread_table_find(&table->pids, (uint64_t)last->pid);
	if (slot && slot->index == table->process_count + 1)
		slot->index = (index + 1) & 0x3fffffff;
	destroy_process(process);
}

static bool ended_before(const struct rp_machine_process *process, uint64_t before_ns)
{
	return process->has_ended && process->ended_ns < before_ns && process->unnamed == 0;
}

void rp_process_table_forget(struct rp_process_table *table, uint64_t before_ns)
{
	for (size_t i = 0; i < table->thread_count; i++) {
		struct rp_machine_thread *thread = &table->threads[i];

		if (thread->process && ended_before(thread->process, before_ns))
			thread->process = NULL;
	}
	for (size_t i = table->process_count; i > 0; i--) {
		if (ended_before(table->processes[i - 1], before_ns))
			forget_at(table, i - 1);
	}
}
