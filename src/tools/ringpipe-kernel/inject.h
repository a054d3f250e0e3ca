/* SPDX-License-Identifier: MIT */
/*
 * Copies a nettrace stream from a process to a file and inserts kernel events by time. The data of
 * the process is unchanged: payloads, stacks, the threads' event numbers, which contain the losses,
 * and definitions (with higher ids, to free some for the inserted events). For one thread only.
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
	uint32_t definition;		/* index of the definition */
	uint32_t lost;			/* inserted events lost before this one */
	uint64_t time_ns;
	uint64_t thread;
	uint16_t processor;
	const void *payload;		/* in the layout of types.h */
	size_t payload_bytes;
};

/*
 * `definitions` describe all inserted events. -EINVAL and -EMSGSIZE as rp_encoder_define();
 * -ENOMEM.
 */
int rp_kernel_inject_create(const struct rp_definition *definitions, size_t count,
			    struct rp_kernel_inject **ret_kernel_inject);
void rp_kernel_inject_destroy(struct rp_kernel_inject *inject);

/*
 * Insert an event. It is held until the stream has reached its time. Before feeding a part of the
 * stream, put all events that precede that part. -ENOMEM; -EMSGSIZE.
 */
int rp_kernel_inject_put(struct rp_kernel_inject *inject,
			 const struct rp_kernel_inject_event *event);

/*
 * Process the next bytes of the stream.
 *
 * Return: 0; -EBADMSG: it is damaged; -EPROTONOSUPPORT: no V4 or V6, or a clock other than
 * CLOCK_MONOTONIC in ns; -ENOMEM. After an error, the rest of the stream is copied unchanged.
 */
int rp_kernel_inject_feed(struct rp_kernel_inject *inject, const void *bytes, size_t size);

/*
 * The stream of an idle process does not show the current time. If many inserted events are held,
 * the function writes the older half, up to `time_ns`, without waiting. -ENOMEM.
 */
int rp_kernel_inject_relieve(struct rp_kernel_inject *inject, uint64_t time_ns);

/* End the input: writes all held events, and the stream's end if that was in the input. -ENOMEM. */
int rp_kernel_inject_finish(struct rp_kernel_inject *inject);

const void *rp_kernel_inject_output(struct rp_kernel_inject *inject, size_t *ret_size);
void rp_kernel_inject_consume(struct rp_kernel_inject *inject, size_t size);

#endif
