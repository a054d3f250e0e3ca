/* SPDX-License-Identifier: MIT */
/* A batch session in a process: the command 0x52/0x05 and its frames; see sink/batch.c. */
#ifndef RP_BPF_BATCH_SESSION_H
#define RP_BPF_BATCH_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/session.h>

#include "tools/ringpipe-bpf/definition.h"
#include "tools/client/exchange.h"

struct rp_bpf_session {
	struct rp_target target;
	struct rp_exchange exchange;	/* its connection carries the frames */
	struct rp_exchange stop;
	struct rp_message_buffer request;
	bool stopping;
	uint64_t id;
	uint64_t probe;			/* address of `ringpipe:batch` in the process */
	struct rp_bpf_definition *definitions;	/* indexed by number */
	size_t definition_count;
	uint8_t *input;			/* an incomplete frame */
	size_t input_bytes;
	size_t input_capacity;
	uint64_t delivered;		/* this and the next two: from the latest stats frame */
	uint64_t lost;
	uint64_t cut;
	bool ended;			/* the process has sent the frame that ends the session */
};

/*
 * Start the session, and take ownership of the target. Either all providers have an event filter,
 * or none. Return: 0; -errno, after an error line. End the session in any case.
 */
int rp_bpf_session_begin(struct rp_bpf_session *session, const struct rp_target *target,
			 const struct rp_session_provider *providers, size_t provider_count,
			 uint32_t buffer_mb);

/*
 * Read the available frames. The function calls `define` for each definition. If `define` returns
 * 0, the function permits the process to deliver the events of that definition.
 * Return: 1: continue; 0: the session is over; -EBADMSG or -ENOMEM, after an error line; -errno of
 * recv(2); the result of `define` if that is not 0.
 */
int rp_bpf_session_read(struct rp_bpf_session *session,
			int (*define)(const struct rp_bpf_definition *definition, void *data),
			void *data);

/* Ask the process to end the session. Events that the session already has still arrive. */
void rp_bpf_session_stop(struct rp_bpf_session *session);

/* Return: the descriptor to poll while the session stops; when it is ready, take the next step. */
struct pollfd rp_bpf_session_poll_stop(const struct rp_bpf_session *session);
void rp_bpf_session_step_stop(struct rp_bpf_session *session);

void rp_bpf_session_fini(struct rp_bpf_session *session);

#endif
