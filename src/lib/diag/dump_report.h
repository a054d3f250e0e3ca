/* SPDX-License-Identifier: MIT */
/*
 * The reports of ringpipe-dump: packets on its standard input, a SOCK_SEQPACKET socket to the
 * library in the dumped process.
 *
 * The library sends one packet, of any content, to let the helper begin. The helper sends reports;
 * the last has state RP_DUMP_DONE or RP_DUMP_FAILED. If the library closes the connection, the
 * helper gives up and leaves no file.
 */
#ifndef RP_DUMP_REPORT_H
#define RP_DUMP_REPORT_H

#include <stdint.h>

/* The content of the file; the numbers are those of the .NET clients' DumpType. */
enum rp_dump_type {
	RP_DUMP_MINI = 1,	/* stacks, and memory to which registers point */
	RP_DUMP_HEAP = 2,	/* all memory that no file contains */
	RP_DUMP_TRIAGE = 3,	/* as mini */
	RP_DUMP_FULL = 4,	/* all mapped memory */
};

enum rp_dump_state {
	RP_DUMP_RUNS = 1,
	RP_DUMP_DONE = 2,
	RP_DUMP_FAILED = 3,
};

#define RP_DUMP_TEXT_BYTES 512u

struct rp_dump_report {
	uint32_t state;			/* enum rp_dump_state */
	uint32_t threads;
	uint32_t running;		/* threads that could not be stopped: no registers */
	uint32_t reserved;
	uint64_t done_bytes;		/* of memory, written so far */
	uint64_t total_bytes;
	uint64_t file_bytes;		/* length of the file; holes use no space */
	uint64_t pause_ns;		/* time for which the process was stopped */
	char text[RP_DUMP_TEXT_BYTES];	/* cause of a failure */
};

/*
 * The same for a client, little endian and without the text: u32 state, u32 HRESULT, u32 threads,
 * u32 running, u64 done, u64 total, u64 file, u64 pause. While the process is stopped, only the
 * helper can write to the client, so the connection is the helper's standard output.
 */
#define RP_DUMP_FRAME_BYTES 48u

#endif
