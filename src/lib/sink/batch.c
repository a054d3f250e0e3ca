/* SPDX-License-Identifier: MIT */
/*
 * The batch sink packs merged events into a buffer and fires a probe when the buffer is full and at
 * the end of each pass. A BPF program at the probe reads the buffer: one trap serves several
 * thousand events. ringpipe/batch.h describes the layout of the buffer.
 *
 * The connection carries the data that such a program does not need, in frames {u32 kind, u32 bytes
 * that follow}, in the machine's byte order; a text is {u32 bytes, the bytes}:
 *
 *	1 definition	u32 number, u32 id, u32 version, u32 level, u64 keywords, text provider,
 *			text name, u32 count of fields, the fields
 *	  field		u8 type, u8 element, u16 count of members, text name, the members
 *	2 stats	u64 delivered, u64 lost, u64 cut
 *	3 end		the same, once, after the last batch
 *
 * The client answers each definition with one byte. The sink delivers no event of the definition
 * before that answer, so the client can first prepare the program at the probe for the new number.
 * The sink sends a stats frame at a sequence point if no output is waiting.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringpipe/batch.h>

#include "base/memory.h"
#include "core/event_batch.h"
#include "nettrace/outbuf.h"
#include "sink/batch_probe.h"
#include "sink/sinks.h"

#define FRAME_DEFINITION 1u
#define FRAME_STATS 2u
#define FRAME_END 3u
#define STEP 8u

#define COPIED_HERE_BYTES 256u

_Static_assert(sizeof(struct rp_batch_event) == RP_RECORD_HEADER &&
	       offsetof(struct rp_batch_event, event) == offsetof(struct rp_record, event) &&
	       offsetof(struct rp_batch_event, time_ns) == offsetof(struct rp_record, ticks) &&
	       offsetof(struct rp_batch_event, thread) == offsetof(struct rp_record, thread) &&
	       offsetof(struct rp_batch_event, processor) ==
	       offsetof(struct rp_record, processor) &&
	       offsetof(struct rp_batch_event, flags) == offsetof(struct rp_record, flags) &&
	       offsetof(struct rp_batch_event, frames) == offsetof(struct rp_record, frames) &&
	       (int)RP_BATCH_ACTIVITY == (int)RP_RECORD_ACTIVITY &&
	       (int)RP_BATCH_RELATED == (int)RP_RECORD_RELATED,
	       "an event of a batch is a record, but for number and time");

/* A definition that was sent to the client; `serial` detects that its index was reused. */
struct sent_definition {
	uint64_t serial;
	uint32_t number;
};

struct batch_sink {
	struct rp_sink base;
	uint64_t session_id;
	struct rp_outbuf output;
	size_t sent_bytes;		/* bytes of `output` already sent */
	struct sent_definition *known;
	size_t known_count;
	uint32_t defined;		/* definitions sent; the number of the next one */
	uint32_t answered;		/* definitions that the client has answered */
	uint64_t cut;
	bool ended;
	size_t used_bytes;		/* bytes used in `batch` */
	_Alignas(struct rp_batch_event) uint8_t batch[RP_BATCH_BYTES_MAX];
};

static struct batch_sink *of(struct rp_sink *sink)
{
	return (struct batch_sink *)sink;
}

static __attribute__((noinline)) void fire(struct batch_sink *sink)
{
	if (sink->base.pending == 0)
		return;
	rp_batch_probe(sink->batch, sink->used_bytes, sink->base.pending, sink->session_id);
	sink->base.delivered += sink->base.pending;
	sink->base.bytes += sink->used_bytes;
	sink->base.pending = 0;
	sink->used_bytes = 0;
}

/* Send as much output as the connection accepts. Return: 0: all is sent; -EAGAIN; -errno. */
static int send_output(struct batch_sink *sink)
{
	while (sink->sent_bytes < sink->output.size) {
		ssize_t sent;

		if (!rp_file_is(sink->base.fd, &sink->base.file))
			return -EBADF;
		sent = send(sink->base.fd, sink->output.bytes + sink->sent_bytes,
			    sink->output.size - sink->sent_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno != EINTR)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		sink->sent_bytes += sent > 0 ? (size_t)sent : 0;
	}
	sink->output.size = 0;
	sink->sent_bytes = 0;
	return 0;
}

/* Receive the client's answers. Return: 0; -EPIPE: the client has disconnected; -errno. */
static int take_answers(struct batch_sink *sink)
{
	uint8_t answers[64];
	ssize_t got;

	if (!rp_file_is(sink->base.fd, &sink->base.file))
		return -EBADF;
	do {
		got = recv(sink->base.fd, answers, sizeof(answers), MSG_DONTWAIT);
		if (got > 0)
			sink->answered += (uint32_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got == 0 || sink->answered > sink->defined)
		return -EPIPE;
	return errno == EWOULDBLOCK ? 0 : -errno;
}

static void note_memory(struct batch_sink *sink)
{
	sink->base.memory_bytes = sizeof(*sink) + sink->output.capacity +
				  sink->known_count * sizeof(*sink->known);
}

static size_t begin_frame(struct batch_sink *sink, uint32_t kind)
{
	rp_outbuf_put_u32(&sink->output, kind);
	rp_outbuf_put_u32(&sink->output, 0);
	return sink->output.size;
}

/* Return: 0; -ENOMEM: the frame was removed from the output. */
static int end_frame(struct batch_sink *sink, size_t before, size_t content)
{
	uint32_t bytes = (uint32_t)(sink->output.size - content);

	if (sink->output.failed) {
		sink->output.failed = false;
		sink->output.size = before;
		return -ENOMEM;
	}
	memcpy(sink->output.bytes + content - sizeof(bytes), &bytes, sizeof(bytes));
	note_memory(sink);
	return 0;
}

static void put_text(struct rp_outbuf *output, const char *text)
{
	size_t bytes = strlen(text);

	rp_outbuf_put_u32(output, (uint32_t)bytes);
	rp_outbuf_put(output, text, bytes);
}

static void put_fields(struct rp_outbuf *output, const struct rp_field *fields, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		rp_outbuf_put_u8(output, fields[i].type);
		rp_outbuf_put_u8(output, fields[i].element);
		rp_outbuf_put(output, &fields[i].member_count, sizeof(fields[i].member_count));
		put_text(output, fields[i].name ? fields[i].name : "");
		put_fields(output, fields[i].members, fields[i].member_count);
	}
}

static int emit_definition(struct batch_sink *sink, const struct rp_event_def *def)
{
	struct rp_outbuf *output = &sink->output;
	size_t before = output->size, content = begin_frame(sink, FRAME_DEFINITION);

	rp_outbuf_put_u32(output, sink->defined);
	rp_outbuf_put_u32(output, def->id);
	rp_outbuf_put_u32(output, def->version);
	rp_outbuf_put_u32(output, def->level);
	rp_outbuf_put_u64(output, def->keywords);
	put_text(output, def->provider);
	put_text(output, def->name);
	rp_outbuf_put_u32(output, def->field_count);
	put_fields(output, def->fields, def->field_count);
	return end_frame(sink, before, content);
}

static int emit_stats(struct batch_sink *sink, uint32_t kind, uint64_t lost)
{
	size_t before = sink->output.size, content = begin_frame(sink, kind);

	rp_outbuf_put_u64(&sink->output, sink->base.delivered);
	rp_outbuf_put_u64(&sink->output, lost);
	rp_outbuf_put_u64(&sink->output, sink->cut);
	return end_frame(sink, before, content);
}

static int grow_known(struct batch_sink *sink, size_t index)
{
	struct sent_definition *grown = rp_memory_grow(sink->known, &sink->known_count, index,
						       sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	sink->known = grown;
	note_memory(sink);
	return 0;
}

static int define(struct batch_sink *sink, const struct rp_event_def *def)
{
	int ret = def->index >= sink->known_count ? grow_known(sink, def->index) : 0;

	if (ret == 0)
		ret = emit_definition(sink, def);
	if (ret == 0)
		sink->known[def->index] = (struct sent_definition){ def->serial, sink->defined++ };
	return ret;
}

/* Define the event if necessary, and check whether the client has answered. -EAGAIN: not yet. */
static __attribute__((noinline)) int wait_for(struct batch_sink *sink,
					      const struct rp_event_def *def)
{
	int ret = 0;

	if (def->index >= sink->known_count || sink->known[def->index].serial != def->serial)
		ret = define(sink, def);
	if (ret == 0)
		ret = send_output(sink);
	if (ret == 0)
		ret = take_answers(sink);
	if (ret == 0 && sink->known[def->index].number >= sink->answered)
		ret = -EAGAIN;
	return ret;
}

/* Get the number of the event's definition. Return: 0; -EAGAIN: the client is not ready yet. */
static inline int number_of(struct batch_sink *sink, const struct rp_event_def *def,
			    uint32_t *ret_number)
{
	int ret;

	if (__builtin_expect(def->index >= sink->known_count ||
			     sink->known[def->index].serial != def->serial ||
			     sink->known[def->index].number >= sink->answered, 0)) {
		ret = wait_for(sink, def);
		if (ret != 0)
			return ret;
	}
	*ret_number = sink->known[def->index].number;
	return 0;
}

/* Most records have a few words, which this copies faster than a call of memcpy() would. */
static inline void copy_words(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (bytes > COPIED_HERE_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	for (; bytes >= 2 * STEP; bytes -= 2 * STEP, to += 2 * STEP, from += 2 * STEP)
		memcpy(to, from, 2 * STEP);
	if (bytes)
		memcpy(to, from, STEP);
}

/* Copy a record unchanged, except for its number and its time. */
static inline void pack(struct batch_sink *sink, const struct rp_record_view *view, uint32_t number,
			uint32_t bytes)
{
	struct rp_batch_event *event = (struct rp_batch_event *)(sink->batch + sink->used_bytes);
	uint32_t step = (bytes + STEP - 1) & ~(STEP - 1);

	copy_words((uint8_t *)event, (const uint8_t *)view->record, step);
	event->event = number;
	event->time_ns = view->time_ns;
	if (__builtin_expect(bytes < view->record_bytes, 0)) {
		event->bytes = bytes;
		event->flags |= RP_BATCH_CUT;
		sink->base.shortened = ++sink->cut;
	}
	sink->used_bytes += step;
	sink->base.pending++;
}

static inline __attribute__((always_inline)) int batch_event(struct rp_sink *base,
							     const struct rp_record_view *view)
{
	struct batch_sink *sink = of(base);
	uint32_t number, bytes = view->record_bytes;
	int ret;

	/* Skip ringpipe's own events, which are in no ring: stats frames carry their content. */
	if (!view->record)
		return 0;
	ret = number_of(sink, view->def, &number);
	if (ret != 0)
		return ret;
	if (bytes > RP_BATCH_BYTES_MAX)
		bytes = RP_BATCH_BYTES_MAX;
	if (sink->used_bytes + bytes > RP_BATCH_BYTES_MAX)
		fire(sink);
	pack(sink, view, number, bytes);
	return 0;
}

static int batch_take(struct rp_sink *sink, struct rp_event_batch *events)
{
	return rp_event_batch_deliver(events, sink, batch_event, NULL, NULL);
}

static int batch_sequence_point(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	(void)time_ns;
	/* If the client does not read, do not queue more stats frames. */
	return of(base)->output.size ? 0 : emit_stats(of(base), FRAME_STATS, lost);
}

static int batch_flush(struct rp_sink *base)
{
	fire(of(base));
	return send_output(of(base));
}

static int batch_finish(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct batch_sink *sink = of(base);
	int ret = 0;

	(void)time_ns;
	fire(sink);
	if (!sink->ended)
		ret = emit_stats(sink, FRAME_END, lost);
	if (ret != 0)
		return ret;
	sink->ended = true;
	return send_output(sink);
}

/* The connection is broken, so the sink cannot send an end. */
static void batch_abandon(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	(void)base, (void)time_ns, (void)lost;
}

static void batch_destroy(struct rp_sink *base)
{
	struct batch_sink *sink = of(base);

	/* A forked child may hold the descriptor too: shut down, so that the peer sees the end. */
	if (!base->keep_fd && rp_file_is(base->fd, &base->file)) {
		shutdown(base->fd, SHUT_RDWR);
		close(base->fd);
	}
	rp_outbuf_fini(&sink->output);
	free(sink->known);
	free(sink);
}

static const struct rp_sink_ops batch_ops = {
	.batch = batch_take,
	.event = batch_event,
	.sequence_point = batch_sequence_point,
	.flush = batch_flush,
	.finish = batch_finish,
	.abandon = batch_abandon,
	.destroy = batch_destroy,
};

int rp_sink_batch_create(int fd, uint64_t session_id, const void *preamble, size_t preamble_bytes,
			 struct rp_sink **ret_sink)
{
	struct batch_sink *sink = calloc(1, sizeof(*sink));
	int ret;

	if (!sink)
		return -ENOMEM;
	rp_outbuf_put(&sink->output, preamble, preamble_bytes);
	ret = sink->output.failed ? -ENOMEM : rp_file_identify(fd, &sink->base.file);
	if (ret != 0) {
		rp_outbuf_fini(&sink->output);
		free(sink);
		return ret;
	}
	sink->base.ops = &batch_ops;
	sink->base.fd = fd;
	sink->session_id = session_id;
	note_memory(sink);
	*ret_sink = &sink->base;
	return 0;
}
