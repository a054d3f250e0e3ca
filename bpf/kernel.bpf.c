/* SPDX-License-Identifier: MIT */
/*
 * Sends the kernel's events of one process into a ring buffer. The programs run for every process
 * of the machine, so each first compares the thread group and returns.
 *
 * A record's time is read after its space was reserved, a mark's time before. The ring is in order
 * of reservations, so each record after a mark has a later time.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.h"
#include "kernel_types.h"

/* Limits threads that are off their processor or in a system call, and pending block requests. */
#define THREADS_MAX 16384
#define REQUESTS_MAX 8192

/* Limits the requests that the block layer merged into one. */
#define MERGED_MAX 64

struct block_device {
	__u32 bd_dev;
} RELOCATED;

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
} RELOCATED;

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	__u32 bi_opf;
	__u8 bi_status;
	struct bvec_iter bi_iter;
} RELOCATED;

struct thread_state {
	__u64 left_ns;			/* when it left its processor; 0: running, or unknown */
	__u64 entered_ns;		/* when it entered the system call; 0: none, or unknown */
	__s32 number;			/* of the system call */
	__u32 reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REQUESTS_MAX);
	__type(key, __u64);
	__type(value, struct rp_kernel_record);
} requests SEC(".maps");

/* The process: its pid in its own pid namespace, and that namespace. */
const volatile __u32 inner_pid;
const volatile __u32 namespace;
const volatile __u64 wake_bytes;

int target;				/* thread group in the kernel's numbering; 0: not found */
__u64 lost;

static void submit(struct rp_kernel_record *record)
{
	bool wake = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >= wake_bytes;

	/* The reader polls now and then: a wake-up would cost the traced thread more. */
	bpf_ringbuf_submit(record, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __u32 number_of(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	struct upid *numbers;

	if (!pid)
		return task->pid;
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	return BPF_CORE_READ(&numbers[pid->level], nr);
}

static struct rp_kernel_record *reserve(enum rp_kernel_kind kind, __u32 thread)
{
	struct rp_kernel_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->time_ns = bpf_ktime_get_ns();
	record->thread = thread;
	record->processor = bpf_get_smp_processor_id();
	record->kind = kind;
	return record;
}

/*
 * Return: the state of a thread of the process, created at its first event. NULL: too many threads.
 */
static struct thread_state *state_of(__u32 pid)
{
	static const struct thread_state none;
	struct thread_state *state = bpf_map_lookup_elem(&threads, &pid);

	if (state)
		return state;
	bpf_map_update_elem(&threads, &pid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&threads, &pid);
}

/* include/linux/sched.h: 1 interruptible, 2 uninterruptible, 4 and 8 stopped, 16 and above dead. */
static enum rp_kernel_reason reason_of(bool preempted, unsigned int state)
{
	if (preempted || state == 0)
		return RP_KERNEL_PREEMPTED;
	if (state & 1)
		return RP_KERNEL_SLEEPING;
	if (state & 2)
		return RP_KERNEL_BLOCKED;
	if (state & (4 | 8))
		return RP_KERNEL_STOPPED;
	return state & (16 | 32 | 128) ? RP_KERNEL_EXITED : RP_KERNEL_UNKNOWN;
}

static void leave(struct task_struct *task, bool preempted)
{
	enum rp_kernel_reason reason = reason_of(preempted, task->__state);
	struct rp_kernel_record *record = reserve(RP_KERNEL_SWITCH_OUT, number_of(task));
	struct thread_state *state = state_of(task->pid);

	if (state) {
		state->left_ns = record ? record->time_ns : bpf_ktime_get_ns();
		state->reason = reason;
	}
	if (!record)
		return;
	record->detail = reason;
	submit(record);
}

static void arrive(struct task_struct *task)
{
	struct rp_kernel_record *record = reserve(RP_KERNEL_SWITCH_IN, number_of(task));
	struct thread_state *state = state_of(task->pid);

	if (record) {
		if (state && state->left_ns) {
			record->values[0] = record->time_ns - state->left_ns;
			record->detail = state->reason;
		}
		submit(record);
	}
	if (state)
		state->left_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	if (prev->tgid == target)
		leave(prev, preempted);
	if (next->tgid == target)
		arrive(next);
	return 0;
}

/* The kernel reuses thread ids: the next thread with this id must start without a state. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(thread_gone, struct task_struct *task)
{
	__u32 pid = task->pid;

	if (task->tgid == target)
		bpf_map_delete_elem(&threads, &pid);
	return 0;
}

static void fault(unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_kernel_record *record;

	if (task->tgid != target)
		return;
	record = reserve(RP_KERNEL_PAGE_FAULT, number_of(task));
	if (!record)
		return;
	record->detail = error_code & 0xff;
	record->values[0] = address;
	record->values[1] = regs->ip;
	submit(record);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	fault(address, regs, error_code);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kernel, unsigned long address, struct pt_regs *regs,
	     unsigned long error_code)
{
	fault(address, regs, error_code);
	return 0;
}

/* Runs in the thread that submits the request; later steps may run in any thread. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_kernel_record *record, request = { 0 };
	__u64 key = (__u64)bio;

	if (task->tgid != target)
		return 0;
	request.thread = number_of(task);
	request.kind = RP_KERNEL_BLOCK_REQUEST;
	request.detail = bio->bi_opf & 0xff;
	request.values[0] = bio->bi_bdev ? bio->bi_bdev->bd_dev : 0;
	request.values[1] = bio->bi_iter.bi_sector;
	request.values[2] = bio->bi_iter.bi_size;
	record = reserve(RP_KERNEL_BLOCK_REQUEST, request.thread);
	request.time_ns = record ? record->time_ns : bpf_ktime_get_ns();
	request.processor = bpf_get_smp_processor_id();
	/* Without an entry, the end of the request is not reported. */
	if (bpf_map_update_elem(&requests, &key, &request, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
	if (!record)
		return 0;
	*record = request;
	submit(record);
	return 0;
}

static void complete(struct bio *bio, __u8 status)
{
	__u64 key = (__u64)bio;
	struct rp_kernel_record *request = bpf_map_lookup_elem(&requests, &key), *record;

	if (!request)
		return;
	record = reserve(RP_KERNEL_BLOCK_COMPLETE, request->thread);
	if (record) {
		record->detail = request->detail;
		record->failed = status;
		record->values[0] = request->values[0];
		record->values[1] = request->values[1];
		record->values[2] = request->values[2];
		record->values[3] = record->time_ns - request->time_ns;
		submit(record);
	}
	bpf_map_delete_elem(&requests, &key);
}

/* Request-based devices: the end of a request or of a part of it. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request, __u8 status, unsigned int bytes)
{
	struct bio *bio = request->bio;

	for (int i = 0; i < MERGED_MAX && bio; i++) {
		unsigned int size = bio->bi_iter.bi_size;

		if (size > bytes)
			break;
		bytes -= size;
		complete(bio, status);
		bio = bio->bi_next;
	}
	return 0;
}

/* All other devices, such as those of the device mapper. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, struct request_queue *queue, struct bio *bio)
{
	complete(bio, bio->bi_status);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_kernel_record *record;
	struct thread_state *state;

	if (task->tgid != target)
		return 0;
	record = reserve(RP_KERNEL_SYSCALL_ENTER, number_of(task));
	state = state_of(task->pid);
	if (state) {
		state->entered_ns = record ? record->time_ns : bpf_ktime_get_ns();
		state->number = number;
	}
	if (!record)
		return 0;
	record->values[0] = number;
	submit(record);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_kernel_record *record;
	struct thread_state *state;

	if (task->tgid != target)
		return 0;
	record = reserve(RP_KERNEL_SYSCALL_EXIT, number_of(task));
	state = state_of(task->pid);
	if (record) {
		record->values[0] = -1;
		record->values[1] = result;
		if (state && state->entered_ns) {
			record->values[0] = state->number;
			record->values[2] = record->time_ns - state->entered_ns;
		}
		submit(record);
	}
	if (state)
		state->entered_ns = 0;
	return 0;
}

/* Finds the process, since the reader knows its pid only in another pid namespace. */
SEC("iter/task")
int find_target(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct upid *numbers, *number;

	if (!task || task->pid != task->tgid || !task->thread_pid)
		return 0;
	numbers = (void *)task->thread_pid + bpf_core_field_offset(struct pid, numbers);
	number = &numbers[task->thread_pid->level];
	if ((__u32)BPF_CORE_READ(number, nr) == inner_pid &&
	    BPF_CORE_READ(number, ns, ns.inum) == namespace)
		target = task->tgid;
	return 0;
}

SEC("syscall")
int put_mark(void *context)
{
	__u64 now = bpf_ktime_get_ns();
	struct rp_kernel_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record)
		return 1;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RP_KERNEL_MARK;
	record->time_ns = now;
	record->values[0] = lost;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
