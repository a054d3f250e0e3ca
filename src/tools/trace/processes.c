/* SPDX-License-Identifier: MIT */
#include "tools/trace/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "nettrace/event_header.h"
#include "tools/cli/display_text.h"
#include "tools/trace/trace_merge.h"

static char *take_text(struct rp_cursor *c)
{
	const uint8_t *text;
	size_t units;

	return rp_cursor_string16(c, &text, &units) ? NULL : rp_text_from_utf16(text, units);
}

static int add(struct rp_processes *processes, struct rp_cursor c)
{
	struct rp_process row = { 0 };
	struct rp_process *grown;

	if (rp_cursor_u32(&c, &row.pid) || rp_cursor_u32(&c, &row.parent))
		return 0;
	row.name = take_text(&c);
	row.command_line = row.name ? take_text(&c) : NULL;
	grown = row.command_line ?
		realloc(processes->rows, (processes->count + 1) * sizeof(*grown)) : NULL;
	if (!grown) {
		free(row.name);
		free(row.command_line);
		return row.command_line ? -ENOMEM : 0;
	}
	/* The threads of a program are those of the program that replaces it. */
	if (!processes->has_threads)
		rp_thread_table_fini(&processes->threads);
	processes->rows = grown;
	processes->rows[processes->count++] = row;
	return 0;
}

/* Finds the latest process with this pid. Return: its index, or SIZE_MAX. */
static size_t find(const struct rp_processes *processes, uint32_t pid)
{
	size_t i = processes->count;

	while (i && processes->rows[i - 1].pid != pid)
		i--;
	return i - 1;
}

/* Note that the thread has another process from now on. */
static int add_pass(struct rp_processes *processes, const struct rp_thread_slot *slot,
		    int64_t time_ns)
{
	struct rp_thread_pass *grown = rp_array_reserve(processes->passes, processes->pass_count,
							&processes->pass_capacity, 1,
							sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	processes->passes = grown;
	grown[processes->pass_count++] = (struct rp_thread_pass){
		.thread = slot->thread, .until_ns = time_ns, .index = slot->sequence - 1,
	};
	return 0;
}

static int assign_thread(struct rp_processes *processes, struct rp_cursor c, int64_t time_ns)
{
	struct rp_thread_slot *slot;
	uint64_t thread;
	size_t index;
	uint32_t pid;
	int ret;

	if (rp_cursor_u64(&c, &thread) || rp_cursor_u32(&c, &pid))
		return 0;
	index = find(processes, pid);
	if (index == SIZE_MAX)
		return 0;
	processes->has_threads = true;
	ret = rp_thread_table_add(&processes->threads, thread, &slot);
	if (ret == 0 && slot->sequence && processes->rows[slot->sequence - 1].pid != pid)
		ret = add_pass(processes, slot, time_ns);
	if (ret == 0)
		slot->sequence = (uint32_t)index + 1;
	return ret;
}

/* In version 6, the stream itself has the process of each thread. */
static int take_thread(struct rp_processes *processes, const struct rp_reader_event *event,
		       const struct rp_thread_slot **ret_slot)
{
	const size_t index = find(processes, (uint32_t)event->process);
	struct rp_thread_slot *slot;

	if (index == SIZE_MAX)
		return 0;
	if (rp_thread_table_add(&processes->threads, event->thread, &slot) < 0)
		return -ENOMEM;
	slot->sequence = (uint32_t)index + 1;
	*ret_slot = slot;
	return 0;
}

static int end(struct rp_processes *processes, struct rp_cursor c)
{
	uint64_t events, lost;
	uint32_t pid, complete;
	size_t index;

	if (rp_cursor_u32(&c, &pid) || rp_cursor_u64(&c, &events) || rp_cursor_u64(&c, &lost) ||
	    rp_cursor_u32(&c, &complete))
		return 0;
	index = find(processes, pid);
	if (index == SIZE_MAX)
		return 0;
	processes->rows[index].lost = lost;
	processes->rows[index].complete = complete;
	return 0;
}

int rp_processes_follow(struct rp_processes *processes, const struct rp_reader_event *event,
			size_t *ret_index)
{
	const uint32_t id = event->type->id;
	const uint8_t *payload = event->payload;
	const struct rp_cursor c = { payload, payload + event->payload_bytes };
	const struct rp_thread_slot *slot;

	*ret_index = SIZE_MAX;
	if (id >= RP_TRACE_MERGE_PROCESS && id <= RP_TRACE_MERGE_END &&
	    !strcmp(event->type->provider, RP_TRACE_MERGE_PROVIDER))
		return id == RP_TRACE_MERGE_PROCESS ? add(processes, c) :
		       id == RP_TRACE_MERGE_THREAD ?
		       assign_thread(processes, c, event->time_ns) : end(processes, c);
	slot = processes->count ? rp_thread_table_find(&processes->threads, event->thread) : NULL;
	if (processes->count && !slot && !processes->has_threads &&
	    take_thread(processes, event, &slot) < 0)
		return -ENOMEM;
	if (slot) {
		*ret_index = slot->sequence - 1;
		processes->rows[*ret_index].events++;
	}
	return 0;
}

int rp_processes_follow_id(struct rp_processes *processes, const struct rp_reader_event *event,
			   uint64_t *ret_process)
{
	size_t index;
	int ret = rp_processes_follow(processes, event, &index);

	*ret_process = index != SIZE_MAX && processes->has_threads ?
		       processes->rows[index].pid : event->process;
	return ret;
}

static int compare_passes(const void *left, const void *right)
{
	const struct rp_thread_pass *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->until_ns > b->until_ns) - (a->until_ns < b->until_ns);
}

void rp_processes_sort(struct rp_processes *processes)
{
	if (processes->pass_count)
		qsort(processes->passes, processes->pass_count, sizeof(*processes->passes),
		      compare_passes);
}

uint64_t rp_processes_find(const struct rp_processes *processes,
			   const struct rp_reader_event *event)
{
	const struct rp_thread_slot *slot = processes->has_threads ?
		rp_thread_table_find(&processes->threads, event->thread) : NULL;
	const struct rp_thread_pass *passes = processes->passes;
	size_t row, at;

	if (!slot)
		return event->process;
	row = slot->sequence - 1;
	at = RP_PARTITION_POINT(index, processes->pass_count,
		passes[index].thread < event->thread ||
		(passes[index].thread == event->thread &&
		 passes[index].until_ns <= event->time_ns));
	if (at < processes->pass_count && passes[at].thread == event->thread)
		row = passes[at].index;
	return processes->rows[row].pid;
}

void rp_processes_fini(struct rp_processes *processes)
{
	for (size_t i = 0; i < processes->count; i++) {
		free(processes->rows[i].name);
		free(processes->rows[i].command_line);
	}
	free(processes->rows);
	free(processes->passes);
	rp_thread_table_fini(&processes->threads);
}

char *rp_process_name_of(const char *command_line)
{
	const char *end = strchrnul(command_line, ' ');
	const char *slash = memrchr(command_line, '/', (size_t)(end - command_line));
	const char *begin = slash ? slash + 1 : command_line;

	return end > begin ? strndup(begin, (size_t)(end - begin)) : NULL;
}
