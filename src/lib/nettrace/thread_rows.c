/* SPDX-License-Identifier: MIT */
#include "nettrace/thread_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"

#define ROWS_MAX (1u << 20)
#define ROW_BYTES 40u		/* of a row without the text of its name */

static int take_text(struct rp_cursor *c, const uint8_t **ret_text, uint32_t *ret_bytes)
{
	if (rp_cursor_varint32(c, ret_bytes) < 0)
		return -EBADMSG;
	return rp_cursor_take(c, *ret_bytes, ret_text);
}

static int take_name(struct rp_cursor *c, struct rp_thread_row *row)
{
	const uint8_t *text;
	uint32_t bytes;
	char *name;

	if (take_text(c, &text, &bytes) < 0)
		return -EBADMSG;
	name = rp_heap_alloc(3 * (size_t)bytes + 1);
	if (!name)
		return -ENOMEM;
	name[rp_utf8_repair(text, bytes, name)] = '\0';
	rp_heap_free(row->name);
	row->name = name;
	return 0;
}

static void free_row(struct rp_thread_row *row)
{
	rp_heap_free(row->name);
	rp_heap_free(row->pairs);
}

/* @from: the attribute, whose kind was taken. */
static int take_pair(struct rp_cursor *c, const uint8_t *from, struct rp_thread_row *row)
{
	const uint8_t *text;
	uint32_t bytes;

	/* All pairs of the row are in the rest of it. */
	if (!row->pairs)
		row->pairs = rp_heap_alloc((size_t)(c->end - from));
	if (!row->pairs)
		return -ENOMEM;
	if (take_text(c, &text, &bytes) < 0 || take_text(c, &text, &bytes) < 0)
		return -EBADMSG;
	bytes = (uint32_t)(c->at - from);
	memcpy(row->pairs + row->pair_bytes, from, bytes);
	row->pair_bytes += bytes;
	return 0;
}

static int take_attribute(struct rp_thread_rows *rows, struct rp_cursor *c,
			  struct rp_thread_row *row)
{
	const uint8_t *from = c->at;
	uint8_t kind;

	if (rp_cursor_u8(c, &kind) < 0)
		return -EBADMSG;
	switch (kind) {
	case RP_THREAD_NAME:
		return take_name(c, row);
	case RP_THREAD_PROCESS:
		return rp_cursor_varint(c, &row->process);
	case RP_THREAD_ID:
		return rp_cursor_varint(c, &row->thread);
	case RP_THREAD_KEY_VALUE:
		return take_pair(c, from, row);
	}
	/* An attribute of a later version: its size is unknown, so the rest is unreadable. */
	c->at = c->end;
	rows->has_unknown = true;
	return 0;
}

static int reserve(struct rp_thread_rows *rows)
{
	size_t capacity = rows->capacity ? rows->capacity * 2 : 64;
	struct rp_thread_row *grown;

	if (rows->count < rows->capacity)
		return 0;
	if (rows->count >= ROWS_MAX)
		return -E2BIG;
	grown = rp_heap_resize(rows->rows, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	rows->rows = grown;
	rows->capacity = capacity;
	return 0;
}

static int insert(struct rp_thread_rows *rows, const struct rp_thread_row *row)
{
	struct rp_thread_slot *slot;
	int ret = rp_thread_rows_find(rows, row->index) ? -EEXIST : reserve(rows);

	if (ret == 0)
		ret = rp_thread_table_add(&rows->places, row->index, &slot);
	if (ret < 0)
		return ret;
	rows->reuses_indexes |= row->index < rows->next_index;
	if (row->index >= rows->next_index)
		rows->next_index = row->index + 1;
	rows->rows[rows->count++] = *row;
	slot->sequence = (uint32_t)rows->count;
	return 0;
}

int rp_thread_row_put(struct rp_outbuf *rows, uint64_t index, uint64_t process, uint64_t thread,
		      const struct rp_thread_row *like)
{
	const char *name = like ? like->name : NULL;
	const size_t name_bytes = name ? strnlen(name, UINT16_MAX / 2) : 0;
	size_t pair_bytes = like ? like->pair_bytes : 0;
	uint8_t row[ROW_BYTES], *p = row + 2;
	uint16_t size;

	if (ROW_BYTES + name_bytes + pair_bytes > UINT16_MAX)
		pair_bytes = 0;
	if (rp_outbuf_reserve(rows, sizeof(row) + name_bytes + pair_bytes) < 0)
		return -ENOMEM;
	p = rp_wire_varint_put(p, index);
	*p++ = RP_THREAD_PROCESS;
	p = rp_wire_varint_put(p, process);
	*p++ = RP_THREAD_ID;
	p = rp_wire_varint_put(p, thread);
	if (name_bytes) {
		*p++ = RP_THREAD_NAME;
		p = rp_wire_varint_put(p, name_bytes);
	}
	size = (uint16_t)((size_t)(p - row - 2) + name_bytes + pair_bytes);
	memcpy(row, &size, sizeof(size));
	rp_outbuf_put(rows, row, (size_t)(p - row));
	rp_outbuf_put(rows, name, name_bytes);
	if (pair_bytes)
		rp_outbuf_put(rows, like->pairs, pair_bytes);
	return 0;
}

uint32_t rp_thread_row_hash(const struct rp_thread_row *row)
{
	uint32_t hash = 0;

	for (const char *at = row ? row->name : NULL; at && *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x01000193u | 1;
	for (uint32_t i = 0; row && i < row->pair_bytes; i++)
		hash = (hash ^ row->pairs[i]) * 0x01000193u | 1;
	return hash;
}

int rp_thread_rows_add(struct rp_thread_rows *rows, struct rp_cursor row)
{
	struct rp_thread_row thread = {
		.process = RP_THREAD_NO_PROCESS, .gap = rows->gap, .declared = rows->gap,
	};
	int ret = rp_cursor_varint(&row, &thread.index);

	while (ret == 0 && row.at < row.end)
		ret = take_attribute(rows, &row, &thread);
	if (ret == 0)
		ret = insert(rows, &thread);
	if (ret < 0)
		free_row(&thread);
	return ret;
}

struct rp_thread_row *rp_thread_rows_find(const struct rp_thread_rows *rows, uint64_t index)
{
	const struct rp_thread_slot *slot = rp_thread_table_find(&rows->places, index);

	return slot ? &rows->rows[slot->sequence - 1] : NULL;
}

void rp_thread_rows_remove(struct rp_thread_rows *rows, struct rp_thread_row *row)
{
	struct rp_thread_row *last = &rows->rows[rows->count - 1];
	const uint32_t place = (uint32_t)(row - rows->rows) + 1;

	free_row(row);
	rp_thread_table_remove(&rows->places, row->index);
	if (row != last) {
		*row = *last;
		rp_thread_table_find(&rows->places, row->index)->sequence = place;
	}
	rows->count--;
}

void rp_thread_rows_clear(struct rp_thread_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free_row(&rows->rows[i]);
	rows->count = 0;
	rows->next_index = 0;
	rp_thread_table_fini(&rows->places);
}

void rp_thread_rows_fini(struct rp_thread_rows *rows)
{
	rp_thread_rows_clear(rows);
	rp_heap_free(rows->rows);
}
