/* SPDX-License-Identifier: MIT */
#include "tools/formats/ctf_streams.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

#define PACKET_EVENTS 4096u

/* Queue a message, whose reference the function takes; NULL: there was no memory for it. */
static void push(struct rp_ctf_streams *streams, const bt_message *message)
{
	const bt_message **grown;

	if (streams->first == streams->queued)
		streams->first = streams->queued = 0;
	grown = message ? rp_array_reserve(streams->queue, streams->queued, &streams->capacity, 1,
					   sizeof(const bt_message *)) : NULL;
	if (!grown) {
		bt_message_put_ref(message);
		streams->error = -ENOMEM;
		return;
	}
	streams->queue = grown;
	grown[streams->queued++] = message;
}

static struct rp_ctf_stream *open_stream(struct rp_ctf_streams *streams)
{
	struct rp_ctf_stream *stream = calloc(1, sizeof(*stream));

	if (stream)
		stream->stream = bt_stream_create(streams->class, streams->trace);
	if (!stream || !stream->stream) {
		free(stream);
		streams->error = -ENOMEM;
		return NULL;
	}
	streams->streams[streams->count++] = stream;
	push(streams, bt_message_stream_beginning_create(streams->iterator, stream->stream));
	return stream;
}

static void begin_packet(struct rp_ctf_streams *streams, struct rp_ctf_stream *stream,
			 uint64_t time)
{
	stream->packet = bt_packet_create(stream->stream);
	if (!stream->packet) {
		streams->error = -ENOMEM;
		return;
	}
	stream->events = 0;
	stream->has_packets = true;
	stream->latest = time;
	push(streams, bt_message_packet_beginning_create_with_default_clock_snapshot(
			      streams->iterator, stream->packet, time));
}

static void end_packet(struct rp_ctf_streams *streams, struct rp_ctf_stream *stream)
{
	if (!stream->packet)
		return;
	push(streams, bt_message_packet_end_create_with_default_clock_snapshot(
			      streams->iterator, stream->packet, stream->latest));
	bt_packet_put_ref(stream->packet);
	stream->packet = NULL;
}

/* Find a stream for an event that its processor's stream cannot have. Return: NULL: no memory. */
static struct rp_ctf_stream *find_earlier(struct rp_ctf_streams *streams,
					  struct rp_ctf_stream *own, uint64_t *time)
{
	struct rp_ctf_stream *best = NULL;

	/* The latest of the earlier streams leaves the others to events that are earlier still. */
	for (uint32_t i = 0; i < streams->count; i++) {
		struct rp_ctf_stream *stream = streams->streams[i];

		if (stream->latest <= *time && (!best || stream->latest > best->latest))
			best = stream;
	}
	if (best)
		return best;
	if (streams->count < RP_CTF_STREAMS_MAX)
		return open_stream(streams);
	streams->changed_times++;
	*time = own->latest;
	return own;
}

static struct rp_ctf_stream *find_stream(struct rp_ctf_streams *streams, uint32_t processor,
					 uint64_t *time)
{
	struct rp_ctf_stream **own = &streams->processors[processor < RP_CTF_PROCESSORS_MAX ?
							   processor : RP_CTF_PROCESSORS_MAX];

	if (!*own)
		*own = open_stream(streams);
	if (!*own || (*own)->latest <= *time)
		return *own;
	return find_earlier(streams, *own, time);
}

/*
 * sink.ctf.fs expects lost events between two packets, from the end of the first to the end of the
 * second. The second packet therefore has one event only, whose time is known now.
 */
static void report_lost(struct rp_ctf_streams *streams, struct rp_ctf_stream *stream,
			uint64_t time, uint64_t lost)
{
	bt_message *message;

	if (!stream->has_packets)
		begin_packet(streams, stream, time);
	end_packet(streams, stream);
	message = bt_message_discarded_events_create_with_default_clock_snapshots(
		streams->iterator, stream->stream, stream->latest, time);
	if (message)
		bt_message_discarded_events_set_count(message, lost);
	push(streams, message);
	begin_packet(streams, stream, time);
	if (stream->packet)
		stream->events = PACKET_EVENTS - 1;
}

bt_event *rp_ctf_streams_add(struct rp_ctf_streams *streams, const bt_event_class *class,
			     uint32_t processor, uint64_t time, uint64_t lost)
{
	struct rp_ctf_stream *stream = find_stream(streams, processor, &time);
	bt_message *message;

	if (!stream)
		return NULL;
	if (stream->events >= PACKET_EVENTS)
		end_packet(streams, stream);
	if (lost)
		report_lost(streams, stream, time, lost);
	else if (!stream->packet)
		begin_packet(streams, stream, time);
	if (streams->error)
		return NULL;
	message = bt_message_event_create_with_packet_and_default_clock_snapshot(
		streams->iterator, class, stream->packet, time);
	stream->latest = time;
	stream->events++;
	push(streams, message);
	return streams->error ? NULL : bt_message_event_borrow_event(message);
}

void rp_ctf_streams_end(struct rp_ctf_streams *streams, uint64_t lost)
{
	if (!streams->count && open_stream(streams))
		begin_packet(streams, streams->streams[0], 0);
	if (lost && streams->count)
		report_lost(streams, streams->streams[0], streams->streams[0]->latest, lost);
	for (uint32_t i = 0; i < streams->count; i++) {
		struct rp_ctf_stream *stream = streams->streams[i];

		end_packet(streams, stream);
		push(streams, bt_message_stream_end_create(streams->iterator, stream->stream));
	}
}

uint64_t rp_ctf_streams_take(struct rp_ctf_streams *streams, bt_message_array_const messages,
			     uint64_t capacity)
{
	uint64_t count = 0;

	while (count < capacity && streams->first < streams->queued)
		messages[count++] = streams->queue[streams->first++];
	return count;
}

void rp_ctf_streams_fini(struct rp_ctf_streams *streams)
{
	while (streams->first < streams->queued)
		bt_message_put_ref(streams->queue[streams->first++]);
	for (uint32_t i = 0; i < streams->count; i++) {
		bt_packet_put_ref(streams->streams[i]->packet);
		bt_stream_put_ref(streams->streams[i]->stream);
		free(streams->streams[i]);
	}
	free(streams->queue);
	*streams = (struct rp_ctf_streams){ 0 };
}
