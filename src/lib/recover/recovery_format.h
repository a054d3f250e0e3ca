/* SPDX-License-Identifier: MIT */
/*
 * The directory of a recoverable session. doc/recovery.md describes recovery for users. All numbers
 * are in the machine's byte order.
 *
 *	session		struct rp_recover_header, then two struct rp_recover_record with space for
 *			`ring_space` tails each
 *	events		definitions, one after another: u32 bytes that follow, u32 index, u32 id,
 *			u8 version, u8 level, u8 opcode, u8 0, u64 keywords, provider, name, fields.
 *			Texts end with a 0. Fields are u16 count, and of each u8 type, u8 element,
 *			name, and its members, which are fields again. A later definition of an
 *			index replaces the earlier.
 *	ring-N		struct rp_ring, at RP_RING_CONTROL_BYTES its data
 *
 * ORDERING against SIGKILL, which stops the process between two instructions and loses no store.
 * Program order is enough, as long as compilers keep it:
 *
 *	output		write(2), then the record, then `generation`	[RECOVER-RECORD], then the
 *			tails that writers see: a byte of a ring is reused only after a record says
 *			that its content is in the output
 *	definition	write(2), then the bit in the event's word
 *	start		all of it, then the magic, then the first bit
 *
 *	writer of the record		reader, when no process is left
 *	--------------------		-------------------------------
 *	fill record[generation + 1 & 1]	load generation	[RECOVER-RECORD] acquire
 *	store generation + 1		take record[generation & 1]
 *	   [RECOVER-RECORD] release
 */
#ifndef RP_RECOVER_RECOVERY_FORMAT_H
#define RP_RECOVER_RECOVERY_FORMAT_H

#include <stdint.h>

/* With the version of all of this, struct rp_ring and struct rp_record included. */
#define RP_RECOVER_MAGIC "RPRECOV3"
/* The index of the event that reports a window, if the session has one. */
#define RP_RECOVER_WINDOW_INDEX 2u
#define RP_RECOVER_NAME_BYTES 128u
#define RP_RECOVER_PATH_BYTES 4096u
#define RP_RECOVER_RINGS_MAX 16384u

struct rp_recover_header {
	char magic[8];
	uint64_t generation;		/* record[generation & 1] counts */
	uint32_t ring_space;		/* tails in a record */
	uint32_t process_id;
	uint32_t processors;
	uint8_t clock_is_tsc;		/* else ticks are nanoseconds */
	uint8_t ended;			/* the output is complete, and nothing is left here */
	uint8_t failed;			/* the output did; the process may live on */
	uint8_t reserved;
	uint64_t start_ns;		/* as in the head of the output */
	int64_t start_utc_ns;
	char name[RP_RECOVER_NAME_BYTES];	/* of the session */
	char output[RP_RECOVER_PATH_BYTES];	/* absolute; "": none */
};

struct rp_recover_record {
	uint64_t output_bytes;		/* up to here the output counts */
	uint64_t last_ns;		/* no event is earlier than this */
	uint64_t from_ns;		/* overwriting: complete since then; 0: it did not begin */
	uint64_t lost_reported;		/* losses reported in the output up to there */
	uint64_t lost_besides;		/* losses that rings do not count themselves */
	uint64_t clock_ticks, clock_ns;	/* a moment, and the rate around it */
	double clock_ns_per_tick;
	uint64_t ring_count;
	/* By N: the output has all before a tail, and nothing that a ring gave up after it. */
	uint64_t tails[];
};

static inline uint64_t rp_recover_record_bytes(uint32_t ring_space)
{
	return sizeof(struct rp_recover_record) + ring_space * sizeof(uint64_t);
}

#endif
