/* SPDX-License-Identifier: MIT */
/*
 * The nettrace sink: an encoder and the descriptor that receives its output.
 *
 * Output waits in a buffer of a megabyte, or less in a session with small rings (`waiting_bytes`).
 * A file is written at the end of each pass of the drain thread, and within a pass whenever the
 * buffer is full. A socket or pipe receives as much as it accepts. While the buffer is full, events
 * stay in their rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "core/activity_slots.h"
#include "core/event_batch.h"
#include "nettrace/encoder.h"
#include "nettrace/repeat.h"
#include "sink/emit.h"
#include "sink/sinks.h"


#define OUTPUT_BYTES (1u << 20)	/* default of waiting_bytes */
#define END_BYTES 256u			/* no less than the end that rp_encoder_cut() makes */

/* A definition in this stream; `serial` detects that its index was reused. */
struct written_definition {
	uint64_t serial;
	struct rp_encoder_event_type *type;	/* NULL: nettrace cannot encode the event */
};

/* A place in a file at the end of a block: the file can be cut back to it. */
struct whole {
	uint64_t bytes;
	uint64_t delivered;	/* events up to that place */
	uint64_t lost;		/* in the last sequence point before it */
};

struct nettrace_sink {
	struct rp_sink base;
	struct rp_encoder *encoder;
	struct rp_encoder_repeat *repeat;
	const struct rp_encoder_event_type *repeated;	/* type of the current repeat run */
	struct rp_emit emit;
	struct written_definition *known;
	size_t known_count;
	char *preamble;
	size_t preamble_bytes, preamble_done;
	uint64_t lost;		/* in the last sequence point */
	struct whole whole;	/* the last such place */
	struct whole spare;	/* an earlier one, END_BYTES before `whole` at least; or zeros */
	size_t most_waiting;	/* 0 at first: the header is written alone, as the first `whole` */
	bool is_stream;
	bool is_socket;
	bool replaces;		/* the first write truncates the file's old content */
	bool is_regular;
	bool has_name;		/* a regular file that had a name when the session began */
	bool is_ours;		/* the library opened it by a path */
	bool is_changed;	/* another program cut the file: it lacks some of our bytes */
	uint64_t file_begin;	/* offset of our first byte; a caller's file may hold more */
	char *path;		/* of a file to delete if its header cannot be written; or NULL */
	struct rp_sink_content content;
	bool ended;
};

static struct nettrace_sink *of(struct rp_sink *sink)
{
	return (struct nettrace_sink *)sink;
}

/*
 * Check that the descriptor is still the same file, and that the file still has all bytes written.
 * A cut between this check and a write is found at the next check, because O_APPEND keeps the file
 * short.
 */
static int check_file(struct nettrace_sink *sink)
{
	uint64_t bytes;
	int ret = rp_file_check(sink->base.fd, &sink->base.file, &bytes);

	if (ret == 0 && sink->is_regular && sink->base.bytes > 0 &&
	    bytes < sink->file_begin + sink->base.bytes) {
		sink->is_changed = true;
		ret = -ESTALE;
	}
	return ret;
}

/* Truncate the file's old content. A device cannot be truncated and need not be. */
static int replace(struct nettrace_sink *sink)
{
	int ret;

	do
		ret = sink->replaces ? ftruncate(sink->base.fd, 0) : 0;
	while (ret != 0 && errno == EINTR);
	if (ret != 0 && errno != EINVAL)
		return -errno;
	sink->replaces = false;
	return 0;
}

static ssize_t put(struct nettrace_sink *sink, const void *bytes, size_t size)
{
	ssize_t done;
	int ret = check_file(sink);

	if (ret == 0)
		ret = replace(sink);
	if (ret != 0)
		return ret;
	do {
		done = sink->is_socket ?
		       send(sink->base.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) :
		       write(sink->base.fd, bytes, size);
	} while (done < 0 && errno == EINTR);
	if (done >= 0)
		return done;
	return errno == EWOULDBLOCK ? -EAGAIN : errno == ECONNRESET ? -EPIPE :
	       rp_failed(sink->is_socket ? "send" : "write");
}

static int put_preamble(struct nettrace_sink *sink)
{
	while (sink->preamble_done < sink->preamble_bytes) {
		ssize_t done = put(sink, sink->preamble + sink->preamble_done,
				   sink->preamble_bytes - sink->preamble_done);

		if (done < 0)
			return (int)done;
		sink->preamble_done += (size_t)done;
	}
	return 0;
}

/* Count the events that the kernel has accepted. */
static void count_delivered(struct nettrace_sink *sink)
{
	uint64_t delivered = rp_encoder_consumed_events(sink->encoder);

	sink->base.pending -= delivered - sink->base.delivered;
	sink->base.delivered = delivered;
}

/*
 * Write finished blocks. Return: 0: none is left; -EAGAIN; -errno. A stream's events count as
 * delivered once the kernel has accepted them. A file may be cut back to `whole`, so its events
 * count once all output is in the file.
 */
static int put_blocks(struct nettrace_sink *sink)
{
	int ret = put_preamble(sink);

	while (ret == 0) {
		size_t size;
		const void *bytes = rp_encoder_output(sink->encoder, &size);
		ssize_t done;

		if (size == 0)
			return 0;
		done = put(sink, bytes, size);
		if (done < 0)
			return (int)done;
		rp_encoder_consume(sink->encoder, (size_t)done);
		sink->base.bytes += (uint64_t)done;
		if (sink->is_stream)
			count_delivered(sink);
	}
	return ret;
}

/* Return: whether the file was deleted: it uses disk space, but no program can open it. */
static bool is_deleted(const struct nettrace_sink *sink)
{
	struct stat stat;

	return sink->has_name && fstat(sink->base.fd, &stat) == 0 && stat.st_nlink == 0;
}

static int nettrace_flush(struct rp_sink *base)
{
	struct nettrace_sink *sink = of(base);
	int ret = is_deleted(sink) ? -ENOENT : put_blocks(sink);

	rp_emit_rest(&sink->emit);
	/* Close open blocks only if no output waits: a slow peer would get many tiny blocks. */
	if (ret == 0 && !sink->ended) {
		ret = rp_encoder_flush(sink->encoder);
		if (ret == 0)
			ret = put_blocks(sink);
	}
	base->memory_bytes = rp_encoder_memory(sink->encoder) +
			     sink->known_count * sizeof(*sink->known);
	if (ret != 0)
		return ret;
	count_delivered(sink);
	if (base->bytes >= sink->whole.bytes + END_BYTES)
		sink->spare = sink->whole;
	sink->whole = (struct whole){ base->bytes, base->delivered, sink->lost };
	return 0;
}

static int grow_known(struct nettrace_sink *sink, size_t index)
{
	struct written_definition *grown = rp_memory_grow(sink->known, &sink->known_count, index,
							  sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	sink->known = grown;
	return 0;
}

static int define(struct nettrace_sink *sink, const struct rp_event_def *def)
{
	struct rp_definition definition = rp_event_def_plain(def);
	struct rp_encoder_event_type *type = NULL;
	int ret = 0;

	definition.is_internal = def->index < RP_DEF_OWN_COUNT;
	if (def->index >= sink->known_count)
		ret = grow_known(sink, def->index);
	if (ret == 0)
		ret = rp_encoder_define(sink->encoder, &definition, &type);
	if (ret == -ENOMEM)
		return ret;
	sink->known[def->index] = (struct written_definition){ def->serial, type };
	return 0;
}

static __attribute__((noinline)) int nettrace_event(struct rp_sink *base,
						    const struct rp_record_view *view)
{
	struct rp_encoder_event event = {
		.time_ns = view->time_ns,
		.thread = view->thread,
		.processor = view->processor,
		.frame_count = view->frame_count,
		.frames = view->frames,
		.activity = view->activity,
		.related_activity = view->related_activity,
		.payload = view->payload,
		.payload_bytes = view->payload_bytes,
	};
	struct nettrace_sink *sink = of(base);
	const struct rp_event_def *def = view->def;
	size_t waiting;
	int ret;

	(void)rp_encoder_output(sink->encoder, &waiting);
	if (__builtin_expect(waiting >= sink->most_waiting, 0)) {
		ret = sink->is_stream ? put_blocks(sink) : nettrace_flush(base);
		if (ret != 0)
			return ret;
		sink->most_waiting = base->waiting_bytes;
	}
	if (__builtin_expect(def->index >= sink->known_count ||
			     sink->known[def->index].serial != def->serial, 0)) {
		ret = define(sink, def);
		if (ret != 0)
			return ret;
	}
	event.type = sink->known[def->index].type;
	if (!event.type)
		return -EMSGSIZE;
	if (view->frame_count) {
		ret = rp_emit_mappings(&sink->emit, view->time_ns);
		if (ret != 0)
			return ret;
	}
	ret = rp_encoder_event(sink->encoder, &event);
	if (ret == 0 && def->index >= RP_DEF_OWN_COUNT)
		base->pending++;
	base->shortened = rp_encoder_shortened(sink->encoder);
	return ret;
}

static inline bool nettrace_begins(struct rp_sink *base, const struct rp_event_def *def,
				   const struct rp_record *record, uint32_t payload_bytes)
{
	struct nettrace_sink *sink = of(base);
	uint32_t index = def->index;

	if (index >= sink->known_count || index < RP_DEF_OWN_COUNT ||
	    sink->known[index].serial != def->serial || record->flags || record->frames)
		return false;
	sink->repeated = sink->known[index].type;
	return sink->repeated && rp_encoder_repeats(sink->repeat, sink->repeated, record->thread,
						    record->processor, payload_bytes);
}

/* Never ends a block, so the caller needs no other check. */
static inline bool nettrace_repeat_run(struct rp_sink *base, uint64_t time_ns, const void *payload,
				       uint32_t payload_bytes)
{
	struct nettrace_sink *sink = of(base);

	if (!rp_encoder_repeat_run(sink->repeat, sink->repeated, time_ns, payload, payload_bytes))
		return false;
	base->pending++;
	return true;
}

static int nettrace_batch(struct rp_sink *base, struct rp_event_batch *batch)
{
	int ret = rp_event_batch_deliver(batch, base, nettrace_event, nettrace_begins,
					 nettrace_repeat_run);

	base->shortened = rp_encoder_shortened(of(base)->encoder);
	return ret;
}

static int nettrace_sequence_point(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	of(base)->lost = lost;
	return rp_encoder_sequence_point(of(base)->encoder, time_ns, lost);
}

static int nettrace_finish(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct nettrace_sink *sink = of(base);
	int ret = 0;

	if (!sink->ended) {
		ret = rp_emit_end(&sink->emit, time_ns);
		base->busy = sink->emit.stage == RP_EMIT_WAIT;
		if (ret == 0)
			ret = nettrace_sequence_point(base, time_ns, lost);
		if (ret == 0)
			ret = rp_encoder_end(sink->encoder);
		if (ret != 0)
			return ret;
		sink->ended = true;
	}
	ret = nettrace_flush(base);
	return ret == 0 && sink->is_regular ? check_file(sink) : ret;
}

static int make_encoder(struct nettrace_sink *sink, const struct rp_sink_content *content)
{
	struct timespec utc;
	struct rp_encoder_info info = {
		.process_id = (uint32_t)getpid(),
		.processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF),
		.sample_interval_ns = content->sample_interval_ns,
		.version = content->format,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.own_ids = rp_activity_own_ids(),
	};
	uint64_t now;
	int ret;

	clock_gettime(CLOCK_REALTIME, &utc);
	now = rp_clock_monotonic_ns();
	info.start_ns = content->start_ns ? content->start_ns : now;
	info.start_utc_ns = (int64_t)utc.tv_sec * 1000000000 + utc.tv_nsec -
			    (int64_t)(now - info.start_ns);
	sink->base.start_ns = info.start_ns;
	sink->base.start_utc_ns = info.start_utc_ns;
	ret = rp_encoder_create(&info, &sink->encoder);
	if (ret != 0)
		return ret;
	sink->repeat = rp_encoder_repeat(sink->encoder);
	/* The base from which later losses are counted. */
	ret = rp_encoder_sequence_point(sink->encoder, info.start_ns, 0);
	return ret != 0 ? ret : rp_encoder_flush(sink->encoder);
}

/* Delete a file whose header could not be written, unless it still holds its earlier content. */
static void remove_file(struct nettrace_sink *sink)
{
	struct stat file;

	if (sink->path && rp_file_is_at(sink->path, &sink->base.file) &&
	    stat(sink->path, &file) == 0 && (!sink->replaces || file.st_size == 0))
		(void)unlink(sink->path);
}

/* Prepare a complete new file: a header, the losses and an end. */
static int write_new_file(struct nettrace_sink *sink, uint64_t time_ns, uint64_t lost)
{
	struct rp_encoder *encoder = sink->encoder;
	int ret;

	sink->content.start_ns = time_ns;
	ret = make_encoder(sink, &sink->content);
	if (ret != 0) {
		sink->encoder = encoder;
		return ret;
	}
	rp_encoder_destroy(encoder);
	ret = rp_encoder_sequence_point(sink->encoder, time_ns, lost);
	return ret != 0 ? ret : rp_encoder_end(sink->encoder);
}

/* Cut the file back to `bytes` of ours, if the descriptor is still the session's file. */
static bool cut(struct nettrace_sink *sink, uint64_t bytes)
{
	off_t end = (off_t)(sink->file_begin + bytes);

	if (!rp_file_is(sink->base.fd, &sink->base.file) || ftruncate(sink->base.fd, end) != 0 ||
	    lseek(sink->base.fd, end, SEEK_SET) != end)
		return false;
	sink->base.bytes = bytes;
	return true;
}

/* Write the prepared output. Return: whether it fits. */
static bool put_end(struct nettrace_sink *sink)
{
	size_t size;
	const void *output = rp_encoder_output(sink->encoder, &size);

	if (put(sink, output, size) != (ssize_t)size)
		return false;
	sink->base.bytes += size;
	return true;
}

/* Cut the file back to `whole` and end it there. Return: false if the end does not fit. */
static bool end_at(struct nettrace_sink *sink, const struct whole *whole, uint64_t time_ns,
		   uint64_t lost)
{
	struct rp_sink *base = &sink->base;

	base->pending += base->delivered - whole->delivered;
	base->delivered = whole->delivered;
	if (rp_encoder_cut(sink->encoder, whole->bytes, time_ns, whole->lost,
			   lost + base->pending) != 0 || !cut(sink, whole->bytes))
		return true;
	return put_end(sink);
}

/*
 * Cut a file back to its last whole block and write an end. The cut frees space for the end even on
 * a full disk. If that space is too small, the file is cut back further, unless a recovery will
 * continue the file: the rings do not contain these events any more, so the file keeps them and has
 * no end. If another program changed the file, the sink writes a new header and end instead. A
 * stream whose peer is gone gets no end.
 */
static void nettrace_abandon(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct nettrace_sink *sink = of(base);

	if (sink->whole.bytes == 0)
		remove_file(sink);
	/* If the sink has written nothing, there is nothing to cut. */
	if (!sink->is_regular || base->bytes == 0)
		return;
	if (sink->whole.bytes == 0) {
		(void)cut(sink, 0);
	} else if (sink->is_changed) {
		/* The caller of a session on a descriptor may have put its own bytes there. */
		if (sink->is_ours && write_new_file(sink, time_ns, lost + base->pending) == 0 &&
		    cut(sink, 0))
			(void)put_end(sink);
	} else if (end_at(sink, &sink->whole, time_ns, lost)) {
		return;
	} else if (base->is_recoverable) {
		(void)cut(sink, sink->whole.bytes);
	} else if (sink->spare.bytes > 0) {
		(void)end_at(sink, &sink->spare, time_ns, lost);
	}
}

static void nettrace_destroy(struct rp_sink *base)
{
	struct nettrace_sink *sink = of(base);
	bool closes = !base->keep_fd && rp_file_is(base->fd, &base->file);

	/* A forked child may hold the descriptor too: shut down, so that the peer sees the end. */
	if (sink->is_socket && closes)
		shutdown(base->fd, SHUT_RDWR);
	if (closes)
		close(base->fd);
	rp_emit_fini(&sink->emit);
	rp_encoder_destroy(sink->encoder);
	free(sink->known);
	free(sink->path);
	free(sink->preamble);
	free(sink);
}

static const struct rp_sink_ops nettrace_ops = {
	.batch = nettrace_batch,
	.event = nettrace_event,
	.sequence_point = nettrace_sequence_point,
	.flush = nettrace_flush,
	.finish = nettrace_finish,
	.abandon = nettrace_abandon,
	.destroy = nettrace_destroy,
};

static int make_sink(int fd, const struct rp_sink_content *content,
		     struct nettrace_sink **ret_sink)
{
	struct nettrace_sink *sink = calloc(1, sizeof(*sink));
	int ret;

	if (!sink)
		return -ENOMEM;
	sink->base.ops = &nettrace_ops;
	sink->base.fd = fd;
	sink->base.waiting_bytes = OUTPUT_BYTES;
	sink->content = *content;
	ret = rp_failed_with("fstat", -rp_file_identify(fd, &sink->base.file));
	if (ret == 0)
		ret = make_encoder(sink, content);
	if (ret == 0)
		ret = rp_emit_init(&sink->emit, sink->encoder, content->rundown);
	if (ret != 0) {
		rp_encoder_destroy(sink->encoder);
		free(sink);
		return ret;
	}
	*ret_sink = sink;
	return 0;
}

/* The offset of the first byte that the sink writes. */
static uint64_t first_offset(int fd, const struct stat *file)
{
	int flags = fcntl(fd, F_GETFL);
	off_t at = flags >= 0 && (flags & O_APPEND) ? file->st_size : lseek(fd, 0, SEEK_CUR);

	return at > 0 ? (uint64_t)at : 0;
}

int rp_sink_file_create(int fd, bool replace, const struct rp_sink_content *content,
			struct rp_sink **ret_sink)
{
	struct nettrace_sink *sink;
	struct stat stat;
	int ret = make_sink(fd, content, &sink);

	if (ret != 0)
		return ret;
	sink->replaces = replace;
	sink->is_ours = replace || content->rolls;
	sink->is_regular = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
	sink->has_name = !content->rolls && sink->is_regular && stat.st_nlink > 0;
	sink->path = replace && sink->has_name ? rp_file_path(fd) : NULL;
	if (sink->is_regular && !sink->is_ours)
		sink->file_begin = first_offset(fd, &stat);
	if (!sink->has_name)
		sink->base.start_ns = 0;
	*ret_sink = &sink->base;
	return 0;
}

uint64_t rp_sink_file_bytes(const struct rp_sink *sink)
{
	size_t waiting;

	(void)rp_encoder_output(((const struct nettrace_sink *)sink)->encoder, &waiting);
	return sink->bytes + waiting;
}

int rp_sink_stream_create(int fd, const void *preamble, size_t preamble_bytes,
			  const struct rp_sink_content *content, struct rp_sink **ret_sink)
{
	struct nettrace_sink *sink;
	struct stat stat;
	int flags, ret;

	if (fstat(fd, &stat) != 0)
		return rp_failed("fstat");
	flags = fcntl(fd, F_GETFL);
	if (!S_ISSOCK(stat.st_mode) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return rp_failed("fcntl");
	ret = make_sink(fd, content, &sink);
	if (ret != 0)
		return ret;
	sink->is_stream = true;
	sink->base.start_ns = 0;
	sink->is_socket = S_ISSOCK(stat.st_mode);
	sink->preamble = malloc(preamble_bytes ? preamble_bytes : 1);
	if (!sink->preamble) {
		rp_emit_fini(&sink->emit);
		rp_encoder_destroy(sink->encoder);
		free(sink);
		return -ENOMEM;
	}
	if (preamble_bytes)
		memcpy(sink->preamble, preamble, preamble_bytes);
	sink->preamble_bytes = preamble_bytes;
	*ret_sink = &sink->base;
	return 0;
}
