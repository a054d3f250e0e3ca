/* SPDX-License-Identifier: MIT */
/*
 * A second reader of nettrace V4 and V6, for tests. It shares no code with the library and accepts
 * only what the format and ringpipe's promises permit. The first deviation is a fault.
 *
 * The reader checks in each trace that
 *  - every byte belongs to an object: tags, versions, sizes, padding, end;
 *  - each definition is well formed, and each payload is exactly as long as its fields require;
 *  - the event numbers of each capture thread have no gap, and each sequence point names the
 *    threads that wrote since the previous point, with the number of their last event;
 *  - events and sequence points are in time order, and blocks state their true times;
 *  - each stack was defined since the last sequence point;
 *  - the losses of all EventsLost events equal the sum that each sequence point states.
 */
#ifndef TESTS_STRICT_H
#define TESTS_STRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strict_flag {
	/*
	 * A recovered trace, or one whose output failed: the last sequence point may state losses
	 * that no EventsLost event states, and may omit threads that wrote events.
	 */
	STRICT_RECOVERED = 1,
	/* A trace of several processes: the last sequence point states the sum of EventsLost. */
	STRICT_MERGED = 2,
	/* The trace may end anywhere: its writer was killed, or is still running. */
	STRICT_CUT = 4,
	/* Capture thread 2^32 may have gaps, which are losses of kernel events. */
	STRICT_KERNEL = 8,
};

#define STRICT_REASONS 7
#define STRICT_WRITERS_MAX 256u

/*
 * A check that is independent of the library: events of one kind contain a serial number, which
 * increases for each writer. `writer_field` identifies the writer; if it is NULL, each thread is a
 * writer.
 */
struct strict_serials {
	const char *provider, *event;
	const char *writer_field, *serial_field;
};

struct strict_writer {
	uint64_t id;
	uint64_t first, last, count;	/* serials; missing ones are between first and last */
};

struct strict_result {
	char fault[256];			/* "": no fault */
	uint64_t events;			/* including events of provider ringpipe */
	uint64_t lost_by[STRICT_REASONS];	/* by EventsLost events; order of strict_reasons */
	uint64_t lost_reported;			/* the sum of lost_by */
	uint64_t lost_in_points;		/* from the last sequence point */
	uint64_t lost_in_gaps;			/* kernel events */
	uint64_t points, threads;
	uint64_t cut_payloads;			/* from PayloadsCut events */
	uint64_t window_from_ns, window_to_ns;	/* from the last Snapshot event */
	uint64_t start_ns;
	bool complete;				/* the trace has its end */
	struct strict_writer writers[STRICT_WRITERS_MAX];
	uint32_t writer_count;
};

extern const char *const strict_reasons[STRICT_REASONS];

/* The argument of the callback, which is called for each event. Names are ASCII. */
struct strict_event {
	const char *provider, *name;
	uint32_t id;
	uint64_t time_ns, thread;
	const uint8_t *payload;
	size_t payload_bytes;
};
typedef void (*strict_callback)(const struct strict_event *event, void *data);

/*
 * Read the trace in a file. `serials` and `callback` may be NULL.
 *
 * Return: whether the trace has no fault. The function fills ret_result in either case.
 */
bool strict_read(const char *path, unsigned int flags, const struct strict_serials *serials,
		 strict_callback callback, void *data, struct strict_result *ret_result);

/* Get or create the writer with this id. Return: the writer; NULL: there are too many. */
struct strict_writer *strict_writer_of(struct strict_result *result, uint64_t id);

/* Return: the number of events that EventsLost events report for this reason. */
uint64_t strict_lost(const struct strict_result *result, const char *reason);

/* Return: the number of serials that are missing between the first and last of each writer. */
uint64_t strict_missing(const struct strict_result *result);

#endif
