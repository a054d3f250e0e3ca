/* SPDX-License-Identifier: MIT */
#include "tools/trace/perf_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"

#define MAGIC "PERFILE2"
#define MAGIC_SWAPPED "2ELIFREP"
#define FILE_HEADER_BYTES 104u
#define PIPE_HEADER_BYTES 16u
#define ATTR_SIZE_V0 64u		/* PERF_ATTR_SIZE_VER0 */

/* The types that perf itself adds to those of the kernel. */
enum {
	HEADER_ATTR = 64,
	HEADER_TRACING_DATA = 66,
	HEADER_BUILD_ID = 67,
	AUXTRACE = 71,
	HEADER_FEATURE = 80,
	COMPRESSED = 81,
	COMPRESSED2 = 83,
};

static struct rp_cursor cursor_at(const struct rp_perf_file *file, uint64_t at, uint64_t size)
{
	if (at > file->size || size > file->size - at)
		return (struct rp_cursor){ NULL, NULL };
	return rp_cursor_over(file->bytes + at, size);
}

static uint64_t take_u64(struct rp_cursor *cursor)
{
	uint64_t value;

	if (rp_cursor_u64(cursor, &value) == 0)
		return value;
	rp_cursor_fail(cursor);
	return 0;
}

/* Add an event; `bytes` begin with its perf_event_attr. Return: 0; -EBADMSG; -ENOMEM. */
static int add_event(struct rp_perf_file *file, const uint8_t *bytes, size_t size,
		     const uint8_t *ids, size_t id_count)
{
	struct rp_perf_event *grown;

	if (size < ATTR_SIZE_V0 || file->event_count == RP_PERF_EVENTS_MAX)
		return -EBADMSG;
	grown = rp_array_reserve(file->events, file->event_count, &file->event_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	file->events = grown;
	grown += file->event_count++;
	*grown = (struct rp_perf_event){ .ids = ids, .id_count = id_count };
	memcpy(&grown->attr, bytes, size < sizeof(grown->attr) ? size : sizeof(grown->attr));
	return 0;
}

/* An entry of the section of events: the attributes, and where their ids are. */
static int read_events(struct rp_perf_file *file, uint64_t entry, uint64_t at, uint64_t size)
{
	int ret = 0;

	if (entry < ATTR_SIZE_V0 + 16 || entry > 4096 || at > file->size ||
	    size > file->size - at)
		return -EBADMSG;
	for (; ret == 0 && size >= entry; at += entry, size -= entry) {
		struct rp_cursor where = cursor_at(file, at + entry - 16, 16);
		const uint64_t ids_at = take_u64(&where), ids_size = take_u64(&where);
		const struct rp_cursor ids = cursor_at(file, ids_at, ids_size);

		if (!ids.at)
			return -EBADMSG;
		ret = add_event(file, file->bytes + at, entry - 16, ids.at, ids_size / 8);
	}
	return ret;
}

/* A record of the pipe form, which has the attributes and then the ids. */
static int read_event_record(struct rp_perf_file *file, const uint8_t *bytes, size_t size)
{
	uint32_t attr_size;

	if (size < ATTR_SIZE_V0)
		return -EBADMSG;
	memcpy(&attr_size, bytes + 4, sizeof(attr_size));
	if (attr_size < ATTR_SIZE_V0 || attr_size > size)
		return -EBADMSG;
	return add_event(file, bytes, attr_size, bytes + attr_size, (size - attr_size) / 8);
}

/* The sections of features follow the data, in the order of their bits: u64 offset, u64 size. */
static int read_features(struct rp_perf_file *file, uint64_t at, uint64_t features)
{
	int ret = 0;

	for (unsigned int number = 0; ret == 0 && number < 64; number++) {
		struct rp_cursor section, feature;
		uint64_t from, size;

		if (!(features & 1ull << number))
			continue;
		section = cursor_at(file, at, 16);
		from = take_u64(&section);
		size = take_u64(&section);
		feature = cursor_at(file, from, size);
		if (!rp_cursor_failed(&section) && feature.at)
			ret = rp_perf_features_read(&file->features, number, feature.at, size);
		at += 16;
	}
	return ret;
}

static int add_record(struct rp_perf_file *file, uint64_t at)
{
	struct rp_perf_entry *grown;

	if (file->record_count == RP_PERF_RECORDS_MAX) {
		file->is_cut = true;
		return 0;
	}
	grown = rp_array_reserve(file->records, file->record_count, &file->record_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	file->records = grown;
	grown[file->record_count++] = (struct rp_perf_entry){ .at = at };
	return 0;
}

static int take_record(struct rp_perf_file *file, uint64_t at,
		       const struct perf_event_header *header)
{
	const uint8_t *payload = file->bytes + at + sizeof(*header);
	const size_t size = header->size - sizeof(*header);
	uint64_t number;

	switch (header->type) {
	case HEADER_ATTR:
		return read_event_record(file, payload, size);
	case HEADER_BUILD_ID:
		return rp_perf_features_add_build_id(&file->features, payload, size, header->misc);
	case HEADER_FEATURE:
		if (size < sizeof(number))
			return 0;
		memcpy(&number, payload, sizeof(number));
		return rp_perf_features_read(&file->features, number, payload + sizeof(number),
					     size - sizeof(number));
	case COMPRESSED:
	case COMPRESSED2:
		file->error = "its records are compressed; record it without -z";
		return -EBADMSG;
	default:
		return header->type < HEADER_ATTR ? add_record(file, at) : 0;
	}
}

/* Return: the bytes of data that follow the record and do not count for its size. */
static uint64_t bytes_after(const struct rp_perf_file *file, uint64_t at,
			    const struct perf_event_header *header)
{
	struct rp_cursor payload = cursor_at(file, at + sizeof(*header),
					     header->size - sizeof(*header));
	uint32_t small;

	if (header->type == AUXTRACE)
		return take_u64(&payload);
	if (header->type == HEADER_TRACING_DATA && rp_cursor_u32(&payload, &small) == 0)
		return ((uint64_t)small + 7) & ~7ull;
	return 0;
}

static int read_records(struct rp_perf_file *file, uint64_t at, uint64_t end)
{
	struct perf_event_header header;
	int ret = 0;

	while (ret == 0 && at < end) {
		uint64_t more;

		if (end - at < sizeof(header))
			break;
		memcpy(&header, file->bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > end - at)
			break;
		ret = take_record(file, at, &header);
		more = bytes_after(file, at, &header);
		at += header.size;
		if (more > end - at)
			break;
		at += more;
	}
	file->is_cut |= ret == 0 && at < end;
	return ret;
}

static int compare_records(const void *left, const void *right)
{
	const struct rp_perf_entry *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->at > b->at) - (a->at < b->at);
}

static int sort_records(struct rp_perf_file *file)
{
	if (!file->event_count) {
		file->error = "it has no events";
		return -EBADMSG;
	}
	for (size_t i = 0; i < file->event_count; i++) {
		const uint64_t type = file->events[i].attr.sample_type;

		if (!(type & PERF_SAMPLE_TIME) || !(type & PERF_SAMPLE_TID)) {
			file->error = "its records have no times or threads";
			return -EBADMSG;
		}
		if (type != file->events[0].attr.sample_type && !(type & PERF_SAMPLE_IDENTIFIER)) {
			file->error = "its events differ, and its records do not say theirs";
			return -EBADMSG;
		}
	}
	for (size_t i = 0; i < file->record_count; i++) {
		struct rp_perf_entry *record = &file->records[i];
		struct rp_perf_sample sample;

		if (rp_perf_header(file, record).type != PERF_RECORD_SAMPLE) {
			rp_perf_read_trailer(file, record, &sample.place);
			record->time = sample.place.time;
		} else if (rp_perf_read_sample(file, record, &sample)) {
			record->time = sample.place.time;
		}
	}
	if (file->record_count)
		qsort(file->records, file->record_count, sizeof(*file->records), compare_records);
	return 0;
}

static int read_file_form(struct rp_perf_file *file)
{
	struct rp_cursor header = cursor_at(file, 16, FILE_HEADER_BYTES - 16);
	const uint64_t entry = take_u64(&header), events_at = take_u64(&header);
	const uint64_t events_size = take_u64(&header), data_at = take_u64(&header);
	uint64_t data_size = take_u64(&header), features;
	int ret;

	(void)take_u64(&header);
	(void)take_u64(&header);
	features = take_u64(&header);
	if (rp_cursor_failed(&header) || data_at > file->size ||
	    read_events(file, entry, events_at, events_size) == -EBADMSG) {
		file->error = "its header is damaged";
		return -EBADMSG;
	}
	/* A recording that was killed does not know the size of its data. */
	if (data_size == 0 || data_size > file->size - data_at) {
		file->is_cut = true;
		data_size = file->size - data_at;
		features = 0;
	}
	ret = read_records(file, data_at, data_at + data_size);
	return ret ? ret : read_features(file, data_at + data_size, features);
}

int rp_perf_file_read(struct rp_perf_file *file, const void *bytes, size_t size)
{
	uint64_t header_bytes = 0;
	int ret;

	*file = (struct rp_perf_file){ .bytes = bytes, .size = size };
	if (size >= PIPE_HEADER_BYTES)
		memcpy(&header_bytes, file->bytes + 8, sizeof(header_bytes));
	if (size >= 8 && memcmp(bytes, MAGIC_SWAPPED, 8) == 0)
		file->error = "it is from a machine with the other byte order";
	else if (size < PIPE_HEADER_BYTES || memcmp(bytes, MAGIC, 8) != 0)
		file->error = "it is no perf.data, or its header is cut";
	else if (header_bytes != PIPE_HEADER_BYTES && header_bytes != FILE_HEADER_BYTES)
		file->error = "its header has an unknown size";
	if (file->error)
		return -EBADMSG;
	ret = header_bytes == PIPE_HEADER_BYTES ? read_records(file, PIPE_HEADER_BYTES, size) :
						  read_file_form(file);
	if (ret == 0)
		ret = sort_records(file);
	if (ret == -EBADMSG && !file->error)
		file->error = "it is damaged";
	return ret;
}

void rp_perf_file_fini(struct rp_perf_file *file)
{
	free(file->events);
	free(file->records);
	rp_perf_features_fini(&file->features);
	*file = (struct rp_perf_file){ 0 };
}

const char *rp_perf_event_name(const struct rp_perf_file *file, const struct rp_perf_event *event)
{
	const size_t index = (size_t)(event - file->events);

	return index < file->features.event_name_count ? file->features.event_names[index] : "";
}

struct perf_event_header rp_perf_header(const struct rp_perf_file *file,
					const struct rp_perf_entry *record)
{
	struct perf_event_header header;

	memcpy(&header, file->bytes + record->at, sizeof(header));
	return header;
}

static void take_pair(struct rp_cursor *cursor, uint32_t *first, uint32_t *second)
{
	const uint64_t both = take_u64(cursor);

	*first = (uint32_t)both;
	*second = (uint32_t)(both >> 32);
}

void rp_perf_read_trailer(const struct rp_perf_file *file, const struct rp_perf_entry *record,
			  struct rp_perf_place *ret_place)
{
	const struct perf_event_attr *attr = &file->events[0].attr;
	const struct perf_event_header header = rp_perf_header(file, record);
	const uint64_t all = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
			     PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
	const size_t size = 8 * (size_t)__builtin_popcountll(attr->sample_type & all);
	struct rp_cursor trailer;
	uint32_t reserved;

	*ret_place = (struct rp_perf_place){ 0 };
	if (!attr->sample_id_all || header.size < sizeof(header) + size)
		return;
	trailer = cursor_at(file, record->at + header.size - size, size);
	if (attr->sample_type & PERF_SAMPLE_TID)
		take_pair(&trailer, &ret_place->process, &ret_place->thread);
	if (attr->sample_type & PERF_SAMPLE_TIME)
		ret_place->time = take_u64(&trailer);
	if (attr->sample_type & PERF_SAMPLE_ID)
		(void)take_u64(&trailer);
	if (attr->sample_type & PERF_SAMPLE_STREAM_ID)
		(void)take_u64(&trailer);
	if (attr->sample_type & PERF_SAMPLE_CPU)
		take_pair(&trailer, &ret_place->processor, &reserved);
}

static const struct rp_perf_event *find_event(const struct rp_perf_file *file, uint64_t id)
{
	for (size_t i = 0; i < file->event_count; i++) {
		const struct rp_perf_event *event = &file->events[i];

		for (size_t j = 0; j < event->id_count; j++) {
			if (memcmp(event->ids + 8 * j, &id, sizeof(id)) == 0)
				return event;
		}
	}
	return NULL;
}

/* Skip the values of the event's counters. */
static void skip_values(struct rp_cursor *cursor, uint64_t format)
{
	const unsigned int times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
				   !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	const unsigned int each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & 1u << 4);
	const uint64_t count = format & PERF_FORMAT_GROUP ? take_u64(cursor) : 1;
	const uint8_t *skipped;

	if (rp_cursor_failed(cursor) || count > UINT16_MAX ||
	    rp_cursor_take(cursor, 8 * (times + each * count), &skipped) != 0)
		rp_cursor_fail(cursor);
}

bool rp_perf_read_sample(const struct rp_perf_file *file, const struct rp_perf_entry *record,
			 struct rp_perf_sample *ret_sample)
{
	const struct perf_event_header header = rp_perf_header(file, record);
	struct rp_cursor cursor = cursor_at(file, record->at + sizeof(header),
					    header.size - sizeof(header));
	const struct rp_perf_event *event = &file->events[0];
	struct rp_perf_sample sample = { .event = event };
	uint64_t type = event->attr.sample_type;
	uint32_t reserved;

	if (type & PERF_SAMPLE_IDENTIFIER) {
		sample.event = event = find_event(file, take_u64(&cursor));
		if (!event)
			return false;
		type = event->attr.sample_type;
	}
	if (type & PERF_SAMPLE_IP)
		sample.address = take_u64(&cursor);
	take_pair(&cursor, &sample.place.process, &sample.place.thread);
	sample.place.time = take_u64(&cursor);
	if (type & PERF_SAMPLE_ADDR)
		(void)take_u64(&cursor);
	if (type & PERF_SAMPLE_ID) {
		sample.place.id = take_u64(&cursor);
		event = find_event(file, sample.place.id);
		sample.event = event ? event : sample.event;
	}
	if (type & PERF_SAMPLE_STREAM_ID)
		(void)take_u64(&cursor);
	if (type & PERF_SAMPLE_CPU)
		take_pair(&cursor, &sample.place.processor, &reserved);
	if (type & PERF_SAMPLE_PERIOD)
		sample.period = take_u64(&cursor);
	if (type & PERF_SAMPLE_READ)
		skip_values(&cursor, sample.event->attr.read_format);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		sample.frame_count = take_u64(&cursor);
		if (rp_cursor_failed(&cursor) || sample.frame_count > UINT16_MAX / 8 ||
		    rp_cursor_take(&cursor, 8 * sample.frame_count, &sample.frames) != 0)
			return false;
	}
	if (type & PERF_SAMPLE_RAW) {
		if (rp_cursor_u32(&cursor, &sample.raw_bytes) ||
		    rp_cursor_take(&cursor, sample.raw_bytes, &sample.raw) != 0)
			return false;
	}
	*ret_sample = sample;
	return !rp_cursor_failed(&cursor);
}
