/* SPDX-License-Identifier: MIT */
/* The providers of a session, as the requests of clients encode them. */
#ifndef RP_IPC_PROVIDER_LIST_H
#define RP_IPC_PROVIDER_LIST_H

#include <stddef.h>

#include <ringpipe/session.h>

#include "ipc/message.h"

/* Put u32 count, then for each provider u64 keywords, u32 level, string name, string arguments. */
void rp_message_put_providers(struct rp_message_buffer *request,
			      const struct rp_session_provider *providers, size_t count);

/*
 * Put the providers in the form of CollectTracing5. Each provider must have an event filter, which
 * follows its arguments: u8 enable, u32 count, then u32 ids.
 */
void rp_message_put_filtered_providers(struct rp_message_buffer *request,
				       const struct rp_session_provider *providers, size_t count);

#endif
