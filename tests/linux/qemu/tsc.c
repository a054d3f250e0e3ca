/* SPDX-License-Identifier: MIT */
/*
 * Makes a program write by restartable sequences in a machine that qemu emulates. The TSC of such a
 * machine is the same on all processors, but its CPUID does not say that it is invariant, so the
 * library would use the fallback alone. The program is linked with the static library and
 * --wrap=rp_clock_init, and with --wrap=rp_pool_claim, which counts the concurrency ids that
 * sequences claimed buffers for.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/rseq.h>

#define OWNER_SEQUENCE 2	/* RP_OWNER_TAKEN */
#define MM_CID_OFFSET 24

extern bool rp_clock_is_tsc;

void __real_rp_clock_init(const char *wanted);
void __wrap_rp_clock_init(const char *wanted);
int __real_rp_pool_claim(void *write, int owner, uint64_t *ret_token);
int __wrap_rp_pool_claim(void *write, int owner, uint64_t *ret_token);
unsigned int burst_ids(void);

static uint64_t ids;

void __wrap_rp_clock_init(const char *wanted)
{
	__real_rp_clock_init(wanted);
	rp_clock_is_tsc = true;
}

int __wrap_rp_pool_claim(void *write, int owner, uint64_t *ret_token)
{
	const char *area = (const char *)__builtin_thread_pointer() + __rseq_offset;
	int buffer = __real_rp_pool_claim(write, owner, ret_token);

	if (buffer >= 0 && owner == OWNER_SEQUENCE)
		__atomic_fetch_or(&ids, 1ull << (*(const uint32_t *)(area + MM_CID_OFFSET) & 63),
				  __ATOMIC_RELAXED);
	return buffer;
}

/* Return: how many ids sequences have claimed buffers for since the last call. */
unsigned int burst_ids(void)
{
	return (unsigned int)__builtin_popcountll(__atomic_exchange_n(&ids, 0, __ATOMIC_RELAXED));
}
