/* SPDX-License-Identifier: MIT */
/*
 * The probe `ringpipe:batch`: a nop at the start of a function, so that the arguments are in the
 * registers of the calling convention. bpftrace, perf and libbpf find the probe by an ELF note.
 * Clients of the diagnostics socket receive its address and need not read the note.
 */
#ifndef RP_SINK_BATCH_PROBE_H
#define RP_SINK_BATCH_PROBE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Pass `bytes` of `count` events to the client of a session, in the layout of ringpipe/batch.h. The
 * caller may reuse the buffer after the call.
 */
void rp_batch_probe(const void *events, size_t bytes, size_t count, uint64_t session_id)
	__attribute__((visibility("hidden")));

#endif
