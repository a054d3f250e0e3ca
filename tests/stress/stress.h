/* SPDX-License-Identifier: MIT */
/*
 * Shared parts of the stress tests: streams of serial-numbered events, the writers' own records
 * ("books"), and a reader that compares the recording with these books.
 *
 * The books are independent of the library. A writer stores the result of each serial's call; the
 * recording shows which serials arrived. The tests require for every serial:
 *
 *	the call returned 0	<=>	the serial is in the recording, once, complete, in order
 *	the call returned a loss	<=>	it is not, and it is counted as lost
 *
 * and five sums of losses are equal: the calls, the gaps in the recording, the numbers in the
 * stream (what TraceEvent shows), its EventsLost events, and the session's stats.
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

#include "../nettrace_version.h"
#include "../strict/strict.h"

#define STRESS_BLOB_MAX 60000u
#define STRESS_STREAMS_MAX 256u

/* Whether ThreadSanitizer or AddressSanitizer is active: the tests then do a fifth of the work. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STRESS_WATCHED 1
#else
#define STRESS_WATCHED 0
#endif

/* The fate of a serial, as its writer recorded it. */
enum stress_fate {
	STRESS_UNWRITTEN = 0,
	STRESS_OK = 1,
	STRESS_LOST = 2,	/* -ENOBUFS */
	STRESS_REFUSED = 3,	/* -EMSGSIZE */
	STRESS_WRONG = 4,	/* anything else */
};

typedef int (*stress_writer)(uint64_t stream, uint64_t serial, const void *blob, size_t bytes);

/*
 * Serials that one thread, or one kind of signal handler on a thread, writes in succession. A
 * handler has a separate stream, since its event may precede the interrupted event.
 */
struct stress_stream {
	stress_writer write;
	uint64_t id;
	uint64_t space;		/* entries of fate and seen: a power of two; serials wrap around */
	uint8_t *fate;
	uint8_t *seen;		/* set by the reader: 0, or the mark of the recording */
	uint32_t least_bytes;	/* of a blob; 0: mostly small, one in a thousand large */
	uint64_t next;		/* lower serials were begun; at most 1 more than `done` */
	uint64_t done;		/* lower serials are written, and their fate is known */
} __attribute__((aligned(64)));

struct stress_books {
	struct stress_stream *streams;
	size_t count;
};

/* Counts of one recording. */
struct stress_tally {
	uint8_t mark;			/* stored in `seen`; not 0 */
	uint64_t events;		/* events of the books */
	uint64_t reported;			/* from EventsLost events */
	uint64_t reported_by[RP_LOSS_REASON_COUNT];
	uint64_t reader_lost;		/* from the numbers of threads and sequence points */
	uint64_t unordered;
	uint64_t coarse_reported;		/* CoarseTime events */
	bool has_reader;		/* false for a listener */
	uint64_t last_seen[STRESS_STREAMS_MAX];	/* serial + 1 */
};

/* Streams with ids 0 to count - 1 and space for `space` serials each. */
void stress_books_init(struct stress_books *books, size_t count, uint64_t space,
		       stress_writer write);
void stress_books_fini(struct stress_books *books);

/* Write the next serial. Context: any, including signal handlers. Return: its fate. */
enum stress_fate stress_write(struct stress_stream *stream);

/* Record that the reader got one event. */
void stress_take(struct stress_books *books, struct stress_tally *tally, const void *payload,
		 size_t bytes);
/* The same, or ringpipe's own event about losses; `wide`: its strings are UTF-16. */
void stress_take_from(struct stress_books *books, struct stress_tally *tally, const char *provider,
		      const void *payload, size_t bytes, bool wide);

/* The next event, without those that describe the process. Return: as rp_reader_next(). */
int stress_next(struct rp_reader *reader, struct rp_reader_event *ret_event);

/*
 * Reads a recording to its end. All events, except the provider ringpipe's, must be in the books.
 */
void stress_read(struct rp_reader *reader, struct stress_books *books,
		 struct stress_tally *tally);

/* The same, and also compares with the reader that shares no code with the library. */
void stress_read_file(const char *path, struct stress_books *books, struct stress_tally *tally);


/* Reads with the strict reader, which must find no fault. `serials` may be NULL. */
bool stress_read_strictly(const char *path, unsigned int flags,
			  const struct strict_serials *serials, struct strict_result *ret_result);

/* The same in a separate thread, from a descriptor, which it closes. */
struct stress_far_side {
	pthread_t thread;
	int fd;
	struct stress_books *books;
	struct stress_tally *tally;
};
void stress_far_side_start(struct stress_far_side *side, int fd, struct stress_books *books,
			   struct stress_tally *tally);
void stress_far_side_join(struct stress_far_side *side);

/* Compares all books with the complete recording. Return: losses. */
uint64_t stress_settle(const struct stress_books *books, const struct stress_tally *tally,
		       const struct rp_session_stats *stats);

/* Compares the sums of all sources: stress_settle() without books. */
void stress_agree(const struct stress_tally *tally, const struct rp_session_stats *stats);

/* Starts a session of provider `name`, all keywords and levels. `path`, or fd if that is NULL. */
struct rp_session *stress_start(const char *name, const char *path, int fd, size_t buffer_bytes,
				uint32_t flags);

/* Starts a listener to the same provider. */
struct rp_listener *stress_listen(const char *name, size_t buffer_bytes,
				  rp_listener_callback callback, void *data);

/* Stops a session; it must not have failed. */
void stress_stop(struct rp_session *session, struct rp_session_stats *ret_stats);

/* Begins one promise: its name; then come its checks and a line of figures. */
void stress_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool stress_check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
void stress_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void stress_skip(const char *why);
void stress_stats(const struct stress_books *books, const struct rp_session_stats *stats);
void stress_end(void);
int stress_exit(void);		/* the program's exit status */

/* Return: `usual`, or a fifth with a sanitizer. */
uint64_t stress_amount(uint64_t usual);

/* Return: 1; 5 in the long form (RINGPIPE_STRESS=long), or N with RINGPIPE_STRESS=N. */
unsigned int stress_rounds(void);

/* A file name in a folder of this process, removed at exit; on tmpfs if that has enough space. */
const char *stress_path(const char *name);

void *stress_alloc(size_t count, size_t size);
void stress_spawn(pthread_t *ret_thread, void *(*run)(void *), void *data);
void stress_socketpair(int ret_fds[2]);

/*
 * Unregisters the calling thread's rseq area, as if no C library had registered one. Does nothing
 * in a thread without one.
 */
void stress_leave_rseq(void);

/*
 * Two events of a provider, and provider_any(), which writes one of them: an event without bytes
 * is written from registers.
 */
#define STRESS_EVENTS(provider)                                                                    \
	RP_EVENT(provider, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),   \
		 RP_BLOB(filling));                                                                \
	RP_EVENT(provider, bare, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),   \
		 RP_U16(none));                                                                    \
	static int provider##_any(uint64_t stream, uint64_t serial, const void *bytes,             \
				  size_t count)                                                    \
	{                                                                                          \
		return count ? provider##_mark(stream, serial, bytes, count)                       \
			     : provider##_bare(stream, serial, 0);                                 \
	}                                                                                          \
	struct stress_books	/* which is declared again: takes the semicolon */

/* A small generator: each thread keeps its own state. */
uint32_t stress_random(uint64_t *state);

/* Seconds of CLOCK_MONOTONIC, for generous deadlines only. */
double stress_seconds(void);

#endif
