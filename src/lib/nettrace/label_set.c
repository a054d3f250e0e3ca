/* SPDX-License-Identifier: MIT */
#include "nettrace/label_set.h"

#include "base/heap.h"
#include "nettrace/convert.h"
#include "nettrace/format.h"

#define SLOTS 1024u
#define LISTS_MAX 512u
#define LIST_BYTES_MAX 64u	/* of a list of ids */
#define CONTENT_BYTES (512u << 10)

struct rp_label_entry {
	struct rp_guid activity, related;	/* zero: a copied list */
	uint32_t at, bytes;	/* of a copied list, in the content */
	uint32_t id;		/* 0: free */
};

static const struct rp_guid none;

void rp_label_set_init(struct rp_label_set *set)
{
	memset(set, 0, sizeof(*set));
	set->first_id = 1;
}

void rp_label_set_fini(struct rp_label_set *set)
{
	rp_outbuf_fini(&set->content);
	rp_heap_free(set->entries);
}

static bool is_none(const struct rp_guid *id)
{
	return !memcmp(id, &none, sizeof(none));
}

static uint32_t hash_ids(const struct rp_guid *activity, const struct rp_guid *related)
{
	uint64_t words[4], hash = 0;

	memcpy(words, activity, 16);
	memcpy(words + 2, related, 16);
	for (int i = 0; i < 4; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return (uint32_t)(hash >> 16);
}

static int begin(struct rp_label_set *set, size_t list_bytes)
{
	if (!set->entries)
		set->entries = rp_heap_zalloc(SLOTS, sizeof(*set->entries));
	if (!set->entries || rp_outbuf_reserve(&set->content, 8 + list_bytes) < 0)
		return -ENOMEM;
	if (set->content.size)
		return 0;
	rp_outbuf_put_u32(&set->content, set->first_id);
	rp_outbuf_put_u32(&set->content, 0);
	return 0;
}

static void put_guid(struct rp_outbuf *out, uint8_t kind, const struct rp_guid *id)
{
	struct rp_guid wire;

	rp_guid_swap(id->bytes, wire.bytes);
	rp_outbuf_put_u8(out, kind);
	rp_outbuf_put(out, &wire, sizeof(wire));
}

/*
 * Put the ids of a request's trace. The second half of the related id is the request's span id, in
 * the byte order of the header `traceparent`: the first byte is the highest. If a list has that
 * span id, readers use the activity id as the trace id. The list therefore omits the trace id,
 * which would be 17 of its 60 bytes.
 */
static size_t put_trace(struct rp_outbuf *out, const struct rp_guid *activity,
			const struct rp_guid *related)
{
	size_t last = out->size;
	uint64_t span;

	memcpy(&span, related->bytes + 8, sizeof(span));
	if (span) {
		rp_outbuf_put_u8(out, RP_LABEL_SPAN_ID);
		rp_outbuf_put_u64(out, __builtin_bswap64(span));
	} else {
		rp_outbuf_put_u8(out, RP_LABEL_TRACE_ID);
		rp_outbuf_put(out, activity, sizeof(*activity));
	}
	return last;
}

/* Return: whether the id came from a `traceparent`. */
static bool is_trace(const struct rp_label_set *set, const struct rp_guid *activity)
{
	return !is_none(activity) && set->own_ids &&
	       memcmp(activity, &set->own_ids, sizeof(set->own_ids)) != 0;
}

static void put_list(struct rp_label_set *set, const struct rp_guid *activity,
		     const struct rp_guid *related)
{
	struct rp_outbuf *out = &set->content;
	size_t last = out->size;

	if (!is_none(activity))
		put_guid(out, RP_LABEL_ACTIVITY, activity);
	if (!is_none(related)) {
		last = out->size;
		put_guid(out, RP_LABEL_RELATED, related);
	}
	if (is_trace(set, activity))
		last = put_trace(out, activity, related);
	out->bytes[last] |= RP_LABEL_LAST;
}

int rp_label_set_intern(struct rp_label_set *set, const struct rp_guid *activity,
			const struct rp_guid *related, uint32_t *ret_id)
{
	struct rp_label_entry *entry;
	uint32_t at;

	if (!activity)
		activity = &none;
	if (!related)
		related = &none;
	*ret_id = 0;
	if (is_none(activity) && is_none(related))
		return 0;
	if (begin(set, LIST_BYTES_MAX) < 0)
		return -ENOMEM;
	for (at = hash_ids(activity, related) % SLOTS; set->entries[at].id; at = (at + 1) % SLOTS) {
		entry = &set->entries[at];
		if (!memcmp(&entry->activity, activity, sizeof(*activity)) &&
		    !memcmp(&entry->related, related, sizeof(*related))) {
			*ret_id = entry->id;
			return 0;
		}
	}
	set->entries[at] = (struct rp_label_entry){
		.activity = *activity, .related = *related, .id = set->first_id + set->count++,
	};
	put_list(set, activity, related);
	memcpy(set->content.bytes + 4, &set->count, 4);
	*ret_id = set->entries[at].id;
	return 0;
}

static uint32_t hash_list(const uint8_t *bytes, size_t size)
{
	uint64_t hash = size;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ull;
	return (uint32_t)(hash >> 16);
}

int rp_label_set_intern_list(struct rp_label_set *set, const uint8_t *bytes, size_t size,
			     uint32_t *ret_id)
{
	const struct rp_label_entry *entry;
	uint32_t at;

	if (begin(set, size) < 0)
		return -ENOMEM;
	for (at = hash_list(bytes, size) % SLOTS; set->entries[at].id; at = (at + 1) % SLOTS) {
		entry = &set->entries[at];
		if (entry->bytes == size && !memcmp(set->content.bytes + entry->at, bytes, size)) {
			*ret_id = entry->id;
			return 0;
		}
	}
	set->entries[at] = (struct rp_label_entry){
		.at = (uint32_t)set->content.size, .bytes = (uint32_t)size,
		.id = set->first_id + set->count++,
	};
	rp_outbuf_put(&set->content, bytes, size);
	memcpy(set->content.bytes + 4, &set->count, 4);
	*ret_id = set->entries[at].id;
	return 0;
}

bool rp_label_set_full(const struct rp_label_set *set, size_t bytes)
{
	return set->count >= LISTS_MAX || set->content.size + bytes > CONTENT_BYTES;
}

void rp_label_set_next(struct rp_label_set *set, bool from_one)
{
	set->first_id = from_one ? 1 : set->first_id + set->count;
	if (set->count)
		memset(set->entries, 0, SLOTS * sizeof(*set->entries));
	set->count = 0;
	set->content.size = 0;
}

size_t rp_label_set_memory(const struct rp_label_set *set)
{
	return set->content.capacity + (set->entries ? SLOTS * sizeof(*set->entries) : 0);
}
