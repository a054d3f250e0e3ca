/* SPDX-License-Identifier: MIT */
/*
 * A part of waits.bpf.c: programs that run on request only, and record interrupts above the
 * threshold.
 *
 * irq_handler_entry, irq_handler_exit: a handler of a hard interrupt runs with interrupts disabled,
 * so a processor runs one handler at a time; those that share an interrupt run one after another.
 *
 * softirq_entry, softirq_exit: a processor also runs one softirq at a time, but a hard interrupt
 * may come meanwhile, so each of the two has its own start time. The duration of a softirq includes
 * the hard interrupts that came meanwhile.
 */
struct irqaction {
	const char *name;
} RELOCATED;

struct interrupt_times {
	__u64 hard_ns, soft_ns;		/* start of the current one; 0: none is current */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interrupt_times);
} interrupts SEC(".maps");

static __always_inline struct interrupt_times *find_times(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&interrupts, &zero);
}

/*
 * Return: a record of the interrupt that began then; NULL: it is below the threshold or has no
 * record. The record is filled in the ring, not in a space of the processor, because a hard
 * interrupt may come while the record of a softirq is filled.
 */
static __always_inline struct rp_wait_record *end_interrupt(__u64 *began_ns)
{
	__u64 now = bpf_ktime_get_ns(), began = *began_ns;
	struct task_struct *task = bpf_get_current_task_btf();
	struct rp_wait_record *record;

	*began_ns = 0;
	/* The recording may start in an interrupt. */
	if (!began || now - began < threshold_ns || is_rejected(task))
		return NULL;
	record = bpf_ringbuf_reserve(&records, RP_WAIT_SHORT_BYTES, 0);
	if (!record) {
		count_loss(RP_WAIT_LOSS_FULL);
		return NULL;
	}
	begin_own(record, task, RP_WAIT_INTERRUPT, now);
	record->began_ns = began;
	return record;
}

static __always_inline void submit(struct rp_wait_record *record)
{
	__u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(record, waiting >= wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int number, struct irqaction *action)
{
	struct interrupt_times *times = find_times();

	if (times)
		times->hard_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int number, struct irqaction *action, int result)
{
	struct interrupt_times *times = find_times();
	struct rp_wait_record *record = times ? end_interrupt(&times->hard_ns) : NULL;

	if (!record)
		return 0;
	record->interrupt.number = (__u32)number;
	record->interrupt.is_soft = 0;
	record->interrupt.is_handled = result != 0;	/* 0: IRQ_NONE */
	record->interrupt.name[0] = '\0';
	bpf_probe_read_kernel_str(record->interrupt.name, sizeof(record->interrupt.name),
				  action->name);
	submit(record);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int number)
{
	struct interrupt_times *times = find_times();

	if (times)
		times->soft_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int number)
{
	struct interrupt_times *times = find_times();
	struct rp_wait_record *record = times ? end_interrupt(&times->soft_ns) : NULL;

	if (!record)
		return 0;
	record->interrupt.number = number;
	record->interrupt.is_soft = 1;
	record->interrupt.is_handled = 1;
	record->interrupt.name[0] = '\0';
	submit(record);
	return 0;
}
