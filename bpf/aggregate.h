/* SPDX-License-Identifier: MIT */
/* Shared by bpf/batch.bpf.c and the program that loads it. */
#ifndef RP_BPF_AGGREGATE_H
#define RP_BPF_AGGREGATE_H

#include <stdint.h>

/* Definitions numbered above are counted together. */
#define RP_BPF_EVENTS 4096u
/* Ways to a field: one for each definition of the event that has it. */
#define RP_BPF_PATHS 64u
#define RP_BPF_STEPS 128u
/* Longest key of a counted value. Longer texts are distinguished by their first bytes. */
#define RP_BPF_KEY_BYTES 64u
#define RP_BPF_KEYS 10240u
/* A histogram: log2 of negative values, 0, log2 of positive ones; or steps from 0 on. */
#define RP_BPF_SLOTS 1024u
#define RP_BPF_LOG2_ZERO 64u

enum rp_bpf_mode {
	RP_BPF_COUNT,		/* events, by definition */
	RP_BPF_COUNT_FIELD,	/* by the values of a field */
	RP_BPF_HISTOGRAM,
	RP_BPF_FORWARD,		/* whole events into the ring */
};

/* How to get over what lies before a field. */
enum rp_bpf_step_kind {
	RP_BPF_STEP_FIXED,	/* so many bytes */
	RP_BPF_STEP_STRING,	/* up to and with a NUL */
	RP_BPF_STEP_STRING16,	/* up to and with a NUL of two bytes */
	RP_BPF_STEP_ARRAY,	/* u16 count, as many elements of so many bytes */
};

struct rp_bpf_step {
	uint32_t kind;
	uint32_t bytes;
};

enum rp_bpf_value_kind {
	RP_BPF_VALUE_UNSIGNED,
	RP_BPF_VALUE_SIGNED,
	RP_BPF_VALUE_FLOAT,	/* of 4 or 8 bytes; without its fraction */
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

/* A value that is counted: a number of 8 bytes, or as many bytes as `bytes` says. */
struct rp_bpf_key {
	uint32_t kind;
	uint32_t bytes;		/* of a text: as long as it is, which may be more than is here */
	uint8_t value[RP_BPF_KEY_BYTES];
};

/* All counters of events but those of definitions. */
struct rp_bpf_stats {
	uint64_t batches;
	uint64_t seen;		/* events whose bytes were there */
	uint64_t unread;	/* events of batches that could not be read, or not to their end */
	uint64_t matched;	/* of those seen, what was asked for */
	uint64_t missing;	/* of those matched, the field was not there: cut before it */
	uint64_t dropped;	/* of those matched: no room in the ring, or for one more value */
};

#endif
