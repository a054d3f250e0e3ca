/* SPDX-License-Identifier: MIT */
/* The part of the recorder that puts the records of BPF programs into the trace. */
#include "tools/ringpipe-record/recorder_parts.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "tools/ringpipe-record/stack_walk.h"
#include "tools/ringpipe-record/syscall_names.h"
#include "unwind/steps.h"

#define FAULT_WRITES 2u			/* x86-64: the fault was caused by a write */

/* Frames of the kernel, and those of the program, which waits or wakes in a system call. */
static uint32_t wait_frames(struct rp_recorder *recorder, const struct rp_wait_record *record,
			    const struct rp_machine_process *process)
{
	const struct rp_wait_registers *user = &record->registers;
	const struct rp_registers registers = {
		.value = {
			[RP_REG_RBX] = user->bx, [RP_REG_RBP] = user->bp,
			[RP_REG_RSP] = user->sp, [RP_REG_R12] = user->r12,
			[RP_REG_R12 + 1] = user->r13, [RP_REG_R12 + 2] = user->r14,
			[RP_REG_R15] = user->r15, [RP_REG_RIP] = user->ip,
		},
		.known = RP_KEPT_REGISTERS | 1u << RP_REG_RSP | 1u << RP_REG_RIP,
	};
	uint32_t count = record->kernel_frames;
	enum rp_walk_end end;

	if (count > RP_WAIT_FRAMES_MAX)
		count = RP_WAIT_FRAMES_MAX;
	if (count)
		memcpy(recorder->frames, record->frames, count * sizeof(uint64_t));
	if (!record->has_registers)
		return count;
	count += rp_stack_walk(&process->space, &registers, record->stack, record->stack_bytes,
			       recorder->frames + count, RP_RECORDER_FRAMES_MAX - count, &end);
	recorder->wait_ends[end]++;
	return count;
}

/* The BPF programs record all processes, of which some may not be chosen. NULL: none. */
static struct rp_machine_thread *find_thread(struct rp_recorder *recorder, uint32_t process,
					     uint32_t thread)
{
	return recorder->is_chosen ?
	       rp_process_table_find(recorder->processes, (pid_t)process, (pid_t)thread) :
	       rp_process_table_thread(recorder->processes, (pid_t)process, (pid_t)thread);
}

/* The thread's id in the trace; 0: no thread, or no memory. */
static uint64_t trace_id(struct rp_recorder *recorder, uint32_t process, uint32_t thread)
{
	const struct rp_machine_thread *found;

	if (thread == 0)
		return 0;
	found = find_thread(recorder, process, thread);
	return found ? found->trace_id : 0;
}

/*
 * The id in the trace of the thread that used the processor before a wait ended. If the trace has
 * no events of its process, the thread keeps the kernel's id.
 */
static uint64_t previous_id(struct rp_recorder *recorder, const struct rp_previous_thread *previous)
{
	const uint64_t id = trace_id(recorder, previous->process, previous->thread);

	return id ? id : previous->thread;
}

/* A record on its way to the trace. */
struct arrival {
	const struct rp_wait_record *record;
	struct rp_record_trace_place place;
	struct rp_machine_thread *thread;
	uint64_t other;			/* the other thread's id in the trace; 0: none */
	uint64_t previous;		/* of a wait: likewise */
	uint32_t frame_count;
};

static int take_wait(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;

	arrival->thread->woken_ns = record->time_ns;
	arrival->thread->waker_process = record->other_process;
	arrival->thread->waker_thread = arrival->other;
	return rp_record_wait(recorder->trace, &arrival->place, &(struct rp_record_wait){
		.duration_ns = record->time_ns - record->began_ns,
		.runnable_ns = record->woken_ns ? record->time_ns - record->woken_ns : 0,
		.state = record->state,
		.waker_process = record->other_process,
		.waker_thread = arrival->other,
		.previous_process = record->previous.process,
		.previous_thread = arrival->previous,
		.previous_ns = record->previous.ran_ns,
		.previous_name = record->previous.name,
	}, recorder->frames, arrival->frame_count);
}

static int take_waking(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;

	return rp_record_waking(recorder->trace, &arrival->place, &(struct rp_record_waking){
		.woken_process = record->other_process,
		.woken_thread = arrival->other,
		.waited_ns = record->time_ns - record->began_ns,
	}, recorder->frames, arrival->frame_count);
}

/* Whether the call is futex(2) and waits: FUTEX_WAIT, LOCK_PI, WAIT_BITSET and their like. */
static bool is_futex_wait(const struct rp_call *call)
{
	const uint64_t operation = call->arguments[1] & (uint64_t)FUTEX_CMD_MASK;

	return call->number == SYS_futex &&
	       (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
		operation == FUTEX_LOCK_PI || operation == FUTEX_WAIT_REQUEUE_PI);
}

static int take_futex_wait(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;
	const struct rp_machine_thread *thread = arrival->thread;
	bool knows_waker = thread->woken_ns > record->began_ns;

	return rp_record_futex_wait(recorder->trace, &arrival->place,
				    &(struct rp_record_futex_wait){
		.address = record->call.arguments[0],
		.result = record->call.result,
		.duration_ns = record->time_ns - record->began_ns,
		.waker_process = knows_waker ? thread->waker_process : 0,
		.waker_thread = knows_waker ? thread->waker_thread : 0,
	}, recorder->frames, arrival->frame_count);
}

static int take_call(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;
	struct rp_record_syscall call = {
		.number = (uint32_t)record->call.number,
		.name = rp_syscall_name(record->call.number),
		.result = record->call.result,
		.duration_ns = record->time_ns - record->began_ns,
		.file = record->file_bytes ? record->call.file : "",
	};
	int ret = 0;

	if ((recorder->options.groups & RP_WAITS_FUTEX) && is_futex_wait(&record->call))
		ret = take_futex_wait(recorder, arrival);
	if (ret || !(recorder->options.groups & RP_WAITS_CALLS))
		return ret;
	memcpy(call.arguments, record->call.arguments, sizeof(call.arguments));
	return rp_record_syscall(recorder->trace, &arrival->place, &call, recorder->frames,
				 arrival->frame_count);
}

static int take_page_fault(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;

	return rp_record_page_fault(recorder->trace, &arrival->place,
				    &(struct rp_record_page_fault){
		.address = record->fault.address,
		.is_write = record->fault.error & FAULT_WRITES,
		.is_major = record->fault.is_major,
		.duration_ns = record->time_ns - record->began_ns,
	}, recorder->frames, arrival->frame_count);
}

static int take_block_request(struct rp_recorder *recorder, const struct arrival *arrival)
{
	static const char *const operations[] = { "read", "write", "flush", "discard" };
	const struct rp_block_request *block = &arrival->record->block;
	const struct rp_record_block_request request = {
		.major = block->major, .minor = block->minor,
		.operation = block->operation < 4 ? operations[block->operation] : "other",
		.sector = block->sector, .bytes = block->bytes, .status = block->status,
		.duration_ns = arrival->record->time_ns - arrival->record->began_ns,
		.device = block->device,
	};

	return rp_record_block_request(recorder->trace, &arrival->place, &request);
}

/* The kernel's order, which is a part of its interface: /proc/softirqs has it. */
static const char *softirq_name(uint32_t number)
{
	static const char *const names[] = {
		"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED",
		"HRTIMER", "RCU",
	};

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "other";
}

static int take_interrupt(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_interrupt *interrupt = &arrival->record->interrupt;

	return rp_record_interrupt(recorder->trace, &arrival->place, &(struct rp_record_interrupt){
		.kind = interrupt->is_soft ? "soft" : "hard",
		.number = interrupt->number,
		.name = interrupt->is_soft ? softirq_name(interrupt->number) : interrupt->name,
		.is_handled = interrupt->is_handled,
		.duration_ns = arrival->record->time_ns - arrival->record->began_ns,
	});
}

static int take_arrival(struct rp_recorder *recorder, const struct arrival *arrival)
{
	const struct rp_wait_record *record = arrival->record;

	switch (record->kind) {
	case RP_WAIT_ENDED:
		return take_wait(recorder, arrival);
	case RP_WAIT_WAKING:
		return take_waking(recorder, arrival);
	case RP_WAIT_CALL:
		return take_call(recorder, arrival);
	case RP_WAIT_FAULT:
		return take_page_fault(recorder, arrival);
	case RP_WAIT_BLOCK:
		return take_block_request(recorder, arrival);
	case RP_WAIT_INTERRUPT:
		return take_interrupt(recorder, arrival);
	default:
		return 0;
	}
}

/* Let the kernel leave out records like this one. */
static void reject(struct rp_recorder *recorder, const struct rp_wait_record *record)
{
	if (recorder->waits)
		rp_waits_reject(recorder->waits, record);
}

/*
 * Whether the record can be of a chosen process. Another process may have the id of a process that
 * has ended. It then started after that process was found, which `life` shows unless it depends on
 * the owner, too.
 */
static bool is_of_chosen(const struct rp_recorder *recorder, const struct rp_wait_record *record)
{
	const struct rp_proc_filter *filter = &recorder->options.filter;
	const struct rp_machine_process *process =
		rp_process_table_process(recorder->processes, (pid_t)record->process);

	if (!rp_process_table_has(recorder->processes, (pid_t)record->process, record->time_ns))
		return false;
	return filter->by_user || filter->cgroup || record->life <= process->since_ns;
}

/*
 * Whether the filter lets the record into the trace. The table may know an old answer, so the
 * filter is asked again for each life of the process.
 */
static bool is_wanted(struct rp_recorder *recorder, const struct rp_wait_record *record,
		      struct rp_machine_process *process)
{
	if (rp_process_table_wants(recorder->processes, process))
		return true;
	if (process->rejected_life != record->life) {
		const int matches = process->has_ended ? -ESRCH :
				    rp_proc_matches(process->pid, &recorder->options.filter);

		if (matches > 0)
			process->matches = matches;
		if (matches)
			return matches > 0;
		process->rejected_life = record->life;
	}
	reject(recorder, record);
	return false;
}

static int take_kernel_record(struct rp_recorder *recorder, const struct rp_wait_record *record)
{
	/* First the other thread: adding a thread may move all of them. */
	struct arrival arrival = {
		.record = record,
		.other = trace_id(recorder, record->other_process, record->other_thread),
	};

	if (record->kind == RP_WAIT_ENDED)
		arrival.previous = previous_id(recorder, &record->previous);

	if (recorder->is_chosen && !is_of_chosen(recorder, record)) {
		reject(recorder, record);
		return 0;
	}
	arrival.thread = find_thread(recorder, record->process, record->thread);
	/* The record of the start of a chosen thread may have been lost. */
	if (!arrival.thread)
		return recorder->is_chosen ? 0 : -ENOMEM;
	if (!is_wanted(recorder, record, arrival.thread->process))
		return 0;
	arrival.place = (struct rp_record_trace_place){
		.time_ns = record->time_ns, .processor = record->processor,
		.thread = arrival.thread, .context = &record->context,
	};
	if (record->kind != RP_WAIT_BLOCK)
		arrival.frame_count = wait_frames(recorder, record, arrival.thread->process);
	return take_arrival(recorder, &arrival);
}

int rp_recorder_take_waits(struct rp_recorder *recorder, uint64_t limit_ns)
{
	struct rp_wait_record *record;
	int ret = 0;

	while (ret == 0 && (record = rp_wait_queue_take(&recorder->wait_queue, limit_ns))) {
		ret = take_kernel_record(recorder, record);
		free(record);
	}
	return ret;
}
