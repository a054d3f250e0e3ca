/* SPDX-License-Identifier: MIT */
/*
 * The directory of a recoverable session. doc/recovery.md describes recovery for users. All numbers
 * are in the machine's byte order.
 *
 *	session		struct rp_recover_header, then two struct rp_recover_record with space for
 *			`ring_space` tails each
 *	events		definitions, one after another: u32 bytes that follow, u32 index, u32 id,
 *			u8 version, u8 level, u8 opcode, u8 0, u64 keywords, provider, name, fields.
 *			Texts end with a 0. Fields are a u16 count and for each field u8 type,
 *			u8 element, name, and its members, which are fields again. A later
 *			definition of an index replaces the earlier one.
 *	ring-N		struct rp_ring; its data begins at RP_RING_CONTROL_BYTES
 *
 * ORDERING against SIGKILL, which stops the process between two instructions and loses no store.
 * Program order suffices if the compiler keeps it:
 *
 *	output		write(2), then the record, then `generation`	[RECOVER-RECORD], then the
 *			tails that writers read: a byte of a ring is reused only after a record
 *			states that its content is in the output
 *	definition	write(2), then the bit in the event's word
 *	start		all files, then the magic, then the first bit
 *
 *	writer of the record		reader, after all processes have ended
 *	--------------------		-------------------------------
 *	fill record[generation + 1 & 1]	load generation	[RECOVER-RECORD] acquire
 *	store generation + 1		take record[generation & 1]
 *	   [RECOVER-RECORD] release
 */
#ifndef RP_RECOVER_RECOVERY_FORMAT_H
#define RP_RECOVER_RECOVERY_FORMAT_H

#include <stdint.h>

/* The magic includes the version of this format, of struct rp_ring and of struct rp_record. */
#define RP_RECOVER_MAGIC "RPRECOV4"
/* The index of the event that reports a window, if the session has one. */
#define RP_RECOVER_WINDOW_INDEX 2u
#define RP_RECOVER_NAME_BYTES 128u
#define RP_RECOVER_PATH_BYTES 4096u
#define RP_RECOVER_RINGS_MAX 16384u

struct rp_recover_header {
	char magic[8];
	uint64_t generation;		/* record[generation & 1] is valid */
	uint32_t ring_space;		/* number of tails in a record */
	uint32_t process_id;
	uint32_t processors;
	uint8_t clock_is_tsc;		/* else ticks are nanoseconds */
	uint8_t ended;			/* the output is complete: there is nothing to recover */
	uint8_t failed;			/* the output failed; the process may still run */
	uint8_t format;			/* version of nettrace: 6; otherwise 4 */
	uint64_t start_ns;		/* as in the header of the output */
	int64_t start_utc_ns;
	uint64_t own_ids;		/* of activities, as in struct rp_encoder_info */
	char name[RP_RECOVER_NAME_BYTES];	/* of the session */
	char output[RP_RECOVER_PATH_BYTES];	/* absolute path; "": none */
};

struct rp_recover_record {
	uint64_t output_bytes;		/* valid bytes of the output */
	uint64_t last_ns;		/* no event is earlier than this */
	uint64_t from_ns;		/* overwriting: complete since then; 0: not begun yet */
	uint64_t lost_reported;		/* losses reported in those bytes */
	uint64_t lost_besides;		/* losses that no ring counts */
	uint64_t clock_ticks, clock_ns;	/* one reading of both clocks, and the rate around it */
	double clock_ns_per_tick;
	uint64_t ring_count;
	/*
	 * By ring number: the output contains all records before the tail that the ring did not
	 * overwrite.
	 */
	uint64_t tails[];
};

static inline uint64_t rp_recover_record_bytes(uint32_t ring_space)
{
	return sizeof(struct rp_recover_record) + ring_space * sizeof(uint64_t);
}

#endif
