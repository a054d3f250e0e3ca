/* SPDX-License-Identifier: MIT */
/*
 * A second reader of nettrace V4, for tests: it shares no code with the library and accepts only
 * what the format and ringpipe's promises allow. The first deviation is a fault.
 *
 * Checked in each trace:
 *  - every byte belongs to an object: tags, versions, sizes, padding, end;
 *  - each definition is well formed, and each payload is exactly as long as its fields say;
 *  - the event numbers of each capture thread have no gap, and each sequence point names the
 *    threads that wrote since the point before, with the number of their last event;
 *  - events and sequence points are in the order of time, and blocks state their true times;
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
	 * that no EventsLost event states, and threads may have written that no point names.
	 */
	STRICT_RECOVERED = 1,
	/* A trace of several processes: the last sequence point states the sum of EventsLost. */
	STRICT_MERGED = 2,
	/* The trace may stop anywhere: its writer was killed, or still runs. */
	STRICT_CUT = 4,
	/* Capture thread 2^32 may have gaps, which are losses of kernel events. */
	STRICT_KERNEL = 8,
};

#define STRICT_REASONS 7
#define STRICT_WRITERS_MAX 256u

/*
 * The writers' own count: events of one kind carry a serial number, and a writer's serials rise.
 * Without a field for the writer, the thread is the writer.
 */
struct strict_serials {
	const char *provider, *event;
	const char *writer_field, *serial_field;
};

struct strict_writer {
	uint64_t id;
	uint64_t first, last, count;	/* serials; those that are missing lie between */
};

struct strict_result {
	char fault[256];			/* "": there is none */
	uint64_t events;			/* ringpipe's own included */
	uint64_t lost_by[STRICT_REASONS];	/* by EventsLost events; order of strict_reasons */
	uint64_t lost_reported;			/* the sum of these */
	uint64_t lost_in_points;		/* as the last sequence point states */
	uint64_t lost_in_gaps;			/* of kernel events */
	uint64_t points, threads;
	uint64_t cut_payloads;			/* by PayloadsCut events */
	uint64_t window_from_ns, window_to_ns;	/* of the last Snapshot event */
	uint64_t start_ns;
	bool complete;				/* the end is there */
	struct strict_writer writers[STRICT_WRITERS_MAX];
	uint32_t writer_count;
};

extern const char *const strict_reasons[STRICT_REASONS];

/* Called for each event; names are ASCII. */
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
 * Return: whether it has no fault; ret_result says what was found in either case.
 */
bool strict_read(const char *path, unsigned int flags, const struct strict_serials *serials,
		 strict_callback callback, void *data, struct strict_result *ret_result);

/* Return: the writer with the id, which may be a new one; NULL: there are too many. */
struct strict_writer *strict_writer_of(struct strict_result *result, uint64_t id);

/* Return: events lost for the reason, by EventsLost events. */
uint64_t strict_lost(const struct strict_result *result, const char *reason);

/* Return: the serials that are missing between each writer's first and last. */
uint64_t strict_missing(const struct strict_result *result);

#endif
