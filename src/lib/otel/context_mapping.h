/* SPDX-License-Identifier: MIT */
/*
 * The memory mapping in which profilers find the context of a process, by OpenTelemetry's OTEP 4719
 * (oteps/profiles/4719-process-ctx.md). Its header points at a payload, and has the time at which
 * that payload was published:
 *
 *	0	8	"OTEL_CTX"
 *	8	4	version, 2
 *	12	4	bytes of the payload
 *	16	8	CLOCK_BOOTTIME in ns; 0 while the header changes
 *	24	8	address of the payload
 *
 * A reader copies the header and the payload, and then checks that the time has not changed.
 */
#ifndef RP_OTEL_CONTEXT_MAPPING_H
#define RP_OTEL_CONTEXT_MAPPING_H

#include <stdint.h>

/*
 * Publish the payload, from rp_heap_alloc(). The mapping owns it if the function succeeds.
 *
 * Context: one thread at a time. A forked child does not inherit the mapping.
 * Return: 0; -EEXIST: other code has published a context; -ENOMEM; -errno of mmap(2) or prctl(2).
 */
int rp_context_mapping_publish(uint8_t *payload, uint32_t payload_bytes);

/* In a forked child: it has no mapping. */
void rp_context_mapping_forget(void);

#endif
