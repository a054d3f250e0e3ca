/* SPDX-License-Identifier: MIT */
/*
 * Commands for dumps of this process. A helper program, ringpipe-dump, writes the dump. There is
 * one dump at a time, because only one process can trace another by ptrace(2). Context: the server.
 *
 *	0x01 0x01 GenerateCoreDump	string path, u32 type, u32 flags -> i32 0
 *	0x01 0x02 GenerateCoreDump2	the same
 *	0x01 0x03 GenerateCoreDump3	the same; an error reply has a string after the HRESULT
 *	0x52 0x04 dump			the same -> nothing, then frames as in diag/dump_report.h
 *					until the dump ends or fails, then a string: the cause
 *					of the failure, or ""
 *
 * Source: documentation/design-docs/ipc-protocol.md in dotnet/diagnostics.
 */
#ifndef RP_DIAG_DUMP_COMMAND_H
#define RP_DIAG_DUMP_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "diag/dump_report.h"
#include "ipc/command_ids.h"
#include "ipc/message.h"

enum rp_dump_reply {
	RP_DUMP_REPLY_HRESULT,
	RP_DUMP_REPLY_TEXT,		/* and the cause of a failure */
	RP_DUMP_REPLY_FRAMES,
};

/* If id is 0, no dump is running. */
struct rp_dump {
	uint64_t id;
	int fd;				/* connection to the helper; -1: none */
	struct rp_file_id file;		/* identity of the file behind fd */
	enum rp_dump_reply reply;
	bool lets_trace;		/* Yama was set to allow the helper to trace this process */
	struct rp_dump_report report;	/* the last report received */
};

struct rp_dump_request {
	enum rp_dump_type type;
	enum rp_dump_reply reply;
	char *path;			/* freed by the caller */
};

/*
 * Parse the payload. Return: RP_HRESULT_OK; BAD_ENCODING; INVALID_ARGUMENT: the path is not
 * absolute, or the type is unknown; NOT_SUPPORTED: flags that request a crash report. For the last
 * two, ret_refusal has the cause.
 */
enum rp_hresult rp_dump_parse(struct rp_cursor *payload, struct rp_dump_request *request,
			      char ret_refusal[RP_DUMP_TEXT_BYTES]);

/*
 * Start the helper. With frames, the helper also gets the client's connection `client_fd`, and the
 * OK reply is sent. Return: RP_HRESULT_OK; FAIL, with the cause in ret_refusal.
 */
enum rp_hresult rp_dump_open(struct rp_dump *dump, const struct rp_dump_request *request,
			     int client_fd, char ret_refusal[RP_DUMP_TEXT_BYTES]);

/* Read the helper's reports. Return: whether the helper has ended. */
bool rp_dump_read(struct rp_dump *dump);

/* Build the result for the client: a complete reply, or the last frame. */
void rp_dump_reply(const struct rp_dump *dump, struct rp_message_buffer *reply);

/* Close the connection to the helper. A helper that still works then gives up. */
void rp_dump_close(struct rp_dump *dump);

#endif
