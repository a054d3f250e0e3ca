/* SPDX-License-Identifier: MIT */
/*
 * The payload: u64 pid, 16-byte cookie, command line, OS, architecture; ProcessInfo2 adds entry
 * point name and runtime version; ProcessInfo3 puts u32 version 1 before all that and the portable
 * runtime id after it. The cookie stands behind the pid, whatever the public document says.
 *
 * Source: Microsoft.Diagnostics.NETCore.Client, ProcessInfo.
 */
#include "diag/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/types.h>

#if defined(__x86_64__)
#define ARCHITECTURE "x64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__i386__)
#define ARCHITECTURE "x86"
#elif defined(__arm__)
#define ARCHITECTURE "arm32"
#else
#define ARCHITECTURE "unknown"
#endif

#define START_TICKS_FIELD 22	/* proc(5), counted from 1 */

void rp_process_make_cookie(uint8_t ret_cookie[16])
{
	struct timespec now;
	uint64_t parts[2];

	/* Early in boot there may be no randomness yet: do not wait for it. */
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

/* Reads up to `room` bytes of a file and adds a NUL. Return: the bytes without it. */
static size_t read_file(const char *path, char *ret_text, size_t room)
{
	size_t size = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		while (size < room && (n = read(fd, ret_text + size, room - size)) > 0)
			size += (size_t)n;
		close(fd);
	}
	ret_text[size] = '\0';
	return size;
}

uint64_t rp_process_parse_start_ticks(const char *stat)
{
	/* The name, field 2, may hold anything, blanks and parentheses included. */
	const char *at = strrchr(stat, ')');

	for (int field = 2; at && field < START_TICKS_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t rp_process_start_ticks(void)
{
	char stat[1024];

	read_file("/proc/self/stat", stat, sizeof(stat) - 1);
	return rp_process_parse_start_ticks(stat);
}

void rp_process_join_arguments(char *text, size_t size)
{
	while (size && !text[size - 1])
		size--;
	for (size_t i = 0; i < size; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	text[size] = '\0';
}

/* The name of the program's file, of which readlink() says whether it was replaced meanwhile. */
static void entry_point(char ret_name[RP_PROCESS_NAME_BYTES])
{
	static const char deleted[] = " (deleted)";
	char path[4096];
	const char *name;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	size_t size = n > 0 ? (size_t)n : 0;

	path[size] = '\0';
	if (size >= sizeof(deleted) && !strcmp(path + size - (sizeof(deleted) - 1), deleted))
		path[size - (sizeof(deleted) - 1)] = '\0';
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	size = strnlen(name, RP_PROCESS_NAME_BYTES - 1);
	memcpy(ret_name, name, size);
	ret_name[size] = '\0';
}

static void reply_command_line(struct rp_reply *reply)
{
	char *text = malloc(RP_PROCESS_COMMAND_LINE_BYTES + 1);
	size_t size;

	if (text) {
		size = read_file("/proc/self/cmdline", text, RP_PROCESS_COMMAND_LINE_BYTES);
		rp_process_join_arguments(text, size);
	}
	rp_reply_string(reply, text);
	free(text);
}

void rp_process_reply(struct rp_reply *reply, enum rp_process_info_version version,
		      const uint8_t cookie[16])
{
	char name[RP_PROCESS_NAME_BYTES];

	if (version >= RP_PROCESS_INFO_3)
		rp_reply_u32(reply, 1);
	rp_reply_u64(reply, (uint64_t)getpid());
	rp_reply_bytes(reply, cookie, 16);
	reply_command_line(reply);
	rp_reply_string(reply, "Linux");
	rp_reply_string(reply, ARCHITECTURE);
	if (version >= RP_PROCESS_INFO_2) {
		entry_point(name);
		rp_reply_string(reply, name);
		rp_reply_string(reply, RP_PROCESS_RUNTIME_VERSION);
	}
	if (version >= RP_PROCESS_INFO_3)
		rp_reply_string(reply, "linux-" ARCHITECTURE);
}
