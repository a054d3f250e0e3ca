/* SPDX-License-Identifier: MIT */
/*
 * The streams of a CTF trace, as messages for the component sink.ctf.fs of libbabeltrace2.
 *
 * Each processor has a stream. Their number is small, while a trace may have more threads than a
 * process may have open files, and readers of CTF traces expect a stream per processor. A stream
 * must be in the order of time, so an event that is earlier than its stream goes to another stream
 * whose events are all earlier, or to a new one.
 *
 * A stream consists of packets. sink.ctf.fs keeps the packet that it writes in memory.
 */
#ifndef RP_TOOL_CTF_STREAMS_H
#define RP_TOOL_CTF_STREAMS_H

#include <stdbool.h>

#include <babeltrace2/babeltrace.h>

#include <ringpipe/reader.h>

/* sink.ctf.fs has a file open for each stream. */
#define RP_CTF_STREAMS_MAX 320u
#define RP_CTF_PROCESSORS_MAX 256u	/* further processors share a stream */

struct rp_ctf_stream {
	bt_stream *stream;
	bt_packet *packet;		/* NULL: none is open */
	uint32_t events;		/* of the packet */
	bool has_packets;
	uint64_t latest;		/* the time of the latest message */
};

struct rp_ctf_streams {
	bt_self_message_iterator *iterator;
	bt_stream_class *class;
	bt_trace *trace;
	struct rp_ctf_stream *streams[RP_CTF_STREAMS_MAX];
	uint32_t count;
	/* The stream of each processor, and at last that of all others. */
	struct rp_ctf_stream *processors[RP_CTF_PROCESSORS_MAX + 1];
	const bt_message **queue;
	size_t first, queued, capacity;
	uint64_t changed_times;		/* events with the time of the event before */
	int error;			/* 0; -ENOMEM; later calls do nothing */
};

/*
 * Queue a message with an event.
 * @class: the class of the event.
 * @time: of the trace's clock; later than the stream if no stream can have it.
 * @lost: events that were lost since the previous event of the trace.
 * Return: the event, whose fields the caller sets; NULL: streams->error.
 */
bt_event *rp_ctf_streams_add(struct rp_ctf_streams *streams, const bt_event_class *class,
			     uint32_t processor, uint64_t time, uint64_t lost);

/*
 * Queue the messages that end all streams; a trace without events gets an empty stream.
 * @lost: events that were lost after the last one.
 */
void rp_ctf_streams_end(struct rp_ctf_streams *streams, uint64_t lost);

/* Take up to `capacity` messages from the queue. Return: their number. */
uint64_t rp_ctf_streams_take(struct rp_ctf_streams *streams, bt_message_array_const messages,
			     uint64_t capacity);

void rp_ctf_streams_fini(struct rp_ctf_streams *streams);

#endif
