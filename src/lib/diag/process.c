/* SPDX-License-Identifier: MIT */
/*
 * The payload: u64 pid, 16-byte cookie, command line, OS, architecture. ProcessInfo2 adds entry
 * point name and runtime version. ProcessInfo3 puts u32 version 1 before all that and the portable
 * runtime id after it. The cookie follows the pid, although the public document has another order.
 *
 * Source: Microsoft.Diagnostics.NETCore.Client, ProcessInfo.
 */
#include "diag/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/types.h>

#include "base/file.h"
#include "base/host_table.h"
#include "host/copies.h"
#include "host/identity.h"

#define START_TICKS_FIELD 22	/* proc(5), counted from 1 */
#define VERSION_BYTES (sizeof(RP_PROCESS_RUNTIME_VERSION) + 1 + RP_NAME_MAX)

void rp_process_make_cookie(uint8_t ret_cookie[16])
{
	struct timespec now;
	uint64_t parts[2];

	/* Early in boot there may be no random numbers yet: do not wait for them. */
	if (getrandom(ret_cookie, 16, GRND_NONBLOCK) != 16) {
		clock_gettime(CLOCK_REALTIME, &now);
		parts[0] = (uint64_t)now.tv_sec << 32 | (uint32_t)getpid();
		parts[1] = (uint64_t)now.tv_nsec;
		memcpy(ret_cookie, parts, sizeof(parts));
	}
	/* A GUID of version 4, in the byte order of the wire. */
	ret_cookie[7] = (ret_cookie[7] & 0x0f) | 0x40;
	ret_cookie[8] = (ret_cookie[8] & 0x3f) | 0x80;
}

uint64_t rp_process_parse_start_ticks(const char *stat)
{
	/* The name, field 2, may contain any characters, blanks and parentheses included. */
	const char *at = strrchr(stat, ')');

	for (int field = 2; at && field < START_TICKS_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t rp_process_start_ticks(void)
{
	char stat[1024];
	ssize_t size = rp_file_read("/proc/self/stat", stat, sizeof(stat) - 1);

	stat[size > 0 ? size : 0] = '\0';
	return rp_process_parse_start_ticks(stat);
}

/* .NET's clients read the version up to the '+'. The host's version follows as more metadata. */
static void print_runtime_version(char ret_text[VERSION_BYTES])
{
	const struct rp_host *host = rp_host_get();
	const char *version = host ? host->runtime_version : NULL;

	snprintf(ret_text, VERSION_BYTES, "%s%s%s", RP_PROCESS_RUNTIME_VERSION,
		 version ? "." : "", version ? version : "");
}

void rp_process_reply(struct rp_message_buffer *reply, enum rp_process_info_version version,
		      const uint8_t cookie[16])
{
	char name[RP_PROCESS_NAME_BYTES], *command_line = rp_process_command_line();
	char version_text[VERSION_BYTES];

	if (version >= RP_PROCESS_INFO_3)
		rp_message_put_u32(reply, 1);
	rp_message_put_u64(reply, (uint64_t)getpid());
	rp_message_put_bytes(reply, cookie, 16);
	rp_message_put_string(reply, command_line);
	rp_message_put_string(reply, RP_PROCESS_SYSTEM);
	rp_message_put_string(reply, RP_PROCESS_ARCHITECTURE);
	if (version >= RP_PROCESS_INFO_2) {
		rp_process_name(name);
		rp_message_put_string(reply, name);
		print_runtime_version(version_text);
		rp_message_put_string(reply, version_text);
	}
	if (version >= RP_PROCESS_INFO_3)
		rp_message_put_string(reply, "linux-" RP_PROCESS_ARCHITECTURE);
	/* An addition of ringpipe: .NET's clients stop reading before it. */
	if (version >= RP_PROCESS_INFO_3)
		rp_message_put_u32(reply, rp_copies_count());
	free(command_line);
}
