/* SPDX-License-Identifier: MIT */
/*
 * A nettrace stream on its way from a process to a file, with events of ours put in where their
 * time is. What the process sent stays as it is, bit by bit: definitions (their ids moved up, to
 * make room for ours), payloads, stacks, numbers of threads and so the losses they tell. One thread
 * at a time.
 *
 * Our events are those of a made-up capture thread, whose numbers tell how many were lost.
 */
#ifndef RP_KERNEL_SPLICE_H
#define RP_KERNEL_SPLICE_H

#include "nettrace/encoder.h"

/* Above all thread ids of Linux, below those that tell the losses of a session. */
#define RP_SPLICE_THREAD (1ull << 32)

/* The longest payload of ours, on the wire. */
#define RP_SPLICE_PAYLOAD_MAX 128u

struct rp_splice;

struct rp_splice_event {
	uint32_t definition;		/* index */
	uint32_t lost;			/* of ours, before this one */
	uint64_t time_ns;
	uint64_t thread;
	uint16_t processor;
	const void *payload;		/* as types.h lays it out */
	size_t payload_bytes;
};

/* `definitions`: of all events of ours. -EINVAL and -EMSGSIZE as rp_encoder_define(); -ENOMEM. */
int rp_splice_create(const struct rp_encoder_definition *definitions, size_t count,
		     struct rp_splice **ret_splice);
void rp_splice_destroy(struct rp_splice *splice);

/*
 * An event of ours. It is kept until the stream has come to its time; all that happened before a
 * time in the stream are to be put before that part of the stream is fed. -ENOMEM; -EMSGSIZE.
 */
int rp_splice_put(struct rp_splice *splice, const struct rp_splice_event *event);

/*
 * The next bytes of the stream.
 *
 * Return: 0; -EBADMSG: it is damaged; -EPROTONOSUPPORT: no V4, or a clock other than
 * CLOCK_MONOTONIC in ns; -ENOMEM. After that the rest goes on as it is, without events of ours.
 */
int rp_splice_feed(struct rp_splice *splice, const void *bytes, size_t size);

/*
 * Where a process says nothing for long, its stream does not tell what time it is: of many events
 * the older half, up to this time, go without waiting for it. -ENOMEM.
 */
int rp_splice_relieve(struct rp_splice *splice, uint64_t time_ns);

/* No more bytes will come: all that is kept, and the stream's end if it had come. -ENOMEM. */
int rp_splice_finish(struct rp_splice *splice);

const void *rp_splice_output(struct rp_splice *splice, size_t *ret_size);
void rp_splice_consume(struct rp_splice *splice, size_t size);

#endif
