/* SPDX-License-Identifier: MIT */
/* One event that is being written, and the cursor over its payload. */
#ifndef RP_LTTNG_RECORD_H
#define RP_LTTNG_RECORD_H

#include <string.h>

#include "modules/lttng/tracepoint.h"

#define RP_GUID_TEXT 37u	/* with the NUL */
#define RP_COPIED_MAX 256u	/* bytes of a payload */

/* A position in a payload: a part, and an offset in it. */
struct rp_lttng_cursor {
	const struct rp_part *part, *end;
	size_t at;
};

struct rp_lttng_record {
	const struct rp_lttng_event *event;
	const struct rp_part *parts;	/* the copy's, if the payload was copied */
	unsigned int part_count;
	bool is_copied;
	bool convert;
	size_t bytes;			/* total size as LTTng gets it */
	const char *activity, *related;	/* consecutive texts in `space` */
	size_t activity_bytes;		/* including both NULs */
	struct rp_part copy;
	/* The copy of a small payload, followed by the ids. */
	uint8_t space[RP_COPIED_MAX + 2 * RP_GUID_TEXT];
};

static inline void rp_lttng_cursor_begin(struct rp_lttng_cursor *cursor,
					 const struct rp_lttng_record *record)
{
	cursor->part = record->parts;
	cursor->end = record->parts + record->part_count;
	cursor->at = 0;
}

/* Return: the number of contiguous bytes from here on; 0 at the end. */
static inline size_t rp_lttng_cursor_together(struct rp_lttng_cursor *cursor,
					      const uint8_t **ret_at)
{
	while (cursor->part < cursor->end && cursor->at == cursor->part->size_bytes) {
		cursor->part++;
		cursor->at = 0;
	}
	if (cursor->part == cursor->end)
		return 0;
	*ret_at = (const uint8_t *)cursor->part->base + cursor->at;
	return cursor->part->size_bytes - cursor->at;
}

/* Copies bytes to `to`, or skips them if `to` is NULL. */
static inline bool rp_lttng_cursor_take(struct rp_lttng_cursor *cursor, void *to, size_t bytes)
{
	uint8_t *out = to;

	while (bytes) {
		const uint8_t *at;
		size_t some = rp_lttng_cursor_together(cursor, &at);

		if (some == 0)
			return false;
		if (some > bytes)
			some = bytes;
		if (out)
			out = (uint8_t *)memcpy(out, at, some) + some;
		cursor->at += some;
		bytes -= some;
	}
	return true;
}

/* Takes a text that is contiguous in one part; `units` is its length without the NUL. */
static inline const uint8_t *rp_lttng_cursor_take_text(struct rp_lttng_cursor *cursor, size_t unit,
						 size_t *ret_units)
{
	const uint8_t *at, *end;
	size_t bytes = rp_lttng_cursor_together(cursor, &at), units = 0;

	if (bytes == 0)
		return NULL;
	if (unit == 1) {
		end = memchr(at, 0, bytes);
		if (!end)
			return NULL;
		units = (size_t)(end - at);
	} else {
		while (2 * units + 1 < bytes && (at[2 * units] || at[2 * units + 1]))
			units++;
		if (2 * units + 1 >= bytes)
			return NULL;
	}
	cursor->at += (units + 1) * unit;
	*ret_units = units;
	return at;
}

/*
 * filter.c: writes the values for LTTng's filters, at most 16 bytes for each field. `space`
 * receives UTF-16 converted to UTF-8.
 */
void rp_lttng_fill_stack(const struct rp_lttng_record *record, char *stack, char *space,
			 size_t space_bytes);

#endif
