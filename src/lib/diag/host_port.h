/* SPDX-License-Identifier: MIT */
/* The parts of the host port (ringpipe/host.h) that belong to the diagnostics server. */
#ifndef RP_DIAG_HOST_PORT_H
#define RP_DIAG_HOST_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/message.h"

/* Call the host's `start_up` if no port suspends start-up and the callback has not run yet. */
void rp_host_start_up(void);

/* Return: whether the command set is the host's own. */
bool rp_host_has_command_set(uint8_t set);

/* Execute a command of that set, and put the host's reply. Context: the thread of the server. */
enum rp_hresult rp_host_run_command(uint8_t id, const struct rp_cursor *payload,
				    struct rp_message_buffer *message);

#endif
