/* SPDX-License-Identifier: MIT */
/*
 * The parts of the strict reader: strict.c has the checks that both versions share, version4.c and
 * version6.c have the outer layers.
 */
#ifndef TESTS_STRICT_PARTS_H
#define TESTS_STRICT_PARTS_H

#include "fields.h"
#include "strict.h"

/* The capture thread of kernel events: its id in version 4, its index in version 6. */
#define STRICT_KERNEL_THREAD (1ull << 32)
#define STRICT_LOST_THREAD (1ull << 63)		/* version 4: the first thread of losses */
#define STRICT_LOST_INDEX 1u			/* version 6: the capture index of losses */
#define STRICT_DEFINITIONS_MAX (1u << 17)
#define STRICT_THREADS_LOG 16

/* A thread of version 4, or a row of version 6. */
struct strict_thread {
	uint64_t id;		/* the thread's, or the row's index */
	uint32_t number;	/* of the thread's last event, or from a sequence point */
	bool used, wrote;	/* wrote: an event since the last sequence point */
	bool declared, seen;	/* version 6: there is a row; it has an event */
	uint64_t process, thread;	/* version 6; a capture index has process 0 */
};

/* State of the compressed headers of a block. */
struct strict_header {
	uint64_t time, capture_thread, thread;
	uint32_t metadata_id, number, processor, stack, labels, payload_bytes;
};

struct strict {
	struct strict_input input;	/* the whole file */
	unsigned int flags;
	const struct strict_serials *serials;
	strict_callback callback;
	void *data;
	struct strict_result *result;
	struct strict_definition **definitions;
	struct strict_thread *threads;	/* a hash table of 1 << STRICT_THREADS_LOG */
	uint32_t processors;
	uint64_t process;		/* version 6: of the whole trace */
	uint32_t stacks, labels;	/* defined since the last sequence point */
	uint64_t last_ns;
	uint64_t wrote;			/* number of threads that wrote since that point */
	bool is_v6;
	bool began;			/* an event was read */
	bool unreported;		/* a point stated more losses than EventsLost events did */
};

bool strict_failed(const struct strict *strict);

/* Record a fault. Only the first fault is kept. */
__attribute__((format(printf, 3, 4)))
void strict_fail(struct strict *strict, const uint8_t *at, const char *format, ...);

/* Find or add a thread by its id or index. */
struct strict_thread *strict_thread_of(struct strict *strict, uint64_t id, const uint8_t *at);

/* Read the header of an event block. */
void strict_read_times(struct strict *strict, struct strict_input *c, uint64_t *ret_first,
		       uint64_t *ret_last);

/* Read a compressed header. Return: the payload. */
struct strict_input strict_read_header(struct strict *strict, struct strict_input *c,
				       struct strict_header *header);

void strict_read_events(struct strict *strict, struct strict_input block);
void strict_read_stacks(struct strict *strict, struct strict_input block);

/* Add a definition, which the function takes over, or record `problem`. */
void strict_add_definition(struct strict *strict, struct strict_definition *definition,
			   const char *problem, const uint8_t *at);

/* Read the time, the clock's rate and the size of pointers, with which Trace begins. */
void strict_read_clock(struct strict *strict, struct strict_input *c);

/* Check a number that a sequence point states. Return: whether the thread wrote since the last. */
bool strict_read_number(struct strict *strict, struct strict_thread *thread, uint32_t number,
			const uint8_t *at);

/* Check a sequence point that names `named` threads, after its last number. */
void strict_end_point(struct strict *strict, struct strict_input *block, uint64_t time,
		      uint64_t named);

/* Read the whole file, whose first bytes decide which function is called. */
void strict_read_version4(struct strict *strict, struct strict_input *c);
void strict_read_version6(struct strict *strict, struct strict_input *c);

#endif
