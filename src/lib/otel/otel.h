/* SPDX-License-Identifier: MIT */
#ifndef RP_OTEL_OTEL_H
#define RP_OTEL_OTEL_H

/* Publish the context of the process if RINGPIPE_PROCESS_CONTEXT=1, and warn if that fails. */
void rp_process_context_start(void);

#endif
