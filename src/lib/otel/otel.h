/* SPDX-License-Identifier: MIT */
#ifndef RP_OTEL_OTEL_H
#define RP_OTEL_OTEL_H

/* Publish the context of the process if RINGPIPE_PROCESS_CONTEXT=1, and warn if that fails. */
void rp_process_context_start(void);

/* In a forked child: it has published nothing. */
void rp_process_context_forget(void);

#endif
