/* SPDX-License-Identifier: MIT */
/*
 * Publish the attributes of the process and the trace ids of its threads, so that the profilers of
 * OpenTelemetry can assign their samples to services and requests.
 *
 * A profiler finds the attributes in a memory mapping named OTEL_CTX (OTEP 4719, "process
 * context"). It finds the ids of a stopped thread by the thread-local variable otel_thread_ctx_v1,
 * which this library exports (OTEP 4947, "thread context"). These are the ids of rp_activity_set(),
 * if they come from rp_traceparent_parse(), rp_traceparent_generate() or the program itself; ids of
 * rp_activity_generate() are those of no trace. The record of the thread has no flags of the trace,
 * because an activity has none.
 *
 * A program with the static library has to export the variable itself, with the linker's option
 * --export-dynamic-symbol=otel_thread_ctx_v1.
 */
#ifndef RINGPIPE_PROCESS_CONTEXT_H
#define RINGPIPE_PROCESS_CONTEXT_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* Both are UTF-8. OpenTelemetry's semantic conventions define the keys. */
struct rp_process_attribute {
	const char *key, *value;
};

struct rp_process_context {
	uint32_t size;
	uint32_t attribute_count;
	const struct rp_process_attribute *attributes;
};

#define RP_PROCESS_CONTEXT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_process_context, attributes)
#define RP_PROCESS_CONTEXT_INIT RP_INIT_(struct rp_process_context)

/*
 * Publish the context of the process, or replace what an earlier call published.
 *
 * The attributes are those of `context`, then those of the environment variables OTEL_SERVICE_NAME
 * and OTEL_RESOURCE_ATTRIBUTES, then telemetry.sdk.name, telemetry.sdk.language,
 * telemetry.sdk.version, service.instance.id and service.name of the library. The first value of a
 * key counts. `context` may be NULL; its memory stays the caller's. The ids of a thread appear when
 * the thread next sets ids. A forked child publishes nothing until it calls the function.
 *
 * RINGPIPE_PROCESS_CONTEXT=1 calls the function while the library is loaded.
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL if the size of `context` is invalid, or an attribute lacks its key or value;
 * -E2BIG if there are more than 128 attributes or 64 KB; -EEXIST if other code in this process,
 * such as an SDK of OpenTelemetry, has published a context; -EBUSY if another thread publishes one
 * now; -ENOMEM if an allocation fails; or an error of mmap(2), or of prctl(2) if neither that call
 * nor memfd_create(2) can name the mapping.
 */
RP_PUBLIC int rp_process_context_publish(const struct rp_process_context *context);

RP_END_DECLS

#endif
