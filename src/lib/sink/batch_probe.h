/* SPDX-License-Identifier: MIT */
/*
 * The probe `ringpipe:batch`: a nop at the start of a function, so that the arguments are where the
 * calling convention puts them. bpftrace, perf and libbpf find it by an ELF note. Clients of the
 * diagnostics socket receive its address and need not read the note.
 */
#ifndef RP_SINK_BATCH_PROBE_H
#define RP_SINK_BATCH_PROBE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Pass `bytes` of `count` events, as ringpipe/batch.h describes them, to the client of a session.
 * The buffer may be reused after the call.
 */
void rp_batch_probe(const void *events, size_t bytes, size_t count, uint64_t session_id)
	__attribute__((visibility("hidden")));

#endif
