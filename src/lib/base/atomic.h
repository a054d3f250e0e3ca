/* SPDX-License-Identifier: MIT */
/*
 * Atomics with the memory order in the name. They are plain builtins, so that headers also compile
 * as C++ and ThreadSanitizer sees each access. No order is a default: sequential consistency has
 * its own names.
 */
#ifndef RP_BASE_ATOMIC_H
#define RP_BASE_ATOMIC_H

#include <stdbool.h>

#define rp_load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define rp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define rp_load_seq_cst(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define rp_store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define rp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define rp_store_seq_cst(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define rp_exchange_seq_cst(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define rp_add_relaxed(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define rp_add_seq_cst(p, v) __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define rp_or_seq_cst(p, v) __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST)
#define rp_and_seq_cst(p, v) __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST)
#define rp_cas_seq_cst(p, old, v) \
	__atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)

/* The compiler moves no access across this; it orders against signal handlers of the thread. */
#define rp_compiler_barrier() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
