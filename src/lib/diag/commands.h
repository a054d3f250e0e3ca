/* SPDX-License-Identifier: MIT */
/* Executes a complete message of a client. */
#ifndef RP_DIAG_COMMANDS_H
#define RP_DIAG_COMMANDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "diag/dump_command.h"
#include "ipc/message.h"
#include "diag/sending.h"
#include "diag/trace.h"

/* The further use of a command's connection. */
enum rp_command_outcome {
	RP_COMMAND_REPLY,	/* the reply is ready; close the connection after sending it */
	RP_COMMAND_STREAM,	/* the connection is `trace`'s now; its stream begins with OK */
	RP_COMMAND_HOLD,	/* as STREAM, after the server has sent the ready reply */
	RP_COMMAND_PASS,	/* no reply yet: run the command again with `passed_fd` */
	RP_COMMAND_WAIT,	/* the reply is ready; send it when `trace` has ended */
	RP_COMMAND_SEND,	/* the connection belongs to one of `sendings` now */
	RP_COMMAND_DUMP,	/* the reply is the result of `dump` when it has ended */
	RP_COMMAND_RESUME,	/* as RP_COMMAND_REPLY; then start-up resumes at its port */
};

struct rp_command {
	/* in */
	struct rp_trace_table *traces;
	struct rp_sending *sendings;	/* array of RP_SENDINGS_MAX */
	struct rp_dump *dump;
	const uint8_t *cookie;
	int fd;
	int passed_fd;		/* received after the message; -1: none yet, or taken */
	pid_t peer;
	bool suspended;		/* start-up waits for ResumeRuntime */
	/* out */
	struct rp_message_buffer *reply;
	enum rp_command_outcome outcome;
	struct rp_trace *trace;
	bool sends_more;	/* bytes of the client follow this request */
	char refusal[RP_DUMP_TEXT_BYTES];	/* the text of an error reply, unless empty */
};

/*
 * Execute the command of a complete message. The caller has filled in the input half of `command`
 * and zeroed the reply. Each failure becomes an error reply. Does not wait.
 */
void rp_command_run(struct rp_command *command, const uint8_t *bytes, size_t size);

#endif
