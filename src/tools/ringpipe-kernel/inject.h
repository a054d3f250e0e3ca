/* SPDX-License-Identifier: MIT */
/*
 * Copies a nettrace stream of a process and inserts kernel events in the order of time. The events
 * of the process keep their payloads, stacks and event numbers, whose gaps show the losses. Their
 * definitions get higher ids, because the inserted events use the lowest ids.
 *
 * The inserted events belong to an artificial capture thread. Gaps in its event numbers show how
 * many inserted events were lost. One thread at a time may call these functions.
 */
#ifndef RP_KERNEL_INJECT_H
#define RP_KERNEL_INJECT_H

#include "nettrace/encoder.h"

/*
 * Id of the artificial capture thread: above all thread ids of Linux, below the ids of the threads
 * that state a session's losses.
 */
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
 * stream, put all events that precede that part.
 *
 * Return: 0; -EMSGSIZE: the payload is too long; -ENOMEM.
 */
int rp_kernel_inject_put(struct rp_kernel_inject *inject,
			 const struct rp_kernel_inject_event *event);

/*
 * Process the next bytes of the stream.
 *
 * Return: 0; -EBADMSG: the stream is damaged; -EPROTONOSUPPORT: it is neither V4 nor V6, or its
 * clock is not CLOCK_MONOTONIC in ns; -ENOMEM. After the first two, the rest of the stream is
 * copied unchanged.
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
