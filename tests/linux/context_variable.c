/* SPDX-License-Identifier: MIT */
/* The thread's pointer of OpenTelemetry's OTEP 4947, in a program or in a library. */
#define EXPORTED __attribute__((visibility("default")))

void **context_slot(void);

EXPORTED __thread void *otel_thread_ctx_v1;

#ifdef FILLER_BYTES
/* A library that is loaded late then gets no fixed place below the thread pointer. */
EXPORTED __thread char context_filler[FILLER_BYTES];
#endif

EXPORTED void **context_slot(void)
{
	return &otel_thread_ctx_v1;
}
