/* SPDX-License-Identifier: MIT */
/*
 * Records each wait of a thread above a threshold: how long the thread was off its processor, with
 * its stack, and who woke it, with the waker's stack.
 *
 * sched_switch: the thread that leaves gets the time in its storage. The thread that comes back has
 * waited. If it waited long, the program stores its kernel stack, which has not changed since the
 * wait began, and its record is due. Each processor runs one thread, so it has at most one due
 * record.
 *
 * rseq_update: the kernel calls it on the way to user mode, in the context of the thread, if the
 * thread has registered a restartable sequence, as every thread of glibc 2.35 has. The due record
 * is made here, because only here can the user's stack be read. The stack has not changed, because
 * the thread has not run in user mode since. A thread that waits again before makes its due record
 * when it leaves.
 *
 * sched_waking: makes the waker's record, in the context of the waker.
 *
 * The record of a thread without a restartable sequence, or without user mode, is made as soon as
 * it comes back, with its registers, and without a user's stack.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel_types.h"
#include "waits.h"

/* The kernel's flag of its own threads. */
#define PF_KTHREAD 0x00200000

/* The kernel's state of a thread that leaves its processor for the last time. */
#define TASK_DEAD 0x80

struct thread_wait {
	__u64 started_ns;		/* when the thread started, because ids are reused */
	__u64 began_ns;			/* 0: the thread runs */
	__u64 woken_ns;
	__u32 state;
	__u32 waker_thread, waker_process;
};

/*
 * For threads without task storage. The kernel refuses to create it while it changes that of
 * another thread on the same processor, or if it has no memory without a wait. A thread that ends
 * removes its entry.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct thread_wait);
} more_waits SEC(".maps");

/* The record that is due of the thread which runs on this processor. */
struct due {
	struct thread_wait wait;
	__u64 ended_ns;			/* 0: none is due */
	__s64 frame_bytes;
	__u64 frames[RP_WAIT_FRAMES_MAX];
	struct rp_previous_thread previous;
	__u64 switched_ns;		/* the last switch on this processor; 0: unknown */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_wait);
} waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct due);
} due_records SEC(".maps");

/* Where a record is filled, except that of an interrupt. The stack is copied in pieces of 1 KB. */
struct space {
	__u64 words[(sizeof(struct rp_wait_record) + RP_WAIT_STACK_BYTES + 1024) / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RP_WAIT_INTERRUPT);
	__type(key, __u32);
	__type(value, struct space);
} spaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} records SEC(".maps");

const volatile __u64 threshold_ns = 1000000;
const volatile __u32 self = 0;		/* the recorder's process, whose waits are left out */
const volatile __u64 wake_bytes = 1 << 20;

__u64 lost[RP_WAIT_LOSS_COUNT];

#include "filter.bpf.h"
#include "thread_context.bpf.h"

static __always_inline bool is_recorded(struct task_struct *task)
{
	return (__u32)task->tgid != self && !is_rejected(task);
}

static __always_inline void count_loss(enum rp_wait_loss reason)
{
	__sync_fetch_and_add(&lost[reason], 1);
}

/* Each kind of record has its own space: an interrupt may wake a thread while a wait is filled. */
static __always_inline struct rp_wait_record *begin_record(__u32 kind)
{
	struct space *space = bpf_map_lookup_elem(&spaces, &kind);

	return (struct rp_wait_record *)space;
}

/* Stores only the part of the stack that was copied. */
static __always_inline void put_record(struct rp_wait_record *record)
{
	__u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
	__u64 size = rp_wait_record_bytes(record);

	if (size > sizeof(*record) + RP_WAIT_STACK_BYTES)
		size = sizeof(*record);
	if (bpf_ringbuf_output(&records, record, size,
			       waiting >= wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		count_loss(RP_WAIT_LOSS_FULL);
}

static __always_inline void take_registers(struct rp_wait_record *record, struct task_struct *task)
{
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(task);

	record->registers.bx = BPF_CORE_READ(user, bx);
	record->registers.bp = BPF_CORE_READ(user, bp);
	record->registers.r12 = BPF_CORE_READ(user, r12);
	record->registers.r13 = BPF_CORE_READ(user, r13);
	record->registers.r14 = BPF_CORE_READ(user, r14);
	record->registers.r15 = BPF_CORE_READ(user, r15);
	record->registers.ip = BPF_CORE_READ(user, ip);
	record->registers.sp = BPF_CORE_READ(user, sp);
	record->has_registers = 1;
}

/*
 * Copies the user's stack in pieces, up to the first piece that is not in memory: usually the end
 * of the stack.
 */
static __always_inline void take_stack(struct rp_wait_record *record)
{
	__u64 from = record->registers.sp;
	__u32 done = 0, piece = 1024 - (from & 1023);

	for (int i = 0; i < 16; i++) {
		if (piece > 1024 || done > RP_WAIT_STACK_BYTES - 1024)
			break;
		if (bpf_probe_read_user(&record->stack[done & (RP_WAIT_STACK_BYTES - 1)], piece,
					(void *)(from + done)))
			break;
		done += piece;
		piece = 1024;
	}
	record->stack_bytes = done;
}

static __always_inline void fill(struct rp_wait_record *record, struct task_struct *task)
{
	record->process = task->tgid;
	record->thread = task->pid;
	record->life = find_life(task);
	record->has_registers = 0;
	record->stack_bytes = 0;
	record->context.is_valid = 0;
}

static __always_inline void fill_wait(struct rp_wait_record *record, struct due *due)
{
	__s64 bytes = due->frame_bytes;

	record->kind = RP_WAIT_ENDED;
	record->state = due->wait.state;
	record->other_thread = due->wait.waker_thread;
	record->other_process = due->wait.waker_process;
	record->processor = bpf_get_smp_processor_id();
	record->time_ns = due->ended_ns;
	record->began_ns = due->wait.began_ns;
	record->woken_ns = due->wait.woken_ns;
	record->kernel_frames = bytes > 0 ? (__u32)bytes / 8 : 0;
	__builtin_memcpy(record->frames, due->frames, sizeof(record->frames));
	record->previous = due->previous;
}

static __always_inline void emit(struct task_struct *task, struct due *due, bool with_stack)
{
	struct rp_wait_record *record = begin_record(RP_WAIT_ENDED);

	if (!record)
		return;
	fill(record, task);
	fill_wait(record, due);
	due->ended_ns = 0;
	if (!(task->flags & PF_KTHREAD))
		take_registers(record, task);
	if (with_stack) {
		take_stack(record);
		take_context(&record->context, task);
	}
	put_record(record);
}

static __always_inline bool has_sequence(const struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && bpf_core_field_exists(task->rseq) && task->rseq;
}

static __always_inline struct thread_wait *find_more(const struct task_struct *task)
{
	__u32 thread = task->pid;
	struct thread_wait *wait = bpf_map_lookup_elem(&more_waits, &thread);

	return wait && wait->started_ns == task->start_time ? wait : NULL;
}

static __always_inline struct thread_wait *find_wait(struct task_struct *task)
{
	struct thread_wait *wait = bpf_task_storage_get(&waits, task, NULL, 0);

	return wait ? wait : find_more(task);
}

static __always_inline struct thread_wait *make_wait(struct task_struct *task)
{
	struct thread_wait *wait, none = { .started_ns = task->start_time };
	__u32 thread = task->pid;

	wait = bpf_task_storage_get(&waits, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (wait || bpf_map_update_elem(&more_waits, &thread, &none, BPF_ANY))
		return wait;
	return bpf_map_lookup_elem(&more_waits, &thread);
}

/* The id of a thread that ends may already belong to another thread. */
static __always_inline void forget_wait(const struct task_struct *task)
{
	__u32 thread = task->pid;

	if (find_more(task))
		bpf_map_delete_elem(&more_waits, &thread);
}

static __always_inline void leave(struct task_struct *task, struct due *due, bool preempt,
				  __u64 now)
{
	struct thread_wait *wait;

	if (due->ended_ns)
		emit(task, due, true);
	if (task->pid == 0 || (__u32)task->tgid == self)
		return;
	if (task->__state & TASK_DEAD) {
		forget_wait(task);
		return;
	}
	wait = make_wait(task);
	if (!wait) {
		count_loss(RP_WAIT_LOSS_STATE);
		return;
	}
	/*
	 * A thread that is preempted on its way to sleep has the state of a sleep, and can run. The
	 * bits above the mask say how a sleep may be ended.
	 */
	wait->state = preempt ? RP_WAIT_PREEMPTED : task->__state & RP_WAIT_STATE_MASK;
	wait->began_ns = now;
	wait->woken_ns = wait->state ? 0 : now;
	wait->waker_thread = wait->waker_process = 0;
}

/* Note which thread used the processor while the waiting thread was ready to run. */
static __always_inline void take_previous(struct due *due, struct task_struct *previous)
{
	__u64 from = due->wait.woken_ns ? due->wait.woken_ns : due->wait.began_ns;

	__builtin_memset(&due->previous, 0, sizeof(due->previous));
	if (previous->pid == 0 || !due->switched_ns)
		return;
	due->previous.process = previous->tgid;
	due->previous.thread = previous->pid;
	due->previous.ran_ns = due->ended_ns - (due->switched_ns > from ? due->switched_ns : from);
	bpf_probe_read_kernel(due->previous.name, sizeof(due->previous.name), previous->comm);
}

static __always_inline void come_back(struct task_struct *task, struct task_struct *previous,
				      struct due *due, __u64 now)
{
	struct thread_wait *wait;

	if (task->pid == 0)
		return;
	wait = find_wait(task);
	if (!wait || !wait->began_ns)
		return;
	if (now - wait->began_ns >= threshold_ns && !is_rejected(task)) {
		due->wait = *wait;
		due->ended_ns = now;
		due->frame_bytes = bpf_get_task_stack(task, due->frames, sizeof(due->frames), 0);
		take_previous(due, previous);
		if (!has_sequence(task))
			emit(task, due, false);
	}
	wait->began_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct due *due = bpf_map_lookup_elem(&due_records, &zero);

	if (!due)
		return 0;
	leave(prev, due, preempt, now);
	come_back(next, prev, due, now);
	due->switched_ns = now;
	return 0;
}

SEC("tp_btf/rseq_update")
int BPF_PROG(rseq_update, struct task_struct *task)
{
	__u32 zero = 0;
	struct due *due = bpf_map_lookup_elem(&due_records, &zero);

	if (due && due->ended_ns)
		emit(task, due, true);
	return 0;
}

/* Makes the state of a thread in advance, where the kernel may wait for memory. */
SEC("iter/task")
int prepare(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;

	if (task)
		(void)bpf_task_storage_get(&waits, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

static __always_inline void emit_waking(struct task_struct *waker,
					const struct task_struct *sleeper,
					const struct thread_wait *wait, void *context)
{
	struct rp_wait_record *record = begin_record(RP_WAIT_WAKING);
	__s64 bytes;

	if (!record)
		return;
	fill(record, waker);
	record->kind = RP_WAIT_WAKING;
	record->state = wait->state;
	record->other_thread = sleeper->pid;
	record->other_process = sleeper->tgid;
	record->processor = bpf_get_smp_processor_id();
	record->time_ns = record->woken_ns = wait->woken_ns;
	record->began_ns = wait->began_ns;
	/* Without this program and its caller. */
	bytes = bpf_get_stack(context, record->frames, sizeof(record->frames), 2);
	record->kernel_frames = bytes > 0 ? (__u32)bytes / 8 : 0;
	if (!(waker->flags & PF_KTHREAD)) {
		take_registers(record, waker);
		take_stack(record);
		take_context(&record->context, waker);
	}
	put_record(record);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *sleeper)
{
	struct thread_wait *wait = find_wait(sleeper);
	struct task_struct *waker;
	__u64 now;

	/* Only the first waking counts. */
	if (!wait || !wait->began_ns || wait->woken_ns)
		return 0;
	now = bpf_ktime_get_ns();
	wait->woken_ns = now;
	waker = bpf_get_current_task_btf();
	wait->waker_thread = waker->pid;
	wait->waker_process = waker->tgid;
	if (now - wait->began_ns >= threshold_ns && waker->pid && is_recorded(waker))
		emit_waking(waker, sleeper, wait, ctx);
	return 0;
}

#include "calls.bpf.h"
#include "interrupts.bpf.h"

/* The kernel gives some helpers only to programs under the GPL. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
