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
	RP_COMMAND_REPLY,	/* the reply is ready; the connection ends when it was taken */
	RP_COMMAND_STREAM,	/* the connection belongs to `trace` now, and says OK itself */
	RP_COMMAND_HOLD,	/* the same, when the reply that is ready was sent */
	RP_COMMAND_PASS,	/* nothing yet: to be run again with `passed_fd` */
	RP_COMMAND_WAIT,	/* the reply is ready, to be sent when `trace` has ended */
	RP_COMMAND_SEND,	/* the connection belongs to one of `sendings` now */
	RP_COMMAND_DUMP,	/* the reply is what `dump` says when it has ended */
	RP_COMMAND_RESUME,	/* as RP_COMMAND_REPLY; its port is satisfied when that is sent */
};

struct rp_command {
	/* in */
	struct rp_trace_table *traces;
	struct rp_sending *sendings;	/* RP_SENDINGS_MAX of them */
	struct rp_dump *dump;
	const uint8_t *cookie;
	int fd;
	int passed_fd;		/* that came behind the message; -1: none yet, or taken */
	pid_t peer;
	bool suspended;		/* start-up waits for ResumeRuntime */
	/* out */
	struct rp_message_buffer *reply;
	enum rp_command_outcome outcome;
	struct rp_trace *trace;
	bool sends_more;	/* the client sends something behind this request */
	char refusal[RP_DUMP_TEXT_BYTES];	/* goes with an error reply unless empty */
};

/*
 * Carries out the command of a whole message. `command` has the first half filled in, and a zeroed
 * reply; whatever goes wrong is an error reply. Does not wait.
 */
void rp_command_run(struct rp_command *command, const uint8_t *bytes, size_t size);

#endif
