/* SPDX-License-Identifier: MIT */
#include "nettrace/point_index.h"

#include "base/array.h"

/* The .NET runtime writes a sequence point each 10 MB. */
#define BYTES_MAX (256u << 20)

struct rp_point_entry {
	uint32_t id;
	uint32_t bytes;
	uint64_t offset;
};

uint32_t rp_point_index_last(const struct rp_point_index *index)
{
	struct rp_point_entry entry = { 0 };

	if (index->entries.size)
		memcpy(&entry, index->entries.bytes + index->entries.size - sizeof(entry),
		       sizeof(entry));
	return entry.id;
}

int rp_point_index_put(struct rp_point_index *index, uint32_t id, const void *row, uint32_t bytes)
{
	struct rp_point_entry entry = { .id = id, .bytes = bytes, .offset = index->bytes.size };

	if (index->entries.size && id <= rp_point_index_last(index))
		return -EBADMSG;
	if (index->bytes.size + bytes + index->entries.size > BYTES_MAX)
		return -E2BIG;
	if (rp_outbuf_reserve(&index->bytes, bytes) < 0 ||
	    rp_outbuf_reserve(&index->entries, sizeof(entry)) < 0)
		return -ENOMEM;
	rp_outbuf_put(&index->bytes, row, bytes);
	rp_outbuf_put(&index->entries, &entry, sizeof(entry));
	return 0;
}

int rp_point_index_add_stacks(struct rp_point_index *index, struct rp_cursor block)
{
	uint32_t first, count, bytes;
	const uint8_t *frames;
	int ret;

	if (rp_cursor_u32(&block, &first) < 0 || rp_cursor_u32(&block, &count) < 0 ||
	    count > rp_cursor_left(&block) / 4 || (uint64_t)first + count > UINT32_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		if (rp_cursor_u32(&block, &bytes) < 0 ||
		    rp_cursor_take(&block, bytes, &frames) < 0)
			return -EBADMSG;
		ret = rp_point_index_put(index, first + i, frames, bytes);
		if (ret < 0)
			return ret;
	}
	return 0;
}

const void *rp_point_index_find(const struct rp_point_index *index, uint32_t id, size_t *ret_bytes)
{
	const struct rp_point_entry *entries = (const void *)index->entries.bytes;
	const size_t count = index->entries.size / sizeof(*entries);
	const size_t at = RP_PARTITION_POINT(i, count, entries[i].id < id);

	*ret_bytes = 0;
	/* If all rows so far are empty, there are no bytes to which a pointer could lead. */
	if (at == count || entries[at].id != id || !entries[at].bytes)
		return NULL;
	*ret_bytes = entries[at].bytes;
	return index->bytes.bytes + entries[at].offset;
}

void rp_point_index_clear(struct rp_point_index *index)
{
	index->bytes.size = 0;
	index->entries.size = 0;
}

void rp_point_index_fini(struct rp_point_index *index)
{
	rp_outbuf_fini(&index->bytes);
	rp_outbuf_fini(&index->entries);
}
