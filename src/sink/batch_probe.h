/* SPDX-License-Identifier: MIT */
/*
 * The probe `ringpipe:batch`: an instruction that does nothing, at the head of a function, so that
 * its arguments are where every call has them. A note tells bpftrace, perf and libbpf of it; where
 * it lies in memory is told to clients of the diagnostics socket, which need not read the note.
 */
#ifndef RP_SINK_BATCH_PROBE_H
#define RP_SINK_BATCH_PROBE_H

#include <stddef.h>
#include <stdint.h>

/*
 * `bytes` of `count` events, as ringpipe/batch.h describes them, on their way to the client of a
 * session; they may go after the call.
 */
void rp_batch_probe(const void *events, size_t bytes, size_t count, uint64_t session_id)
	__attribute__((visibility("hidden")));

#endif
