/* SPDX-License-Identifier: MIT */
/*
 * A part of waits.bpf.c: reads the trace id and the span id that a thread publishes by
 * OpenTelemetry's OTEP 4947 (oteps/profiles/4947-thread-ctx.md). A pointer in the thread-local
 * storage leads to the record of the ids. The recorder finds the place of the pointer and stores it
 * in a map. All that a process publishes is untrusted: what cannot be read is no id.
 */

/* From the id of a process to the place of the pointer in each of its threads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct rp_context_place);
} context_places SEC(".maps");

/* The record of a sample's ids goes into the ring of perf_events, before the sample. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, int);
	__type(value, int);
} sample_contexts SEC(".maps");

/* The record of OTEP 4947, up to its attributes. */
struct published_context {
	__u8 trace_id[16], span_id[8];
	__u8 is_valid;
	__u8 flags;
	__u16 attribute_bytes;
};

/* A thread's DTV of glibc: a word of state, then two words for each loaded object. */
#define DTV_ENTRY_BYTES 16
#define DTV_POINTER_OFFSET 8

static __always_inline __u64 find_pointer(const struct rp_context_place *place, __u64 thread)
{
	__u64 vector = 0, block = 0;

	if (place->module == 0)
		return thread + place->offset;
	if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(thread + DTV_POINTER_OFFSET)) ||
	    bpf_probe_read_user(&block, sizeof(block),
				(void *)(vector + place->module * DTV_ENTRY_BYTES)))
		return 0;
	/* glibc marks a block that the thread has not used yet by the largest address. */
	return block == 0 || block == ~0ull ? 0 : block + place->offset;
}

/* Read the ids of the current thread. */
static __always_inline void take_context(struct rp_trace_context *context,
					 struct task_struct *task)
{
	struct published_context published = { 0 };
	struct rp_context_place *place;
	__u32 process = task->tgid;
	__u64 pointer, record = 0;

	context->is_valid = 0;
	place = bpf_map_lookup_elem(&context_places, &process);
	if (!place || !bpf_core_field_exists(task->thread.fsbase))
		return;
	pointer = find_pointer(place, BPF_CORE_READ(task, thread.fsbase));
	if (!pointer || bpf_probe_read_user(&record, sizeof(record), (void *)pointer) || !record ||
	    bpf_probe_read_user(&published, sizeof(published), (void *)record) ||
	    published.is_valid != 1)
		return;
	__builtin_memcpy(context->trace_id, published.trace_id, sizeof(context->trace_id));
	__builtin_memcpy(context->span_id, published.span_id, sizeof(context->span_id));
	context->is_valid = 1;
}

/* Runs before the kernel stores a sample, on the same processor. Return: 1: store it. */
SEC("perf_event")
int sample_context(void *event)
{
	struct rp_trace_context context = { 0 };

	take_context(&context, bpf_get_current_task_btf());
	if (context.is_valid)
		bpf_perf_event_output(event, &sample_contexts, BPF_F_CURRENT_CPU, &context,
				      sizeof(context));
	return 1;
}
