/* SPDX-License-Identifier: MIT */
#include "counter/state.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"

struct rp_counters rp_counters = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.groups = CDS_LIST_HEAD_INIT(rp_counters.groups),
};

bool rp_kind_is_sum(uint32_t kind)
{
	return kind == RP_COUNTER_SUM || kind == RP_COUNTER_OBSERVED_SUM;
}

bool rp_kind_is_gauge(uint32_t kind)
{
	return kind == RP_COUNTER_GAUGE || kind == RP_COUNTER_OBSERVED_GAUGE;
}

bool rp_kind_is_observed(uint32_t kind)
{
	return kind >= RP_COUNTER_OBSERVED_SUM;
}

void rp_counters_look(void)
{
	rp_store_seq_cst(&rp_counters.work, 1);
	syscall(SYS_futex, &rp_counters.work, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
