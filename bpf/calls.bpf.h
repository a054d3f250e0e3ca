/* SPDX-License-Identifier: MIT */
/*
 * A part of waits.bpf.c: programs that run on request only. They record system calls above the
 * threshold, page faults of user mode, and requests to block devices.
 *
 * sys_enter, sys_exit: the call's arguments lie in the thread's storage until it returns. The stack
 * of user mode is the same then.
 *
 * block_rq_issue, block_rq_complete: the first runs in the thread that issues the request, which a
 * thread of the kernel may do for the thread that wrote; the second in an interrupt.
 */
#define SYS_FUTEX 202			/* x86-64 */
#define REQ_OP_MASK 0xff

struct thread_call {
	__u64 began_ns;			/* 0: the thread is in no call */
	__u64 number;
	__u64 arguments[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_call);
} calls SEC(".maps");

struct issued {
	__u64 began_ns;
	__u32 process, thread;
	struct rp_block_request request;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct issued);
} requests SEC(".maps");

const volatile bool all_calls = false;	/* false: of futexes alone */

static __always_inline bool is_recorded(const struct task_struct *task)
{
	return (__u32)task->tgid != self;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_call *call;

	if (!is_recorded(task) || (!all_calls && number != SYS_FUTEX))
		return 0;
	call = bpf_task_storage_get(&calls, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		count_loss(RP_WAIT_LOSS_STATE);
		return 0;
	}
	call->number = (__u64)number;
	call->arguments[0] = regs->di;
	call->arguments[1] = regs->si;
	call->arguments[2] = regs->dx;
	call->arguments[3] = regs->r10;
	call->arguments[4] = regs->r8;
	call->arguments[5] = regs->r9;
	call->began_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void begin_own(struct rp_wait_record *record, struct task_struct *task,
				      __u32 kind, __u64 now)
{
	fill(record, task);
	record->kind = kind;
	record->state = 0;
	record->other_thread = record->other_process = 0;
	record->processor = bpf_get_smp_processor_id();
	record->kernel_frames = 0;
	record->time_ns = now;
	record->began_ns = record->woken_ns = 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_call *call = bpf_task_storage_get(&calls, task, NULL, 0);
	struct rp_wait_record *record;
	__u64 now, began;

	if (!call || !call->began_ns)
		return 0;
	now = bpf_ktime_get_ns();
	began = call->began_ns;
	call->began_ns = 0;
	if (now - began < threshold_ns)
		return 0;
	record = begin_record(RP_WAIT_CALL);
	if (!record)
		return 0;
	begin_own(record, task, RP_WAIT_CALL, now);
	record->began_ns = began;
	record->call.number = call->number;
	__builtin_memcpy(record->call.arguments, call->arguments, sizeof(call->arguments));
	record->call.result = result;
	take_registers(record, task);
	/* All calls are too many for copies of stacks. */
	if (threshold_ns)
		take_stack(record);
	put_record(record);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_wait_record *record = begin_record(RP_WAIT_FAULT);

	if (!record || !is_recorded(task))
		return 0;
	begin_own(record, task, RP_WAIT_FAULT, bpf_ktime_get_ns());
	record->fault.address = address;
	record->fault.error = error;
	take_registers(record, task);
	take_stack(record);
	put_record(record);
	return 0;
}

static __always_inline void describe(struct request *request, struct rp_block_request *out)
{
	struct gendisk *disk = NULL;

	if (bpf_core_field_exists(request->q->disk))
		disk = BPF_CORE_READ(request, q, disk);
	else if (bpf_core_field_exists(request->rq_disk))
		disk = BPF_CORE_READ(request, rq_disk);
	out->major = disk ? (__u32)BPF_CORE_READ(disk, major) : 0;
	out->minor = disk ? (__u32)BPF_CORE_READ(disk, first_minor) : 0;
	out->sector = BPF_CORE_READ(request, __sector);
	out->bytes = BPF_CORE_READ(request, __data_len);
	out->operation = BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK;
	out->status = 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)(unsigned long)request;
	struct issued issued = {
		.process = (__u32)task->tgid, .thread = (__u32)task->pid,
	};

	if (!is_recorded(task))
		return 0;
	describe(request, &issued.request);
	issued.began_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&requests, &key, &issued, BPF_ANY))
		count_loss(RP_WAIT_LOSS_STATE);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request, int status, unsigned int bytes)
{
	__u64 key = (__u64)(unsigned long)request, now = bpf_ktime_get_ns();
	struct issued *issued = bpf_map_lookup_elem(&requests, &key);
	struct rp_wait_record *record;

	if (!issued)
		return 0;
	record = begin_record(RP_WAIT_BLOCK);
	if (!record)
		return 0;
	begin_own(record, bpf_get_current_task_btf(), RP_WAIT_BLOCK, now);
	record->process = issued->process;
	record->thread = issued->thread;
	record->began_ns = issued->began_ns;
	record->block = issued->request;
	record->block.bytes = bytes;
	record->block.status = status;
	bpf_map_delete_elem(&requests, &key);
	put_record(record);
	return 0;
}
