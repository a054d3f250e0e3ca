/* SPDX-License-Identifier: MIT */
/*
 * Copies a nettrace stream from a process to a file and inserts events of its own by time. The data
 * of the process is unchanged: definitions (with higher ids, to free some for the inserted events),
 * payloads, stacks, and the threads' event numbers, which contain the losses. One thread at a time.
 *
 * The inserted events belong to an artificial capture thread, whose event numbers contain their
 * losses.
 */
#ifndef RP_KERNEL_INJECT_H
#define RP_KERNEL_INJECT_H

#include "nettrace/encoder.h"

/* Above all thread ids of Linux, below those for the losses of a session. */
#define RP_KERNEL_INJECT_THREAD (1ull << 32)

/* The longest payload of an inserted event, on the wire. */
#define RP_KERNEL_INJECT_PAYLOAD_MAX 128u

struct rp_kernel_inject;

struct rp_kernel_inject_event {
	uint32_t definition;		/* index */
	uint32_t lost;			/* of ours, before this one */
	uint64_t time_ns;
	uint64_t thread;
	uint16_t processor;
	const void *payload;		/* as types.h lays it out */
	size_t payload_bytes;
};

/* `definitions`: of all events of ours. -EINVAL and -EMSGSIZE as rp_encoder_define(); -ENOMEM. */
int rp_kernel_inject_create(const struct rp_definition *definitions, size_t count,
			    struct rp_kernel_inject **ret_kernel_inject);
void rp_kernel_inject_destroy(struct rp_kernel_inject *inject);

/*
 * An event of ours. It is kept until the stream has come to its time; all that happened before a
 * time in the stream are to be put before that part of the stream is fed. -ENOMEM; -EMSGSIZE.
 */
int rp_kernel_inject_put(struct rp_kernel_inject *inject,
			 const struct rp_kernel_inject_event *event);

/*
 * The next bytes of the stream.
 *
 * Return: 0; -EBADMSG: it is damaged; -EPROTONOSUPPORT: no V4, or a clock other than
 * CLOCK_MONOTONIC in ns; -ENOMEM. After that the rest goes on as it is, without events of ours.
 */
int rp_kernel_inject_feed(struct rp_kernel_inject *inject, const void *bytes, size_t size);

/*
 * The stream of an idle process does not show the current time. If many events wait for it, this
 * writes the older half, up to `time_ns`, without waiting. -ENOMEM.
 */
int rp_kernel_inject_relieve(struct rp_kernel_inject *inject, uint64_t time_ns);

/* No more bytes will come: all that is kept, and the stream's end if it had come. -ENOMEM. */
int rp_kernel_inject_finish(struct rp_kernel_inject *inject);

const void *rp_kernel_inject_output(struct rp_kernel_inject *inject, size_t *ret_size);
void rp_kernel_inject_consume(struct rp_kernel_inject *inject, size_t size);

#endif
