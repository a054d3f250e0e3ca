/* SPDX-License-Identifier: MIT */
/*
 * Write an event by restartable sections: this file determines the order in which a write tries the
 * sections of write_x86_64.S.
 */
#include "ring/slot.h"

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)

#include "ring/rseq.h"

/*
 * Make a free buffer the ring of this concurrency id, which has none or a full one. Return:
 * RP_WRITE_ABORTED: there may be space now, try again; RP_WRITE_GONE; or `result` if there is no
 * buffer.
 */
static __attribute__((noinline)) enum rp_write_result
take_buffer(struct rp_write *write, enum rp_write_result result)
{
	struct rp_slot *slot = write->slot;
	const uint32_t *cid = (void *)((char *)rp_rseq_area() + rp_rseq_index_offset);
	enum rp_write_result installed;
	uint64_t token;
	int index;

	if (rp_load_relaxed(cid) >= rp_load_relaxed(&slot->ring_count))
		return result;
	index = rp_pool_claim(write, RP_OWNER_TAKEN, &token);
	if (index < 0)
		return result;
	installed = rp_slot_install(write, (uint64_t)index, token);
	if (installed != RP_WRITE_OK) {
		rp_pool_release(slot, index, token);
		return installed;
	}
	/* Invalidate the ring caches of threads that use the previous ring. */
	rp_add_seq_cst(rp_slots_generation(), 1);	/* [SLOT-AGE] */
	return RP_WRITE_ABORTED;
}

enum rp_write_result rp_slot_write_rseq(struct rp_write *write)
{
	enum rp_write_result result = rp_slot_try_rseq(write);

	if (__builtin_expect(result == RP_WRITE_OK || result == RP_WRITE_ABORTED, 1))
		return result;
	if (result != RP_WRITE_GONE && rp_load_relaxed(&write->slot->pool_count))
		result = take_buffer(write, result);
	if (result == RP_WRITE_FULL && rp_load_relaxed(&write->slot->pool_count) &&
	    rp_slot_write_elsewhere(write) == RP_WRITE_OK)
		return RP_WRITE_OK;
	if (result == RP_WRITE_FULL)
		result = rp_load_relaxed(&write->slot->wait_ns) ? RP_WRITE_NO_SPACE :
			 rp_slot_lose_or_switch(write);
	return result;
}

#else

enum rp_write_result rp_slot_try_rseq(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

enum rp_write_result rp_slot_try_rseq_multi(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

enum rp_write_result rp_slot_write_rseq(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

#endif
