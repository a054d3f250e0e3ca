/* SPDX-License-Identifier: MIT */
/*
 * A part of waits.bpf.c: programs that run on request only. They record system calls above the
 * threshold, page faults of user mode, and requests to block devices.
 *
 * sys_enter, sys_exit: the call's arguments lie in the thread's storage until it returns. The stack
 * of user mode is the same then.
 *
 * page_fault_user, fault_minor, fault_major: the first runs when a fault begins. The others are the
 * kernel's counters of page faults, which count a fault when it has been handled. A fault that ends
 * in a signal has no record.
 *
 * block_rq_issue, block_rq_complete: the first runs in the thread that issues the request, which a
 * thread of the kernel may do for the thread that wrote; the second in an interrupt.
 */
#define SYS_FUTEX 202			/* x86-64 */
#define REQ_OP_MASK 0xff
/* A shorter call waited for no disk, so its file is of no interest. */
#define FILE_CALL_NS 20000

/* The kernel's types of files, which share a mask. */
#define MODE_TYPE 0xf000
#define MODE_DIRECTORY 0x4000
#define MODE_BLOCK_DEVICE 0x6000
#define MODE_REGULAR 0x8000

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

struct thread_fault {
	__u64 began_ns;			/* 0: the thread handles no fault */
	__u64 address, error;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_fault);
} faults SEC(".maps");

/* The kernel's struct bpf_perf_event_data of x86-64. */
struct counted_fault {
	__u64 registers[21];
	__u64 period, address;
};

struct issued {
	__u64 began_ns, life;
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
bool counts_faults;			/* fault_minor and fault_major are attached */

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_call *call;

	if ((__u32)task->tgid == self || (!all_calls && number != SYS_FUTEX))
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
	record->file_bytes = 0;
	record->time_ns = now;
	record->began_ns = record->woken_ns = 0;
}

/* Return: the descriptor of a file that a call of x86-64 reads, writes or opens; or -1. */
static __always_inline int find_descriptor(const struct thread_call *call, long result)
{
	switch (call->number) {
	case 2: case 85: case 257: case 437:	/* open, creat, openat, openat2 */
		return (int)result;
	case 40:			/* sendfile: the file that it reads */
		return (int)call->arguments[1];
	case 0: case 1: case 17: case 18: case 19: case 20:	/* read, write, their variants */
	case 74: case 75: case 77: case 217:	/* fsync, fdatasync, ftruncate, getdents64 */
	case 277: case 285:			/* sync_file_range, fallocate */
	case 295: case 296: case 327: case 328:	/* preadv, pwritev, their variants */
	case 326:			/* copy_file_range: the file that it reads */
		return (int)call->arguments[0];
	default:
		return -1;
	}
}

/* Only files on disks have a name that says something. */
static __always_inline void take_file(struct rp_wait_record *record, struct task_struct *task,
				      int descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;
	struct dentry *entry;
	unsigned int type;
	long bytes;

	if (descriptor < 0 || (unsigned int)descriptor >= BPF_CORE_READ(table, max_fds))
		return;
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	entry = BPF_CORE_READ(file, f_path.dentry);
	type = BPF_CORE_READ(entry, d_inode, i_mode) & MODE_TYPE;
	if (type != MODE_REGULAR && type != MODE_DIRECTORY && type != MODE_BLOCK_DEVICE)
		return;
	bytes = bpf_probe_read_kernel_str(record->call.file, sizeof(record->call.file),
					  BPF_CORE_READ(entry, d_name.name));
	record->file_bytes = bytes > 0 ? (__u32)bytes : 0;
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
	if (now - began < threshold_ns || is_rejected(task))
		return 0;
	record = begin_record(RP_WAIT_CALL);
	if (!record)
		return 0;
	begin_own(record, task, RP_WAIT_CALL, now);
	record->began_ns = began;
	record->call.number = call->number;
	__builtin_memcpy(record->call.arguments, call->arguments, sizeof(call->arguments));
	record->call.result = result;
	if (now - began >= FILE_CALL_NS)
		take_file(record, task, find_descriptor(call, result));
	take_registers(record, task);
	take_context(&record->context, task);
	/* All calls are too many for copies of stacks. */
	if (threshold_ns)
		take_stack(record);
	put_record(record);
	return 0;
}

static __always_inline void emit_fault(struct task_struct *task, const struct thread_fault *fault,
				       __u64 now, bool is_major)
{
	struct rp_wait_record *record = begin_record(RP_WAIT_FAULT);

	if (!record)
		return;
	begin_own(record, task, RP_WAIT_FAULT, now);
	record->began_ns = fault->began_ns;
	record->fault.address = fault->address;
	record->fault.error = (__u32)fault->error;
	record->fault.is_major = is_major;
	take_registers(record, task);
	take_stack(record);
	take_context(&record->context, task);
	put_record(record);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	struct thread_fault *kept, fault = {
		.began_ns = now, .address = address, .error = error,
	};

	if (!is_recorded(task))
		return 0;
	if (!counts_faults) {
		emit_fault(task, &fault, now, false);
		return 0;
	}
	kept = bpf_task_storage_get(&faults, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (kept)
		*kept = fault;
	else
		count_loss(RP_WAIT_LOSS_STATE);
	return 0;
}

/* The kernel also counts faults of its own at addresses of the program. */
static __always_inline void end_fault(const struct counted_fault *context, bool is_major)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_fault *fault = bpf_task_storage_get(&faults, task, NULL, 0);

	if (!fault || !fault->began_ns || fault->address != context->address)
		return;
	emit_fault(task, fault, bpf_ktime_get_ns(), is_major);
	fault->began_ns = 0;
}

SEC("perf_event")
int fault_minor(struct counted_fault *context)
{
	end_fault(context, false);
	return 0;
}

SEC("perf_event")
int fault_major(struct counted_fault *context)
{
	end_fault(context, true);
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
	out->device[0] = '\0';
	if (disk)
		bpf_probe_read_kernel_str(out->device, sizeof(out->device), disk->disk_name);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)(unsigned long)request;
	struct issued issued = {
		.process = (__u32)task->tgid, .thread = (__u32)task->pid, .life = find_life(task),
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
	record->life = issued->life;
	record->began_ns = issued->began_ns;
	record->block = issued->request;
	record->block.bytes = bytes;
	record->block.status = status;
	bpf_map_delete_elem(&requests, &key);
	put_record(record);
	return 0;
}
