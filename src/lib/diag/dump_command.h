/* SPDX-License-Identifier: MIT */
/*
 * Dumps of this process, written by a helper, ringpipe-dump. One at a time: there can be only one
 * tracer. All calls from the server.
 *
 *	0x01 0x01 GenerateCoreDump	string path, u32 type, u32 flags -> i32 0
 *	0x01 0x02 GenerateCoreDump2	the same
 *	0x01 0x03 GenerateCoreDump3	the same; an error reply carries a string behind the HRESULT
 *	0x52 0x04 dump			the same; -> nothing, then frames as in diag/dump_report.h,
 *					until the end; behind the last, a string: why it failed
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
	RP_DUMP_REPLY_TEXT,		/* and why */
	RP_DUMP_REPLY_FRAMES,
};

/* No dump is under way when id is 0. */
struct rp_dump {
	uint64_t id;
	int fd;				/* to the helper; -1: none */
	struct rp_file_id file;		/* what fd stands for */
	enum rp_dump_reply reply;
	bool lets_trace;		/* Yama was set to let the helper trace us */
	struct rp_dump_report report;	/* the last that came */
};

struct rp_dump_request {
	enum rp_dump_type type;
	enum rp_dump_reply reply;
	char *path;			/* for free() */
};

/*
 * Reads the payload. Return: RP_HRESULT_OK; BAD_ENCODING; INVALID_ARGUMENT: a path that is not
 * absolute, or a type there is not; NOT_SUPPORTED: flags that ask for a report of a crash. On those
 * two ret_refusal says why.
 */
enum rp_hresult rp_dump_parse(struct rp_cursor *payload, struct rp_dump_request *request,
			      char ret_refusal[RP_DUMP_TEXT_BYTES]);

/*
 * Starts the helper. With frames, the client's connection `client_fd` becomes the helper's as well
 * and has got the reply. Return: RP_HRESULT_OK; FAIL, and ret_refusal says why.
 */
enum rp_hresult rp_dump_open(struct rp_dump *dump, const struct rp_dump_request *request,
			     int client_fd, char ret_refusal[RP_DUMP_TEXT_BYTES]);

/* Takes what the helper says. Return: whether it has ended. */
bool rp_dump_read(struct rp_dump *dump);

/* Writes the result for the client: a complete reply, or the last of its frames. */
void rp_dump_reply(const struct rp_dump *dump, struct rp_message_buffer *reply);

/* Forgets it. A helper that is still at work gives up. */
void rp_dump_close(struct rp_dump *dump);

#endif
