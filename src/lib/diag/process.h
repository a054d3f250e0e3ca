/* SPDX-License-Identifier: MIT */
/* Information about this process for its clients. */
#ifndef RP_DIAG_PROCESS_H
#define RP_DIAG_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/message.h"

/*
 * The runtime version that this process reports to clients. Clients decide by it: from 8 on,
 * dotnet-counters shares metrics sessions; from 10.0.0 on, dotnet-trace collect-linux requests
 * user_events sessions. "ringpipe" follows a '+', because collect-linux takes "10.0.0-ringpipe" for
 * a prerelease of 10.0.0 and refuses it. Clients cut the text at '-' or '+' to read the numbers.
 */
#define RP_PROCESS_RUNTIME_VERSION "10.0.0+ringpipe." RP_VERSION_STRING

enum rp_process_info_version {
	RP_PROCESS_INFO_1,
	RP_PROCESS_INFO_2,
	RP_PROCESS_INFO_3,
};

/* Create 16 random bytes that identify this process. */
void rp_process_make_cookie(uint8_t ret_cookie[16]);

/*
 * Get the start time of this process in clock ticks since boot, from its stat file; 0 if unknown.
 */
uint64_t rp_process_start_ticks(void);

/* The same from the text of a stat file. The name in that text may contain any characters. */
uint64_t rp_process_parse_start_ticks(const char *stat);

/* Build the payload of a ProcessInfo reply. Reads /proc/self. */
void rp_process_reply(struct rp_message_buffer *reply, enum rp_process_info_version version,
		      const uint8_t cookie[16]);

#endif
