/* SPDX-License-Identifier: MIT */
/*
 * The nettrace sink: an encoder with a descriptor behind it.
 *
 * A file is written at the end of each pass, and in between by the megabyte. A socket or pipe takes
 * what it takes; when a megabyte waits, the sink is full and events stay in their rings.
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
#include "base/memory.h"
#include "core/run.h"
#include "nettrace/encoder.h"
#include "nettrace/repeat.h"
#include "sink/sink.h"
#include "sink/tell.h"

#define OUTPUT_BYTES (1u << 20)

/* A definition this stream knows; `serial` tells a reused index. */
struct known {
	uint64_t serial;
	struct rp_encoder_event_type *type;	/* NULL: nettrace cannot hold it */
};

struct nettrace_sink {
	struct rp_sink base;
	struct rp_encoder *encoder;
	struct rp_encoder_repeat *repeat;
	const struct rp_encoder_event_type *row;	/* of the records that follow each other */
	struct rp_tell tell;
	struct known *known;
	size_t known_count;
	char *preamble;
	size_t preamble_bytes, preamble_done;
	uint64_t lost;		/* told by the last sequence point */
	uint64_t whole_bytes;	/* up to here the file ends with a block, its events counted */
	uint64_t whole_lost;	/* what it tells up to there */
	size_t most_waiting;	/* 0 at first: a file's head is written alone, to be cut back to */
	bool is_stream;
	bool is_socket;
	bool replaces;		/* what the file held goes with the first byte written */
	bool has_name;		/* a regular file that had one when the session began */
	bool ended;
};

static struct nettrace_sink *of(struct rp_sink *sink)
{
	return (struct nettrace_sink *)sink;
}

static ssize_t put(struct nettrace_sink *sink, const void *bytes, size_t size)
{
	ssize_t done;

	if (!rp_file_is(sink->base.fd, &sink->base.file))
		return -EBADF;
	/* A device cannot be cut and need not be. */
	if (sink->replaces && ftruncate(sink->base.fd, 0) != 0 && errno != EINVAL)
		return -errno;
	sink->replaces = false;
	do {
		done = sink->is_socket ?
		       send(sink->base.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) :
		       write(sink->base.fd, bytes, size);
	} while (done < 0 && errno == EINTR);
	if (done >= 0)
		return done;
	return errno == EWOULDBLOCK ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
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

/* Hands on finished blocks. 0 when none is left; -EAGAIN. */
static int put_blocks(struct nettrace_sink *sink)
{
	int ret = put_preamble(sink);

	while (ret == 0) {
		size_t size;
		const void *bytes = rp_encoder_output(sink->encoder, &size, NULL);
		ssize_t done;

		if (size == 0)
			return 0;
		done = put(sink, bytes, size);
		if (done < 0)
			return (int)done;
		rp_encoder_consume(sink->encoder, (size_t)done);
		sink->base.bytes += (uint64_t)done;
	}
	return ret;
}

/* A file that somebody deleted would take the disk's space, and nobody could ever read it. */
static bool is_deleted(const struct nettrace_sink *sink)
{
	struct stat stat;

	return sink->has_name && fstat(sink->base.fd, &stat) == 0 && stat.st_nlink == 0;
}

static int nettrace_flush(struct rp_sink *base)
{
	struct nettrace_sink *sink = of(base);
	int ret = is_deleted(sink) ? -ENOENT : put_blocks(sink);

	rp_tell_rest(&sink->tell);
	/*
	 * Open blocks are closed only when nothing waits, or a slow peer would get many tiny ones.
	 */
	if (ret == 0 && !sink->ended) {
		ret = rp_encoder_flush(sink->encoder);
		if (ret == 0)
			ret = put_blocks(sink);
	}
	base->memory_bytes = rp_encoder_memory(sink->encoder) +
			     sink->known_count * sizeof(*sink->known);
	if (ret != 0)
		return ret;
	base->delivered += base->pending;
	base->pending = 0;
	sink->whole_bytes = base->bytes;
	sink->whole_lost = sink->lost;
	return 0;
}

static int grow_known(struct nettrace_sink *sink, size_t index)
{
	struct known *grown = rp_memory_grow(sink->known, &sink->known_count, index,
					     sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	sink->known = grown;
	return 0;
}

static int define(struct nettrace_sink *sink, const struct rp_event_def *def)
{
	struct rp_encoder_definition definition = rp_event_def_encoded(def);
	struct rp_encoder_event_type *type = NULL;
	int ret = 0;

	if (def->index >= sink->known_count)
		ret = grow_known(sink, def->index);
	if (ret == 0)
		ret = rp_encoder_define(sink->encoder, &definition, &type);
	if (ret == -ENOMEM)
		return ret;
	sink->known[def->index] = (struct known){ def->serial, type };
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

	(void)rp_encoder_output(sink->encoder, &waiting, NULL);
	if (__builtin_expect(waiting >= sink->most_waiting, 0)) {
		ret = sink->is_stream ? put_blocks(sink) : nettrace_flush(base);
		if (ret != 0)
			return ret;
		sink->most_waiting = OUTPUT_BYTES;
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
		ret = rp_tell_mappings(&sink->tell, view->time_ns);
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
	sink->row = sink->known[index].type;
	return sink->row && rp_encoder_repeats(sink->repeat, sink->row, record->thread,
					       record->processor, payload_bytes);
}

/* Does not end a block: nothing but the event is to be thought of. */
static inline bool nettrace_again(struct rp_sink *base, uint64_t time_ns, const void *payload,
				  uint32_t payload_bytes)
{
	struct nettrace_sink *sink = of(base);

	if (!rp_encoder_again(sink->repeat, sink->row, time_ns, payload, payload_bytes))
		return false;
	base->pending++;
	return true;
}

static int nettrace_run(struct rp_sink *base, struct rp_run *run)
{
	int ret = rp_run_give(run, base, nettrace_event, nettrace_begins, nettrace_again);

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
		ret = rp_tell_end(&sink->tell, time_ns);
		base->busy = sink->tell.stage == RP_TELL_WAIT;
		if (ret == 0)
			ret = nettrace_sequence_point(base, time_ns, lost);
		if (ret == 0)
			ret = rp_encoder_end(sink->encoder);
		if (ret != 0)
			return ret;
		sink->ended = true;
	}
	return nettrace_flush(base);
}

/*
 * A file goes back to where it was whole and gets an end: what was cut off makes room for it even
 * on a full disk. A stream whose peer is gone is beyond help.
 */
static void nettrace_abandon(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct nettrace_sink *sink = of(base);
	off_t whole = (off_t)sink->whole_bytes;
	size_t size;
	const void *bytes;

	if (sink->is_stream || !rp_file_is(base->fd, &base->file) ||
	    ftruncate(base->fd, whole) != 0 ||
	    lseek(base->fd, whole, SEEK_SET) != whole)
		return;
	base->bytes = sink->whole_bytes;
	if (rp_encoder_cut(sink->encoder, sink->whole_bytes, time_ns, sink->whole_lost,
			   lost + base->pending) != 0)
		return;
	bytes = rp_encoder_output(sink->encoder, &size, NULL);
	if (put(sink, bytes, size) == (ssize_t)size)
		base->bytes += size;
}

static void nettrace_destroy(struct rp_sink *base)
{
	struct nettrace_sink *sink = of(base);
	bool closes = !base->keep_fd && rp_file_is(base->fd, &base->file);

	/* A forked child may hold the descriptor too: the peer must see the end all the same. */
	if (sink->is_socket && closes)
		shutdown(base->fd, SHUT_RDWR);
	if (closes)
		close(base->fd);
	rp_tell_fini(&sink->tell);
	rp_encoder_destroy(sink->encoder);
	free(sink->known);
	free(sink->preamble);
	free(sink);
}

static const struct rp_sink_ops nettrace_ops = {
	.run = nettrace_run,
	.event = nettrace_event,
	.sequence_point = nettrace_sequence_point,
	.flush = nettrace_flush,
	.finish = nettrace_finish,
	.abandon = nettrace_abandon,
	.destroy = nettrace_destroy,
};

static int make_encoder(struct nettrace_sink *sink, const struct rp_sink_content *content)
{
	struct timespec utc;
	struct rp_encoder_info info = {
		.process_id = (uint32_t)getpid(),
		.processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF),
		.sample_interval_ns = content->sample_interval_ns,
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
	/* The base that later losses are counted from. */
	ret = rp_encoder_sequence_point(sink->encoder, info.start_ns, 0);
	return ret != 0 ? ret : rp_encoder_flush(sink->encoder);
}

static int make_sink(int fd, const struct rp_sink_content *content,
		     struct nettrace_sink **ret_sink)
{
	struct nettrace_sink *sink = calloc(1, sizeof(*sink));
	int ret;

	if (!sink)
		return -ENOMEM;
	sink->base.ops = &nettrace_ops;
	sink->base.fd = fd;
	ret = rp_file_identify(fd, &sink->base.file);
	if (ret == 0)
		ret = make_encoder(sink, content);
	if (ret == 0)
		ret = rp_tell_init(&sink->tell, sink->encoder, content->rundown);
	if (ret != 0) {
		rp_encoder_destroy(sink->encoder);
		free(sink);
		return ret;
	}
	*ret_sink = sink;
	return 0;
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
	sink->has_name = !content->rolls && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
			 stat.st_nlink > 0;
	if (!sink->has_name)
		sink->base.start_ns = 0;
	*ret_sink = &sink->base;
	return 0;
}

uint64_t rp_sink_file_bytes(const struct rp_sink *sink)
{
	size_t waiting;

	(void)rp_encoder_output(((const struct nettrace_sink *)sink)->encoder, &waiting, NULL);
	return sink->bytes + waiting;
}

int rp_sink_stream_create(int fd, const void *preamble, size_t preamble_bytes,
			  const struct rp_sink_content *content, struct rp_sink **ret_sink)
{
	struct nettrace_sink *sink;
	struct stat stat;
	int flags, ret;

	if (fstat(fd, &stat) != 0)
		return -errno;
	flags = fcntl(fd, F_GETFL);
	if (!S_ISSOCK(stat.st_mode) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return -errno;
	ret = make_sink(fd, content, &sink);
	if (ret != 0)
		return ret;
	sink->is_stream = true;
	sink->base.start_ns = 0;
	sink->is_socket = S_ISSOCK(stat.st_mode);
	sink->preamble = malloc(preamble_bytes ? preamble_bytes : 1);
	if (!sink->preamble) {
		rp_tell_fini(&sink->tell);
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
