/* SPDX-License-Identifier: MIT */
/*
 * Each source has a reader, and all events go through one encoder. The encoder gives the events new
 * sequence numbers, of each thread in version 4 and of the stream in version 6, because two
 * processes may use the same thread id. The encoder adds up the losses. Definitions get other ids,
 * and payloads are copied. Where whole recordings are merged, trace_merge_rename.c changes ids,
 * names and times in the payloads that describe processes and clocks.
 */
#include "tools/trace/trace_merge_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/trace/loss_event.h"
#include "tools/trace/trace_fields.h"

#define WRITE_BYTES (1u << 20)
#define RELEASE_BYTES (64u << 10)
#define HELD_BYTES_MAX (16u << 20)

/* Free the disk blocks of what has been read; some file systems cannot do that. */
static void release(struct rp_merge_strand *strand)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t at_least = strand->source->is_complete ? page : RELEASE_BYTES;
	uint64_t until = strand->offset / page * page;

	if (strand->source->fd < 0 || until - strand->released < at_least ||
	    fallocate(strand->source->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)strand->released, (off_t)(until - strand->released)) != 0)
		return;
	strand->released = until;
}

/*
 * The blocks of the sources are freed first, so that a full disk has space for their events. If it
 * has none, what was not written stays in the encoder for the next time. A compressor has already
 * taken all bytes, and its frame in the file is broken, so nothing can follow.
 */
static int write_out(struct rp_trace_merge *merge, size_t at_least)
{
	size_t size;
	const void *bytes = rp_encoder_output(merge->encoder, &size);
	off_t before, after;
	int ret;

	if (size == 0 || size < at_least)
		return 0;
	for (size_t i = 0; i < merge->open_count; i++)
		release(merge->open[i]);
	before = merge->output->regular && !merge->output->compress ?
		 lseek(merge->output->fd, 0, SEEK_CUR) : -1;
	ret = rp_output_write(merge->output, bytes, size);
	after = rp_output_is_full(ret) && before >= 0 ? lseek(merge->output->fd, 0, SEEK_CUR) : -1;
	merge->held_bytes = after >= before && after >= 0 ? size - (size_t)(after - before) : 0;
	rp_encoder_consume(merge->encoder, size - merge->held_bytes);
	return ret;
}

/* Find the kind's type in the encoder, and create it at the kind's first event. */
static int find_type(struct rp_trace_merge *merge, struct rp_reader_type *kind,
		     struct rp_encoder_event_type **ret_type)
{
	const enum rp_trace_form form = merge->version == RP_NETTRACE_V6 ? RP_TRACE_FORM_V6 :
					RP_TRACE_FORM_V4;
	const struct rp_trace_attributes attributes = {
		.keywords = kind->keywords, .level = kind->level, .opcode = kind->opcode,
		.version = kind->version,
	};
	struct rp_outbuf definition = { 0 };
	int ret = 0;

	if (!kind->user) {
		ret = rp_trace_put_definition(&definition, form,
					      rp_encoder_next_id(merge->encoder), kind,
					      &attributes);
		if (ret)
			rp_outbuf_fini(&definition);
		else
			ret = rp_encoder_define_encoded(merge->encoder, &definition,
							(struct rp_encoder_event_type **)
							&kind->user);
	}
	*ret_type = kind->user;
	return ret;
}

static const struct rp_guid *guid_or_null(const struct rp_guid *guid)
{
	static const struct rp_guid none;

	return memcmp(guid, &none, sizeof(none)) ? guid : NULL;
}

/*
 * Whether events of the type describe the process. Such events come at the end of a stream and have
 * the time of the last event before them.
 */
static bool is_description(const struct rp_reader_type *type)
{
	static const char *const providers[] = {
		"Microsoft-DotNETCore-EventPipe", "Universal.System", RP_TRACE_MERGE_PROVIDER,
	};

	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (strcmp(type->provider, providers[i]) == 0)
			return true;
	return false;
}

/* Add a loss that the event reports to the sum of its process, ring and reason. 0; -ENOMEM. */
static int add_loss(struct rp_trace_merge *merge, const struct rp_merge_strand *strand)
{
	const struct rp_trace_merge_source *source = strand->source;
	struct rp_loss_event loss;
	struct rp_loss_sum sum;

	if (!source->pid || !rp_loss_event_is(strand->event.type) ||
	    !rp_loss_event_read(&strand->event, &loss))
		return 0;
	sum = (struct rp_loss_sum){
		.process = source->pid, .ring = loss.ring, .lost = loss.lost,
	};
	snprintf(sum.name, sizeof(sum.name), "%s", source->name);
	memcpy(sum.reason, loss.reason, sizeof(sum.reason));
	return rp_loss_table_add(&merge->losses, &sum);
}

static int put_event(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	const struct rp_reader_event *from = &strand->event;
	const uint64_t step = strand->source->id_step;
	size_t label_bytes;
	struct rp_encoder_event event = {
		.thread = from->thread + step,
		.process = (uint32_t)(strand->source->pid ? (uint64_t)strand->source->pid :
							    from->process + step),
		.processor = from->processor,
		.frame_count = strand->info.pointer_bytes == 8 ? from->frame_count : 0,
		.frames = from->frames,
		.activity = guid_or_null(&from->activity),
		.related_activity = guid_or_null(&from->related_activity),
		.labels = rp_point_index_find(&strand->reader->labels.index,
					      strand->reader->event.labels, &label_bytes),
		.row = rp_thread_rows_find(&strand->reader->thread_rows,
					   strand->reader->event.thread),
		.payload = from->payload,
		.payload_bytes = from->payload_bytes,
	};
	int ret;

	event.label_bytes = label_bytes;

	if (strand->time_ns >= merge->time_ns)
		merge->time_ns = strand->time_ns;
	else
		strand->source->late += !is_description(from->type);
	ret = strand->source->pid ? rp_merge_put_origin(merge, strand, &event.thread) : 0;
	if (!ret)
		ret = find_type(merge, from->type, (struct rp_encoder_event_type **)&event.type);
	event.time_ns = merge->time_ns;
	if (!ret && strand->source->path)
		ret = rp_merge_rename(merge, strand, &event);
	if (!ret)
		ret = rp_encoder_event(merge->encoder, &event);
	if (!ret)
		ret = add_loss(merge, strand);
	strand->source->events += !ret;
	if (!ret && merge->until &&
	    rp_expression_matches(merge->until, from, strand->source->pid ?
				  (uint64_t)strand->source->pid : from->process))
		*merge->ret_until = true;
	return ret;
}

/* Updates the losses that the reader has counted up to here, those to damage included. */
static int follow_losses(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t total, more;

	rp_reader_get_stats(strand->reader, &stats);
	total = stats.lost + stats.lost_to_damage;
	/* A gap in numbers may show that fewer events than counted so far were lost to damage. */
	if (total <= strand->source->lost)
		return 0;
	more = total - strand->source->lost;
	strand->source->lost += more;
	merge->lost += more;
	return rp_encoder_sequence_point(merge->encoder, merge->time_ns, merge->lost);
}

/*
 * Close a strand whose source is complete. A process may end after its stream, and then the source
 * states that it exited.
 */
static int finish_strand(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	if (merge->until)
		rp_expression_forget(merge->until);
	rp_reader_close(strand->reader);
	strand->reader = NULL;
	strand->source->is_done = true;
	return rp_merge_put_end(merge, strand);
}

/* Read the strand's next event, if it is there. 0; -ENOMEM. */
static int step(struct rp_trace_merge *merge, struct rp_merge_strand *strand)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	int read, ret;

	strand->reader->is_growing = !strand->source->is_complete;
	read = rp_reader_next(strand->reader, &strand->event);
	strand->has_event = read == 1;
	ret = follow_losses(merge, strand);
	if (ret || read == -ENOMEM)
		return ret ? ret : read;
	if (strand->has_event) {
		strand->time_ns = rp_merge_time(strand->source, strand->start_ns +
						(uint64_t)strand->event.time_ns);
		return 0;
	}
	rp_reader_get_stats(strand->reader, &stats);
	strand->source->whole = read == 0 && !stats.damaged_ranges;
	return strand->source->is_complete ? finish_strand(merge, strand) : 0;
}

static ssize_t read_source(void *data, void *buffer, size_t size)
{
	struct rp_merge_strand *strand = data;
	ssize_t got;

	if (strand->source->read)
		return strand->source->read(strand->source->data, buffer, size);
	do
		got = pread(strand->source->fd, buffer, size, (off_t)strand->offset);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		strand->offset += (uint64_t)got;
	return got < 0 ? -errno : got;
}

/* Open a strand if its header is there. Return: whether it is. */
static bool open_strand(struct rp_merge_strand *strand)
{
	struct rp_byte_source source;

	strand->offset = 0;
	rp_byte_source_init_read(&source, read_source, strand);
	if (rp_reader_open_source(&source, &strand->reader, NULL, 0) != 0) {
		strand->reader = NULL;
		return false;
	}
	if (strand->source->resumes)
		(void)rp_reader_resume_after_damage(strand->reader);
	rp_reader_get_info(strand->reader, &strand->info);
	strand->start_ns = strand->info.ticks_per_second == 1000000000 ? strand->info.start_ticks :
			   (uint64_t)((__int128)strand->info.start_ticks * 1000000000 /
				      strand->info.ticks_per_second);
	return true;
}

/*
 * The trace begins when the earliest strand began. A strand that states its progress may have begun
 * before the others, although its header arrives after theirs. Return: 0; -ENODATA; -ENOMEM.
 */
static int create_encoder(struct rp_trace_merge *merge)
{
	struct rp_encoder_info info = {
		.process_id = (uint32_t)merge->process_id, .version = merge->version,
	};
	const struct rp_merge_strand *first = NULL;
	uint64_t start_ns;
	int ret;

	for (size_t i = 0; i < merge->open_count; i++) {
		const struct rp_merge_strand *strand = merge->open[i];

		if (!strand->reader && strand->source->states_progress &&
		    !strand->source->is_complete)
			return -ENODATA;
		if (!strand->reader)
			continue;
		start_ns = rp_merge_time(strand->source, strand->start_ns);
		if (!first || start_ns < info.start_ns) {
			first = strand;
			info.start_ns = start_ns;
		}
	}
	if (!first)
		return -ENODATA;
	merge->time_ns = info.start_ns;
	info.start_utc_ns = first->info.start_utc_ns;
	info.processors = first->info.processors;
	info.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	ret = rp_encoder_create(&info, &merge->encoder);
	if (ret == 0)
		ret = rp_encoder_sequence_point(merge->encoder, info.start_ns, 0);
	if (ret == 0)
		ret = rp_merge_define(merge);
	for (size_t i = 0; ret == 0 && i < merge->open_count; i++)
		if (merge->open[i]->source->path)
			ret = rp_merge_put_source(merge, merge->open[i]);
	return ret;
}

/* A machine may have had thousands of processes, of which few have more events. */
static void forget_done(struct rp_trace_merge *merge)
{
	size_t left = 0;

	for (size_t i = 0; i < merge->open_count; i++)
		if (!merge->open[i]->source->is_done)
			merge->open[left++] = merge->open[i];
	merge->open_count = left;
}

/* Read the next event of each strand that has none. 0; -ENODATA: the trace cannot begin yet. */
static int look(struct rp_trace_merge *merge)
{
	int ret = 0;

	forget_done(merge);
	for (size_t i = 0; i < merge->open_count; i++) {
		if (!merge->open[i]->reader)
			(void)open_strand(merge->open[i]);
	}
	if (!merge->encoder)
		ret = create_encoder(merge);
	for (size_t i = 0; ret == 0 && i < merge->open_count; i++) {
		struct rp_merge_strand *strand = merge->open[i];

		if (strand->has_event)
			continue;
		if (strand->reader)
			ret = step(merge, strand);
		else if (strand->source->is_complete)
			ret = finish_strand(merge, strand);
	}
	return ret;
}

/*
 * Find the strand with the earliest event. Until `ret_until`, no other strand has an earlier one.
 * NULL: none.
 */
static struct rp_merge_strand *find_first(struct rp_trace_merge *merge, uint64_t *ret_until)
{
	struct rp_merge_strand *first = NULL;

	*ret_until = UINT64_MAX;
	for (size_t i = 0; i < merge->open_count; i++) {
		struct rp_merge_strand *strand = merge->open[i];

		if (!strand->has_event)
			continue;
		if (!first || strand->time_ns < first->time_ns) {
			if (first)
				*ret_until = first->time_ns;
			first = strand;
		} else if (strand->time_ns < *ret_until) {
			*ret_until = strand->time_ns;
		}
	}
	return first;
}

/* Lower the limit to what the strands that state their progress have reached. */
static uint64_t limit_to_progress(const struct rp_trace_merge *merge, uint64_t limit_ns)
{
	for (size_t i = 0; i < merge->open_count; i++) {
		const struct rp_merge_strand *strand = merge->open[i];
		uint64_t reached_ns;

		if (!strand->source->states_progress || strand->has_event ||
		    strand->source->is_done)
			continue;
		reached_ns = strand->reader ? strand->reader->point_time : 0;
		if (strand->time_ns > reached_ns)
			reached_ns = strand->time_ns;
		if (reached_ns < limit_ns)
			limit_ns = reached_ns;
	}
	return limit_ns;
}

/*
 * Write when there is much to write. At the end, a full disk may have space later, when more of
 * the sources has been read.
 */
static int write_some(struct rp_trace_merge *merge)
{
	int ret = write_out(merge, merge->held_bytes + WRITE_BYTES);

	return rp_output_is_full(ret) && merge->is_finishing && merge->held_bytes > 0 &&
	       merge->held_bytes < HELD_BYTES_MAX ? 0 : ret;
}

static int merge_until(struct rp_trace_merge *merge, uint64_t limit_ns)
{
	struct rp_merge_strand *strand;
	uint64_t until;
	int ret = look(merge);

	while (ret == 0 && (strand = find_first(merge, &until))) {
		limit_ns = limit_to_progress(merge, limit_ns);
		if (strand->time_ns > limit_ns)
			break;
		if (until > limit_ns)
			until = limit_ns;
		while (ret == 0 && strand->has_event && strand->time_ns <= until) {
			ret = put_event(merge, strand);
			if (ret == 0)
				ret = step(merge, strand);
			/* On a full disk, the next pass continues with the next event. */
			if (ret == 0)
				ret = write_some(merge);
		}
	}
	return ret;
}

int rp_trace_merge_create(pid_t process_id, uint32_t version, struct rp_output *output,
			  struct rp_trace_merge **ret_merge)
{
	struct rp_trace_merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return -ENOMEM;
	merge->process_id = process_id;
	merge->version = version;
	merge->output = output;
	*ret_merge = merge;
	return 0;
}

void rp_trace_merge_watch(struct rp_trace_merge *merge, struct rp_expression *until,
			  volatile bool *ret_found)
{
	merge->until = until;
	merge->ret_until = ret_found;
}

void rp_trace_merge_destroy(struct rp_trace_merge *merge)
{
	if (!merge)
		return;
	for (size_t i = 0; i < merge->count; i++) {
		rp_reader_close(merge->strands[i]->reader);
		rp_thread_table_fini(&merge->strands[i]->ids);
		free(merge->strands[i]);
	}
	rp_loss_table_fini(&merge->losses);
	rp_outbuf_fini(&merge->renamed);
	rp_encoder_destroy(merge->encoder);
	rp_thread_table_fini(&merge->threads);
	free(merge->strands);
	free(merge->open);
	free(merge);
}

/* Return the index of the first strand of the process whose next strand is for `source`. */
static uint32_t first_strand(const struct rp_trace_merge *merge,
			     const struct rp_trace_merge_source *source)
{
	if (source->replaces)
		for (size_t i = merge->count; i-- > 0;)
			if (merge->strands[i]->source->pid == source->pid)
				return merge->strands[i]->first;
	return (uint32_t)merge->count;
}

int rp_trace_merge_add(struct rp_trace_merge *merge, struct rp_trace_merge_source *source)
{
	struct rp_merge_strand **grown = rp_array_reserve(merge->strands, merge->count,
							  &merge->capacity, 1, sizeof(*grown));
	struct rp_merge_strand *strand;

	if (!grown)
		return -ENOMEM;
	merge->strands = grown;
	grown = rp_array_reserve(merge->open, merge->open_count, &merge->open_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	merge->open = grown;
	strand = calloc(1, sizeof(*strand));
	if (!strand)
		return -ENOMEM;
	source->events = source->lost = source->late = 0;
	source->whole = source->is_done = false;
	strand->source = source;
	strand->index = (uint32_t)merge->count;
	strand->first = first_strand(merge, source);
	strand->info.size = sizeof(strand->info);
	strand->event.size = sizeof(strand->event);
	merge->strands[merge->count++] = strand;
	merge->open[merge->open_count++] = strand;
	return 0;
}

int rp_trace_merge_pass(struct rp_trace_merge *merge, uint64_t limit_ns)
{
	int ret = merge_until(merge, limit_ns);

	if (ret)
		return ret == -ENODATA ? 0 : ret;
	ret = rp_encoder_sequence_point(merge->encoder, merge->time_ns, merge->lost);
	if (ret == 0)
		ret = write_out(merge, 0);
	return ret;
}

int rp_trace_merge_finish(struct rp_trace_merge *merge)
{
	int ret;

	for (size_t i = 0; i < merge->open_count; i++)
		merge->open[i]->source->is_complete = true;
	merge->is_finishing = true;
	ret = merge_until(merge, UINT64_MAX);
	if (ret == 0)
		ret = rp_encoder_sequence_point(merge->encoder, merge->time_ns, merge->lost);
	if (ret == 0)
		ret = rp_encoder_end(merge->encoder);
	return ret ? ret : write_out(merge, 0);
}

void rp_trace_merge_find_losses(struct rp_trace_merge *merge, struct rp_loss_worst *ret_worst)
{
	rp_loss_table_find_worst(&merge->losses, ret_worst);
}
