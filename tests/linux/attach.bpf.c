/* SPDX-License-Identifier: MIT */
/* Forwards the arguments of a probe, read by libbpf's usdt.bpf.h. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

#define WORDS 12

struct record {
	__u64 count;
	__u64 words[WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

SEC("usdt")
int seen(struct pt_regs *ctx)
{
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	long word = 0;

	if (!record)
		return 0;
	record->count = bpf_usdt_arg_cnt(ctx);
#pragma unroll
	for (int i = 0; i < WORDS; i++) {
		word = 0;
		bpf_usdt_arg(ctx, i, &word);
		record->words[i] = word;
	}
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
