/* SPDX-License-Identifier: MIT */
/* What a client asks for with one of the CollectTracing commands. No I/O here. */
#ifndef RP_DIAG_COLLECT_H
#define RP_DIAG_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/session.h>

#include "diag/message.h"
#include "export/user_events.h"

/* Ids in the set RP_MESSAGE_EVENTPIPE. */
enum rp_collect_id {
	RP_COLLECT_1 = 0x02,
	RP_COLLECT_2 = 0x03,
	RP_COLLECT_3 = 0x04,
	RP_COLLECT_4 = 0x05,
	RP_COLLECT_5 = 0x06,
	RP_COLLECT_6 = 0x07,
};

struct rp_collect {
	bool batch;			/* events go to the probe, not into the stream */
	size_t buffer_bytes;
	uint64_t rundown_keywords;	/* 0: no rundown wanted */
	uint32_t session_flags;		/* enum rp_session_flags */
	uint32_t block_ms;
	size_t provider_count;
	struct rp_session_provider *providers;
	struct rp_tracepoints *tracepoints;	/* of each provider; NULL: a stream */
};

/*
 * Whether a byte with a descriptor follows the message: a user_events session, whose events go into
 * that file of the kernel's.
 */
bool rp_collect_has_descriptor(uint8_t id, const struct rp_cursor *payload);

/*
 * Reads a whole payload. `ret_collect` is one allocation, strings included: free() it.
 *
 * Return: RP_HRESULT_OK; BAD_ENCODING: the payload is too short, too long or has a string without
 * its end; INVALID_ARGUMENT: a value no session can have; NOT_SUPPORTED: the NetPerf format, or
 * writers that wait for room in a buffer of the kernel's; FAIL: no memory.
 */
enum rp_hresult rp_collect_parse(uint8_t id, struct rp_cursor *payload,
				 struct rp_collect **ret_collect);

#endif
