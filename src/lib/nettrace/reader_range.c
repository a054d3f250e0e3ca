/* SPDX-License-Identifier: MIT */
/* Reads parts of a stream: those that an index names, and the events of a time. */
#include "nettrace/reader_parts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/sized.h"
#include "base/text.h"

void rp_reader_select(struct rp_reader *reader, struct rp_reader_span *spans, size_t count)
{
	free(reader->spans);
	reader->spans = spans;
	reader->span_count = count;
	reader->span = 0;
}

void rp_reader_limit_time(struct rp_reader *reader, int64_t from_ns, int64_t to_ns,
			  bool (*is_kept)(const struct rp_reader_type *type))
{
	reader->has_range = true;
	reader->from_ns = from_ns;
	reader->to_ns = to_ns;
	reader->is_kept = is_kept;
}

int rp_reader_set_range(struct rp_reader *reader, const struct rp_reader_range *range)
{
	struct rp_reader_range own;

	if (!reader || reader->stats.events || reader->layout.start ||
	    rp_sized_read(&own, sizeof(own), RP_READER_RANGE_SIZE_V1, range) < 0 ||
	    own.reserved || own.from_ns >= own.to_ns)
		return -EINVAL;
	rp_reader_limit_time(reader, own.from_ns, own.to_ns, NULL);
	return 0;
}

bool rp_reader_is_outside(struct rp_reader *reader)
{
	const struct rp_reader_event *event = &reader->returned;

	if (rp_reader_is_inside(reader, event) ||
	    (reader->is_kept && reader->is_kept(event->type)))
		return false;
	reader->stats.events--;
	return true;
}

void rp_reader_add_gap(struct rp_reader *reader)
{
	reader->gap++;
	reader->thread_rows.gap = reader->gap;
	reader->resume.stack_ids.missed = reader->resume.label_ids.missed = true;
}

bool rp_reader_enter_span(struct rp_reader *reader)
{
	const uint64_t offset = reader->source.offset;
	const struct rp_reader_span *span;
	int ret;

	while (reader->span < reader->span_count && reader->spans[reader->span].end <= offset)
		reader->span++;
	if (reader->span == reader->span_count) {
		reader->ended = true;
		return false;
	}
	span = &reader->spans[reader->span];
	if (span->begin > offset) {
		ret = rp_byte_source_seek(&reader->source, span->begin);
		if (ret < 0) {
			rp_reader_fail(reader, ret, offset, "%s", rp_text_error(-ret));
			return false;
		}
		rp_reader_add_gap(reader);
	}
	reader->source.limit = span->end;
	return true;
}

void rp_reader_begin_block(struct rp_reader *reader)
{
	reader->block = (struct rp_reader_block){ .begin = reader->source.offset };
}

void rp_reader_end_block(struct rp_reader *reader)
{
	reader->block.end = reader->source.offset;
	if (reader->on_block)
		reader->on_block(reader->on_block_data, &reader->block);
}
