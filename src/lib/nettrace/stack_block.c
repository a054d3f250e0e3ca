/* SPDX-License-Identifier: MIT */
#include "nettrace/stack_block.h"

#include "base/heap.h"

#define SLOTS 4096u
#define STACKS_MAX 2048u
#define BYTES_MAX (512u << 10)

struct rp_stack_entry {
	uint32_t hash;
	uint32_t offset;	/* in the content, of the length; 0: free */
	uint32_t id;
};

void rp_stack_set_init(struct rp_stack_set *set)
{
	memset(set, 0, sizeof(*set));
	set->first_id = 1;
}

void rp_stack_set_fini(struct rp_stack_set *set)
{
	rp_outbuf_fini(&set->content);
	rp_address_set_fini(&set->addresses);
	rp_heap_free(set->entries);
}

static uint32_t hash_frames(const void *frames, uint32_t frame_count)
{
	uint64_t hash = frame_count, frame;

	for (uint32_t i = 0; i < frame_count; i++) {
		memcpy(&frame, (const char *)frames + 8 * i, sizeof(frame));
		hash = (hash ^ frame) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash >> 16;
}

static int begin(struct rp_stack_set *set)
{
	if (!set->entries)
		set->entries = rp_heap_zalloc(SLOTS, sizeof(*set->entries));
	if (!set->entries)
		return -ENOMEM;
	if (set->content.size)
		return 0;
	if (rp_outbuf_reserve(&set->content, 8) < 0)
		return -ENOMEM;
	rp_outbuf_put_u32(&set->content, set->first_id);
	rp_outbuf_put_u32(&set->content, 0);
	return 0;
}

int rp_stack_set_intern(struct rp_stack_set *set, const uint64_t *frames, uint32_t frame_count,
			uint64_t time_ns, uint32_t *ret_id)
{
	uint32_t hash, bytes = frame_count * 8;
	struct rp_stack_entry *entry;

	if (!frame_count) {
		*ret_id = 0;
		return 0;
	}
	if (begin(set) < 0 || rp_outbuf_reserve(&set->content, 4 + bytes) < 0)
		return -ENOMEM;
	hash = hash_frames(frames, frame_count);
	for (uint32_t at = hash % SLOTS;; at = (at + 1) % SLOTS) {
		const uint8_t *known;

		entry = &set->entries[at];
		if (!entry->offset)
			break;
		known = set->content.bytes + entry->offset;
		if (entry->hash == hash && !memcmp(known, &bytes, 4) &&
		    !memcmp(known + 4, frames, bytes)) {
			*ret_id = entry->id;
			return 0;
		}
	}
	entry->hash = hash;
	entry->offset = set->content.size;
	entry->id = set->first_id + set->count++;
	rp_outbuf_put_u32(&set->content, bytes);
	rp_outbuf_put(&set->content, frames, bytes);
	memcpy(set->content.bytes + 4, &set->count, 4);
	rp_address_set_add(&set->addresses, frames, frame_count, time_ns);
	*ret_id = entry->id;
	return 0;
}

bool rp_stack_set_full(const struct rp_stack_set *set)
{
	return set->count >= STACKS_MAX || set->content.size >= BYTES_MAX;
}

void rp_stack_set_next(struct rp_stack_set *set, bool from_one)
{
	set->first_id = from_one ? 1 : set->first_id + set->count;
	if (set->count)
		memset(set->entries, 0, SLOTS * sizeof(*set->entries));
	set->count = 0;
	set->content.size = 0;
}

size_t rp_stack_set_memory(const struct rp_stack_set *set)
{
	return set->content.capacity + (set->entries ? SLOTS * sizeof(*set->entries) : 0) +
	       set->addresses.size * sizeof(*set->addresses.slots);
}
