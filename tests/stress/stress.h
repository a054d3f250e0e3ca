/* SPDX-License-Identifier: MIT */
/*
 * Shared parts of the stress tests: streams of serial-numbered events, the books their writers
 * keep, and a reader that compares the recording with the books.
 *
 * The account is kept outside of the library. A writer notes for each serial number what the call
 * returned; the recording says which serials arrived. Exact means, for every single serial:
 *
 *	the call returned 0	<=>	the serial is in the recording, once, whole, in order
 *	the call returned a loss	<=>	it is not, and it is one of those reported as lost
 *
 * and the sum of losses is the same from five sides: the calls, the gaps in the recording, the
 * numbers in the stream (what TraceEvent shows), its EventsLost events, and the session's stats.
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "../strict/strict.h"

#define STRESS_BLOB_MAX 60000u
#define STRESS_STREAMS_MAX 256u

/* Whether ThreadSanitizer or AddressSanitizer watches: a fifth of the work. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STRESS_WATCHED 1
#else
#define STRESS_WATCHED 0
#endif

/* The fate of a serial, as its writer knows it. */
enum stress_fate {
	STRESS_UNWRITTEN = 0,
	STRESS_OK = 1,
	STRESS_LOST = 2,	/* -ENOBUFS */
	STRESS_REFUSED = 3,	/* -EMSGSIZE */
	STRESS_WRONG = 4,	/* anything else */
};

typedef int (*stress_writer)(uint64_t stream, uint64_t serial, const void *blob, size_t bytes);

/*
 * Serials that one thread, or one kind of signal handler on a thread, writes one after another. A
 * handler is a stream of its own: what it writes in the middle of a write comes before it.
 */
struct stress_stream {
	stress_writer write;
	uint64_t id;
	uint64_t space;		/* of fate and seen: a power of two; serials wrap around in them */
	uint8_t *fate;
	uint8_t *seen;		/* by the reader: 0, or which recording held it */
	uint32_t least_bytes;	/* of a blob; 0: mostly small, one in a thousand large */
	uint64_t next;		/* serials below it were begun; up to 1 more than `done` */
	uint64_t done;		/* serials below it are written, their fate is known */
} __attribute__((aligned(64)));

struct stress_books {
	struct stress_stream *streams;
	size_t count;
};

/* Counts of one recording. */
struct stress_tally {
	uint8_t mark;			/* put into `seen`; not 0 */
	uint64_t events;		/* those of the books */
	uint64_t reported;			/* by EventsLost events */
	uint64_t reported_by[RP_LOSS_REASON_COUNT];
	uint64_t reader_lost;		/* by the numbers of threads and sequence points */
	uint64_t unordered;
	uint64_t coarse_reported;		/* CoarseTime events */
	bool has_reader;		/* false for a listener */
	uint64_t last_seen[STRESS_STREAMS_MAX];	/* serial + 1 */
};

/* Streams with ids 0 to count - 1 and space for `space` serials each. */
void stress_books_init(struct stress_books *books, size_t count, uint64_t space,
		       stress_writer write);
void stress_books_fini(struct stress_books *books);

/* Writes the next serial. Context: any, signal handlers included. Return: its fate. */
enum stress_fate stress_write(struct stress_stream *stream);

/* The reader's side of one event. */
void stress_take(struct stress_books *books, struct stress_tally *tally, const void *payload,
		 size_t bytes);
/* The same, or ringpipe's own event about losses; `wide`: its strings are UTF-16. */
void stress_take_from(struct stress_books *books, struct stress_tally *tally, const char *provider,
		      const void *payload, size_t bytes, bool wide);

/* The next event but for what a session says of the process. Return: as rp_reader_next(). */
int stress_next(struct rp_reader *reader, struct rp_reader_event *ret_event);

/* Reads a recording to its end; a provider's events other than ringpipe's must be of the books. */
void stress_read(struct rp_reader *reader, struct stress_books *books,
		 struct stress_tally *tally);

/* The same, and strictly: the reader that shares no code with the library says the same. */
void stress_read_file(const char *path, struct stress_books *books, struct stress_tally *tally);


/* The strict reader's findings, which must have no fault. `serials` may be NULL. */
bool stress_read_strictly(const char *path, unsigned int flags,
			  const struct strict_serials *serials, struct strict_result *ret_result);

/* The same in a thread of its own, from a descriptor, which it closes. */
struct stress_far_side {
	pthread_t thread;
	int fd;
	struct stress_books *books;
	struct stress_tally *tally;
};
void stress_far_side_start(struct stress_far_side *side, int fd, struct stress_books *books,
			   struct stress_tally *tally);
void stress_far_side_join(struct stress_far_side *side);

/* Holds the whole of the books against one recording of all of it. Return: losses. */
uint64_t stress_settle(const struct stress_books *books, const struct stress_tally *tally,
		       const struct rp_session_stats *stats);

/* The sums from inside, outside and the far end are one: what settle() does without books. */
void stress_agree(const struct stress_tally *tally, const struct rp_session_stats *stats);

/* Starts a session of provider `name`, all keywords and levels. `path`, or fd when NULL. */
struct rp_session *stress_start(const char *name, const char *path, int fd, size_t buffer_bytes,
				uint32_t flags);

/* Starts a listener to the same. */
struct rp_listener *stress_listen(const char *name, size_t buffer_bytes,
				  rp_listener_callback callback, void *data);

/* Stops a session; it must not have failed. */
void stress_stop(struct rp_session *session, struct rp_session_stats *ret_stats);

/* One promise: its name, what was checked, then a line of figures. */
void stress_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool stress_check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
void stress_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void stress_skip(const char *why);
void stress_stats(const struct stress_books *books, const struct rp_session_stats *stats);
void stress_end(void);
int stress_exit(void);		/* the program's exit status */

/* `usual`, or a fifth where accesses are watched. */
uint64_t stress_amount(uint64_t usual);

/* How often: 1; 5 in the long form (RINGPIPE_STRESS=long), or RINGPIPE_STRESS=N times. */
unsigned int stress_rounds(void);

/* A file name in a folder of this process, removed at exit; on tmpfs if that has enough space. */
const char *stress_path(const char *name);

void *stress_alloc(size_t count, size_t size);
void stress_spawn(pthread_t *ret_thread, void *(*run)(void *), void *data);
void stress_socketpair(int ret_fds[2]);

/*
 * Unregisters the calling thread's rseq area, as if no C library had registered one: from then on
 * the kernel leaves it alone. Does nothing in a thread that has none.
 */
void stress_leave_rseq(void);

/* A small generator: each thread keeps its own state. */
uint32_t stress_random(uint64_t *state);

/* Seconds of CLOCK_MONOTONIC, for generous deadlines only. */
double stress_seconds(void);

#endif
