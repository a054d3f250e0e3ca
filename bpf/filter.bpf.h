/* SPDX-License-Identifier: MIT */
/*
 * A part of waits.bpf.c: leaves out the processes that the recorder rejected, and the children that
 * they start afterwards. Processes on which the recorder has not decided are recorded. If the
 * filter is for a user or a cgroup, a rejection ends when the process changes these.
 */

/* From the id of a process to the life that is rejected, because ids are reused. */
struct {
	/* If an entry is evicted, the recorder rejects the process once more. */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u64);
} rejected SEC(".maps");

const volatile bool has_filter = false;
const volatile bool by_owner = false;	/* the filter is for a user or a cgroup */
const volatile __u64 since_ns = 0;	/* list() leaves out processes that start later */

/* Return: a number that changes with the effective user and with the cgroups of a thread. */
static __always_inline __u64 find_owner(struct task_struct *task)
{
	__u64 cgroups = 0, user;

	if (!by_owner)
		return 0;
	user = BPF_CORE_READ(task, real_cred, euid.val);
	if (bpf_core_field_exists(task->cgroups))
		cgroups = (__u64)BPF_CORE_READ(task, cgroups);
	return cgroups + (user << 32);
}

/* Return: a number that identifies the process as long as its owner is the same. */
static __always_inline __u64 find_life(struct task_struct *task)
{
	return has_filter ? BPF_CORE_READ(task, group_leader, start_time) + find_owner(task) : 0;
}

static __always_inline bool is_rejected(struct task_struct *task)
{
	__u32 process = task->tgid;
	__u64 *life;

	if (!has_filter)
		return false;
	if (process == 0)
		return true;		/* the processor is idle */
	life = bpf_map_lookup_elem(&rejected, &process);
	return life && *life == find_life(task);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 process = child->tgid;
	__u64 life;

	if (child->tgid == parent->tgid || !is_rejected(parent) ||
	    find_owner(parent) != find_owner(child))
		return 0;
	life = find_life(child);
	bpf_map_update_elem(&rejected, &process, &life, BPF_ANY);
	return 0;
}

/* Lists processes that are not rejected, so that the recorder rejects some before any record. */
SEC("iter/task")
int list(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct rp_wait_process process = { 0 };

	if (!task || task->pid != task->tgid || task->start_time >= since_ns || is_rejected(task))
		return 0;
	process.process = task->tgid;
	process.life = find_life(task);
	bpf_seq_write(context->meta->seq, &process, sizeof(process));
	return 0;
}
