/* SPDX-License-Identifier: MIT */
/*
 * Rebuild a trace from the files: first the session's output up to the last record, unchanged, then
 * the content of the rings, encoded as the session would have encoded it. The trace contains each
 * committed event once: output after the last record is cut off, and the events of that output are
 * still in a ring. For a session that overwrites, the trace reports the time from which it is
 * complete, as a snapshot does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "base/file.h"
#include "base/memory.h"
#include "nettrace/encoder.h"
#include "nettrace/thread_table.h"
#include "recover/definitions.h"
#include "recover/recovery.h"
#include "ring/ring.h"

#define INDEX_MAX (1u << 20)
#define LOST_MAX (1ull << 40)	/* a larger count is damage, and encoding it would take pages */
#define OUTPUT_BYTES (1u << 20)
#define AGE_MAX_NS (1ull << 60)	/* maximum age of a session: 36 years */

struct rebuilt_definition {
	struct rp_definition definition;
	struct rp_encoder_event_type *type;
	bool there;
};

/* A ring's records, from its tail to its head, copied into contiguous memory. */
struct queue {
	uint8_t *bytes;
	size_t at, end;
	const struct rp_record *record;	/* at offset `at`; NULL: no more records */
};

struct rebuild {
	const struct rp_recover_header *head;
	const struct rp_recover_record *record;
	struct rebuilt_definition *known;
	size_t known_count;
	struct queue *queues;
	size_t queue_count;
	struct rp_thread_table threads;	/* threads in the output */
	uint32_t metadata_id;		/* the highest id in the output */
	uint32_t version;		/* of the output's format */
	struct rp_encoder *encoder;
	uint64_t last_ns;
	uint64_t from_ns;		/* complete since then; 0: it does not overwrite */
	int fd;
	struct rp_recovery_result result;
};

static int find_record(struct rebuild *rebuild, const struct rp_recovery_file *session)
{
	const struct rp_recover_header *head = (const void *)session->bytes;
	uint64_t step;

	if (session->size < sizeof(*head) ||
	    memcmp(head->magic, RP_RECOVER_MAGIC, sizeof(head->magic)) != 0 ||
	    head->ring_space > RP_RECOVER_RINGS_MAX || head->start_utc_ns < 0)
		return -EBADMSG;
	step = rp_recover_record_bytes(head->ring_space);
	if (session->size - sizeof(*head) < 2 * step)
		return -EBADMSG;
	rebuild->head = head;
	/* [RECOVER-RECORD] */
	rebuild->record = (const void *)(session->bytes + sizeof(*head) +
					 (head->generation & 1) * step);
	rebuild->last_ns = rebuild->record->last_ns;
	rebuild->from_ns = rebuild->record->from_ns;
	rebuild->result.start_ns = head->start_ns;
	rebuild->result.start_utc_ns = head->start_utc_ns;
	return rebuild->record->ring_count > head->ring_space ||
	       rebuild->record->lost_reported > LOST_MAX ? -EBADMSG : 0;
}

/* Events whose definitions are invalid count as unknown. */
static int read_definitions(struct rebuild *rebuild, const struct rp_recovery_file *events)
{
	struct rp_cursor cursor = { events->bytes, events->bytes + events->size };
	struct rp_definition definition;
	uint32_t index;
	int ret;

	while ((ret = rp_definition_take(&cursor, &index, &definition)) == 0 || ret == -EBADMSG) {
		struct rebuilt_definition *grown = rebuild->known;

		if (ret != 0)
			continue;
		if (index >= INDEX_MAX) {
			rp_definition_fini(&definition);
			continue;
		}
		if (index >= rebuild->known_count)
			grown = rp_memory_grow(grown, &rebuild->known_count, index, sizeof(*grown));
		if (!grown) {
			rp_definition_fini(&definition);
			return -ENOMEM;
		}
		rebuild->known = grown;
		rp_definition_fini(&grown[index].definition);
		grown[index] = (struct rebuilt_definition){ definition, .there = true };
	}
	/* The writer was killed while it wrote the definition: the event was not enabled yet. */
	return ret == -ENODATA ? 0 : ret;
}

/* Check the record at the queue's position. An invalid record ends the queue. */
static void look(struct rebuild *rebuild, struct queue *queue)
{
	const struct rp_record *record = (const void *)(queue->bytes + queue->at);
	size_t left = queue->end - queue->at;

	queue->record = NULL;
	if (left == 0)
		return;
	if (left < RP_RECORD_HEADER || record->length < RP_RECORD_HEADER ||
	    record->length > RP_RECORD_MAX || rp_record_step(record->length) > left) {
		rebuild->result.damaged++;
		return;
	}
	queue->record = record;
}

static uint64_t time_of(const struct rebuild *rebuild, uint64_t ticks)
{
	const struct rp_recover_record *record = rebuild->record;
	double step;

	if (!rebuild->head->clock_is_tsc)
		return ticks;
	step = (double)(int64_t)(ticks - record->clock_ticks) * record->clock_ns_per_tick;
	/* The negation also catches NaN. */
	if (!(step > -9e18 && step < 9e18))
		step = 0;
	return record->clock_ns + (uint64_t)(int64_t)step;
}

/* Whether the positions and sizes in a ring are consistent. */
static bool is_sound(const struct rp_ring *ring, uint64_t from, size_t data_bytes)
{
	return ring->size == data_bytes && !(ring->size & (ring->size - 1)) &&
	       (!ring->subbuf || (ring->size >= RP_RING_SUBBUFS * 8 &&
				  ring->subbuf == ring->size / RP_RING_SUBBUFS)) &&
	       ring->head - from <= ring->size && (from | ring->head) % 8 == 0;
}

/* Copy the records in [from, head) without gaps. The queue has space for all of them. */
static void copy_records(struct rebuild *rebuild, struct queue *queue, const struct rp_ring *ring,
			 uint64_t from)
{
	while (from < ring->head) {
		uint64_t end = rp_ring_batch_end(ring, from, ring->head), place, first;

		if (end < from || end > ring->head || end % 8) {
			rebuild->result.damaged++;
			end = from;
		}
		place = from & (ring->size - 1);
		first = ring->size - place < end - from ? ring->size - place : end - from;
		memcpy(queue->bytes + queue->end, ring->data + place, first);
		memcpy(queue->bytes + queue->end + first, ring->data, end - from - first);
		queue->end += end - from;
		from = !ring->subbuf ? ring->head : (from | (ring->subbuf - 1)) + 1;
	}
}

/*
 * The ring overwrote records that the output lacks: the trace is complete only after the oldest
 * record left.
 */
static void begin_window(struct rebuild *rebuild, const struct queue *queue)
{
	uint64_t from = queue->record ? time_of(rebuild, queue->record->ticks) + 1 : UINT64_MAX;

	if (rebuild->from_ns < from)
		rebuild->from_ns = from;
}

/* Return: 0, also for an inconsistent ring; -ENOMEM. */
static int open_queue(struct rebuild *rebuild, size_t number, const struct rp_recovery_file *file)
{
	struct queue *queue = &rebuild->queues[number];
	uint64_t from = 0, oldest;
	struct rp_ring ring;

	if (file->size < RP_RING_CONTROL_BYTES) {
		rebuild->result.damaged += file->size != 0;
		return 0;
	}
	memcpy(&ring, file->bytes, sizeof(ring));
	if (ring.size == 0)
		return 0;	/* the process was killed while it created the ring */
	ring.data = file->bytes + RP_RING_CONTROL_BYTES;
	if (number < rebuild->record->ring_count)
		from = rebuild->record->tails[number];
	/* Without overwriting, a ring frees only records in the output: trust its later tail. */
	if (!ring.subbuf && ring.tail > from)
		from = ring.tail < ring.head ? ring.tail : ring.head;
	oldest = ring.subbuf ? rp_ring_oldest(&ring) : 0;
	if (!is_sound(&ring, oldest > from ? oldest : from, file->size - RP_RING_CONTROL_BYTES)) {
		rebuild->result.damaged++;
		return 0;
	}
	rebuild->result.lost += ring.lost_full + ring.lost_fallback;
	queue->bytes = malloc(ring.size);
	if (!queue->bytes)
		return -ENOMEM;
	copy_records(rebuild, queue, &ring, oldest > from ? oldest : from);
	look(rebuild, queue);
	if (oldest > from)
		begin_window(rebuild, queue);
	return 0;
}

static int open_queues(struct rebuild *rebuild, const struct rp_recovery *recovery)
{
	int ret = 0;

	rebuild->queues = calloc(recovery->ring_count + 1, sizeof(*rebuild->queues));
	if (!rebuild->queues)
		return -ENOMEM;
	rebuild->queue_count = recovery->ring_count;
	for (size_t i = 0; ret == 0 && i < recovery->ring_count; i++)
		ret = open_queue(rebuild, i, &recovery->rings[i]);
	rebuild->result.lost += rebuild->record->lost_besides;
	if (rebuild->result.lost > LOST_MAX) {
		rebuild->result.lost = rebuild->record->lost_reported;
		rebuild->result.damaged++;
	}
	return ret;
}

/* Return: 1: all bytes were copied; 0: the output is shorter; -errno. */
static int copy_output(int from, int to, uint64_t size)
{
	uint8_t bytes[65536];
	uint64_t done = 0;

	while (done < size) {
		size_t piece = size - done < sizeof(bytes) ? size - done : sizeof(bytes);
		ssize_t got = pread(from, bytes, piece, (off_t)done);
		int ret;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		ret = rp_file_write(to, bytes, (size_t)got);
		if (ret != 0)
			return ret;
		done += (uint64_t)got;
	}
	return 1;
}

/*
 * Read the copy, to continue its metadata ids and sequence numbers. Return: 1; 0: the copy is not
 * what the session wrote; -errno.
 */
static int read_copy(struct rebuild *rebuild)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_thread_slot *slot;
	struct rp_reader *reader;
	int ret;

	if (lseek(rebuild->fd, 0, SEEK_SET) < 0)
		return -errno;
	ret = rp_reader_open_fd(rebuild->fd, &reader);
	if (ret != 0)
		return ret == -ENOMEM ? ret : 0;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (rebuild->metadata_id < event.type->metadata_id)
			rebuild->metadata_id = event.type->metadata_id;
		ret = rp_thread_table_add(&rebuild->threads, event.capture_thread, &slot);
		if (ret != 0)
			break;
		slot->sequence = event.sequence;
	}
	rp_reader_get_info(reader, &info);
	rp_reader_get_stats(reader, &stats);
	rp_reader_close(reader);
	if (ret == -ENOMEM)
		return ret;
	rebuild->result.before = stats.events;
	rebuild->version = info.version;
	return ret == -ENODATA && stats.bytes == rebuild->record->output_bytes &&
	       info.start_ticks == rebuild->head->start_ns && rebuild->metadata_id < INDEX_MAX;
}

/* Copy the session's output into the trace, unless it was deleted or replaced by another file. */
static int take_output(struct rebuild *rebuild, int output_fd)
{
	const struct rp_recover_record *record = rebuild->record;
	int ret = output_fd < 0 ? 0 : 1;

	if (ret > 0)
		ret = copy_output(output_fd, rebuild->fd, record->output_bytes);
	if (ret > 0 && record->output_bytes)
		ret = read_copy(rebuild);
	if (ret < 0)
		return ret;
	rebuild->result.has_output = ret || record->output_bytes == 0;
	if (ret)
		rebuild->result.copied_bytes = record->output_bytes;
	else
		rebuild->result.before = 0;
	/* Cut off all output that is not part of the trace. */
	if (ftruncate(rebuild->fd, (off_t)rebuild->result.copied_bytes) != 0 ||
	    lseek(rebuild->fd, 0, SEEK_END) < 0)
		return -errno;
	return 0;
}

static bool overwrites(const struct rebuild *rebuild)
{
	return rebuild->known_count > RP_RECOVER_WINDOW_INDEX &&
	       rebuild->known[RP_RECOVER_WINDOW_INDEX].there;
}

/*
 * A flight recorder may have run for days while its records are of the last minute. Return: the
 * start of the window or the time of the oldest record, whichever is earlier; the session's start
 * if that time is invalid.
 */
static uint64_t oldest_time(const struct rebuild *rebuild)
{
	const struct rp_recover_header *head = rebuild->head;
	uint64_t oldest = rebuild->from_ns ? rebuild->from_ns : UINT64_MAX;

	for (size_t i = 0; i < rebuild->queue_count; i++) {
		const struct rp_record *record = rebuild->queues[i].record;
		uint64_t ns = record ? time_of(rebuild, record->ticks) : UINT64_MAX;

		oldest = ns < oldest ? ns : oldest;
	}
	return oldest > head->start_ns && oldest - head->start_ns < AGE_MAX_NS &&
	       head->start_utc_ns < (int64_t)AGE_MAX_NS * 4 ? oldest : head->start_ns;
}

static int begin_afresh(struct rebuild *rebuild)
{
	const struct rp_recover_header *head = rebuild->head;
	uint64_t later = overwrites(rebuild) ? oldest_time(rebuild) - head->start_ns : 0;
	const struct rp_encoder_info info = {
		.start_ns = head->start_ns + later,
		.start_utc_ns = head->start_utc_ns + (int64_t)later,
		.process_id = head->process_id,
		.processors = head->processors,
		.version = head->format,
		.own_ids = head->own_ids,
	};
	int ret = rp_encoder_create(&info, &rebuild->encoder);

	return ret != 0 ? ret : rp_encoder_sequence_point(rebuild->encoder, info.start_ns, 0);
}

static int go_on(struct rebuild *rebuild)
{
	const struct rp_encoder_point point = {
		.stream_offset = rebuild->result.copied_bytes,
		.last_ns = rebuild->last_ns,
		.lost = rebuild->record->lost_reported,
		.metadata_id = rebuild->metadata_id,
		.version = rebuild->version,
		.process_id = rebuild->head->process_id,
		.own_ids = rebuild->head->own_ids,
	};
	int ret = rp_encoder_resume(&point, &rebuild->encoder);

	for (size_t i = 0; ret == 0 && i < rebuild->threads.capacity; i++) {
		const struct rp_thread_slot *slot = &rebuild->threads.slots[i];

		if (slot->used)
			ret = rp_encoder_resume_thread(rebuild->encoder, slot->thread,
						       slot->sequence);
	}
	return ret;
}

static int put_output(struct rebuild *rebuild, size_t at_least)
{
	size_t size;
	const void *bytes = rp_encoder_output(rebuild->encoder, &size);
	int ret;

	if (size < at_least)
		return 0;
	ret = rp_file_write(rebuild->fd, bytes, size);
	if (ret == 0)
		rp_encoder_consume(rebuild->encoder, size);
	return ret;
}

/* Return: 0, with the type, or NULL if it is unknown or no trace can contain it; or -ENOMEM. */
static int type_of(struct rebuild *rebuild, uint32_t index,
		   struct rp_encoder_event_type **ret_type)
{
	struct rebuilt_definition *known = index < rebuild->known_count ?
					   &rebuild->known[index] : NULL;
	int ret = 0;

	*ret_type = NULL;
	if (!known || !known->there)
		return 0;
	if (!known->type) {
		ret = rp_encoder_define(rebuild->encoder, &known->definition, &known->type);
		known->there = ret == 0;
	}
	*ret_type = known->type;
	return ret == -ENOMEM ? ret : 0;
}

static int put_record(struct rebuild *rebuild, const struct rp_record *record)
{
	struct rp_encoder_event event = {
		.time_ns = time_of(rebuild, record->ticks),
		.thread = record->thread,
		.processor = record->processor,
		.frame_count = record->frames,
	};
	struct rp_cursor cursor = { record->body, (const uint8_t *)record + record->length };
	struct rp_encoder_event_type *type;
	const uint8_t *activity = NULL, *related = NULL, *frames;
	int ret = type_of(rebuild, record->event, &type);

	if (ret != 0 || !type) {
		rebuild->result.unknown++;
		return ret;
	}
	if (((record->flags & RP_RECORD_ACTIVITY) && rp_cursor_take(&cursor, 16, &activity) < 0) ||
	    ((record->flags & RP_RECORD_RELATED) && rp_cursor_take(&cursor, 16, &related) < 0) ||
	    rp_cursor_take(&cursor, record->frames * 8u, &frames) < 0) {
		rebuild->result.damaged++;
		return 0;
	}
	if (event.time_ns < rebuild->last_ns)
		event.time_ns = rebuild->last_ns;
	rebuild->last_ns = event.time_ns;
	event.type = type;
	event.activity = (const struct rp_guid *)activity;
	event.related_activity = (const struct rp_guid *)related;
	event.frames = (const uint64_t *)frames;
	event.payload = cursor.at;
	event.payload_bytes = rp_cursor_left(&cursor);
	ret = rp_encoder_event(rebuild->encoder, &event);
	rebuild->result.recovered += ret == 0;
	return ret != 0 ? ret : put_output(rebuild, OUTPUT_BYTES);
}

static int merge(struct rebuild *rebuild)
{
	int ret = 0;

	while (ret == 0) {
		struct queue *first = NULL;

		for (size_t i = 0; i < rebuild->queue_count; i++) {
			struct queue *queue = &rebuild->queues[i];

			if (queue->record &&
			    (!first || queue->record->ticks < first->record->ticks))
				first = queue;
		}
		if (!first)
			return 0;
		ret = put_record(rebuild, first->record);
		first->at += rp_record_step(first->record->length);
		look(rebuild, first);
	}
	return ret;
}

/* Report the window as a snapshot does. It ends at the last known time of the process. */
static int report_window(struct rebuild *rebuild)
{
	const struct rp_recover_record *record = rebuild->record;
	uint64_t to = rebuild->last_ns > record->clock_ns ? rebuild->last_ns : record->clock_ns;
	uint64_t payload[2] = { rebuild->from_ns && rebuild->from_ns < to ? rebuild->from_ns : to,
				to };
	struct rp_encoder_event event = {
		.time_ns = rebuild->last_ns,
		.thread = rebuild->head->process_id,
		.payload = payload,
		.payload_bytes = sizeof(payload),
	};
	struct rp_encoder_event_type *type = NULL;
	int ret = overwrites(rebuild) ? type_of(rebuild, RP_RECOVER_WINDOW_INDEX, &type) : 0;

	if (ret != 0 || !type)
		return ret;
	event.type = type;
	rebuild->result.from_ns = payload[0];
	rebuild->result.to_ns = to;
	rebuild->result.has_window = true;
	return rp_encoder_event(rebuild->encoder, &event);
}

static int write_trace(struct rebuild *rebuild, const struct rp_recovery *recovery, int output_fd)
{
	int ret = read_definitions(rebuild, &recovery->events);

	if (ret == 0)
		ret = open_queues(rebuild, recovery);
	if (ret == 0)
		ret = take_output(rebuild, output_fd);
	if (ret == 0)
		ret = rebuild->result.copied_bytes ? go_on(rebuild) : begin_afresh(rebuild);
	if (ret == 0)
		ret = merge(rebuild);
	if (ret == 0)
		ret = report_window(rebuild);
	if (ret == 0)
		ret = rp_encoder_sequence_point(rebuild->encoder, rebuild->last_ns,
						rebuild->result.lost);
	if (ret == 0)
		ret = rp_encoder_end(rebuild->encoder);
	return ret != 0 ? ret : put_output(rebuild, 0);
}

int rp_recovery_write(const struct rp_recovery *recovery, int output_fd, int fd,
		      struct rp_recovery_result *ret_result)
{
	struct rebuild rebuild = { .fd = fd };
	int ret = find_record(&rebuild, &recovery->session);

	if (ret == 0)
		ret = write_trace(&rebuild, recovery, output_fd);
	if (ret == 0)
		*ret_result = rebuild.result;
	for (size_t i = 0; i < rebuild.queue_count; i++)
		free(rebuild.queues[i].bytes);
	free(rebuild.queues);
	for (size_t i = 0; i < rebuild.known_count; i++)
		rp_definition_fini(&rebuild.known[i].definition);
	free(rebuild.known);
	rp_thread_table_fini(&rebuild.threads);
	rp_encoder_destroy(rebuild.encoder);
	return ret;
}
