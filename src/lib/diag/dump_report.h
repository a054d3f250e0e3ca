/* SPDX-License-Identifier: MIT */
/*
 * The reports of ringpipe-dump while it works: packets on its standard input, a SOCK_SEQPACKET
 * socket of the library in the process that is dumped.
 *
 * The library sends one packet, of any content, when the helper may begin; the helper sends
 * reports, the last with state RP_DUMP_DONE or RP_DUMP_FAILED. When the library ends the
 * connection, the helper gives up and leaves no file.
 */
#ifndef RP_DUMP_REPORT_H
#define RP_DUMP_REPORT_H

#include <stdint.h>

/* The content of the file; the numbers are those of the .NET clients' DumpType. */
enum rp_dump_type {
	RP_DUMP_MINI = 1,	/* stacks, and what registers point to */
	RP_DUMP_HEAP = 2,	/* all that no file holds */
	RP_DUMP_TRIAGE = 3,	/* as mini */
	RP_DUMP_FULL = 4,	/* all that is mapped */
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
	uint32_t running;		/* of these, how many could not be stopped: no registers */
	uint32_t reserved;
	uint64_t done_bytes;		/* of memory */
	uint64_t total_bytes;
	uint64_t file_bytes;		/* as the file's length says; holes take no room */
	uint64_t pause_ns;		/* the process did not run for so long */
	char text[RP_DUMP_TEXT_BYTES];	/* why it failed */
};

/*
 * The same for a client, little endian and without the text: u32 state, u32 HRESULT, u32 threads,
 * u32 running, u64 done, u64 total, u64 file, u64 pause. While the process is stopped, only the
 * helper can write to the client, so the connection is the helper's standard output.
 */
#define RP_DUMP_FRAME_BYTES 48u

#endif
