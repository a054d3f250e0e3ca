/* SPDX-License-Identifier: MIT */
/* Parses the CollectTracing commands. These functions do no I/O. */
#ifndef RP_DIAG_COLLECT_COMMAND_H
#define RP_DIAG_COLLECT_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/session.h>

#include "export/user_events.h"
#include "ipc/command_ids.h"
#include "ipc/message.h"

struct rp_collect {
	bool batch;			/* events go to the probe, not into the stream */
	size_t buffer_bytes;
	uint32_t format;		/* version of nettrace */
	uint64_t rundown_keywords;	/* 0: the client wants no rundown */
	uint32_t session_flags;		/* enum rp_session_flags */
	uint32_t block_ms;
	size_t provider_count;
	struct rp_session_provider *providers;
	struct rp_tracepoints *tracepoints;	/* one per provider; NULL: a stream session */
};

/*
 * Return: whether a byte with a descriptor follows the message. This is so for a user_events
 * session, which writes its events to that file of the kernel.
 */
bool rp_collect_has_descriptor(uint8_t id, const struct rp_cursor *payload);

/*
 * Parse a whole payload. `ret_collect` is one allocation, strings included: free() it.
 *
 * Return: RP_HRESULT_OK; BAD_ENCODING: the payload is too short or too long, or a string has no
 * end; INVALID_ARGUMENT: a value that no session can have; NOT_SUPPORTED: the NetPerf format, or
 * writers that block on a full buffer of the kernel; FAIL: no memory.
 */
enum rp_hresult rp_collect_parse(uint8_t id, struct rp_cursor *payload,
				 struct rp_collect **ret_collect);

#endif
