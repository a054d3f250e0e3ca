/* SPDX-License-Identifier: MIT */
/* Declarations shared by bpf/batch.bpf.c and the program that loads it. */
#ifndef RP_BPF_AGGREGATE_H
#define RP_BPF_AGGREGATE_H

#include <stdint.h>

/* Definitions with higher numbers share one count. */
#define RP_BPF_EVENTS 4096u
/* Paths to a field: one for each definition of the event that has the field. */
#define RP_BPF_PATHS 64u
#define RP_BPF_STEPS 128u
/* Longest key of a counted value. Longer texts with the same first bytes count as one. */
#define RP_BPF_KEY_BYTES 64u
#define RP_BPF_KEYS 10240u
/* Slots of a histogram: log2 of negative values, 0, log2 of positive values; or steps from 0 on. */
#define RP_BPF_SLOTS 1024u
#define RP_BPF_LOG2_ZERO 64u

enum rp_bpf_mode {
	RP_BPF_COUNT,		/* events, by definition */
	RP_BPF_COUNT_FIELD,	/* by the values of a field */
	RP_BPF_HISTOGRAM,
	RP_BPF_FORWARD,		/* whole events are copied into the ring */
};

/* How to skip the bytes before a field. */
enum rp_bpf_step_kind {
	RP_BPF_STEP_FIXED,	/* a number of bytes */
	RP_BPF_STEP_STRING,	/* up to and including a NUL */
	RP_BPF_STEP_STRING16,	/* up to and including a two-byte NUL */
	RP_BPF_STEP_ARRAY,	/* u16 count, then elements of a fixed size */
};

struct rp_bpf_step {
	uint32_t kind;
	uint32_t bytes;
};

enum rp_bpf_value_kind {
	RP_BPF_VALUE_UNSIGNED,
	RP_BPF_VALUE_SIGNED,
	RP_BPF_VALUE_FLOAT,	/* of 4 or 8 bytes; truncated to an integer */
	RP_BPF_VALUE_BYTES,	/* of any fixed size */
	RP_BPF_VALUE_STRING,
};

struct rp_bpf_path {
	uint32_t value_kind;
	uint32_t value_bytes;
	uint32_t step_count;
	uint32_t reserved;
	struct rp_bpf_step steps[RP_BPF_STEPS];
};

/* A counted value: a number of 8 bytes, or `bytes` bytes. */
struct rp_bpf_key {
	uint32_t kind;
	uint32_t bytes;		/* length of a text, which may exceed the stored part */
	uint8_t value[RP_BPF_KEY_BYTES];
};

/* All counts except those of definitions. */
struct rp_bpf_stats {
	uint64_t batches;
	uint64_t seen;		/* events whose bytes were present */
	uint64_t unread;	/* events in batches that could not be read (completely) */
	uint64_t matched;	/* seen events that match the selection */
	uint64_t missing;	/* matched events that were cut before the field */
	uint64_t dropped;	/* matched events: no space in the ring or for one more value */
};

#endif
