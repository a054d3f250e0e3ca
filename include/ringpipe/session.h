/* SPDX-License-Identifier: MIT */
/*
 * Sessions: who listens to what, and where it goes.
 */
#ifndef RINGPIPE_SESSION_H
#define RINGPIPE_SESSION_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_session;

#define RP_SESSIONS_MAX 40u
#define RP_SESSION_BUFFER_MIN (1u << 20)
#define RP_SESSION_OVERWRITE_MIN (8u << 20)
#define RP_SESSION_ROLL_MIN (8u << 20)

/* Which event ids of a provider a session takes; none given: all. */
struct rp_event_filter {
	uint32_t size;
	uint8_t enable;			/* 1: only these ids; 0: all but these */
	uint8_t reserved[3];
	const uint32_t *ids;
	size_t id_count;
};

/* One provider that a session wants. */
struct rp_session_provider {
	uint32_t size;			/* of several, the same in each */
	uint8_t level;			/* 0 to 5; 0 takes events of every level */
	uint8_t reserved[3];
	const char *name;		/* "*": every provider, those to come included */
	uint64_t keywords;		/* 0: only events without keywords */
	const char *filter_data;	/* arguments for the provider's callback, or NULL */
	const struct rp_event_filter *filter;	/* or NULL */
};

enum rp_session_flags {
	RP_SESSION_STACKS = 1,		/* capture the writer's stack with each event */
	RP_SESSION_CAUSAL = 2,		/* fence each timestamp: order between threads is causal */
	/*
	 * Stacks without the rundown, which tells what is mapped and, when the session ends, reads
	 * the names of the functions that stacks led through.
	 */
	RP_SESSION_NO_RUNDOWN = 4,
	/*
	 * A flight recorder: the newest events overwrite the oldest, and nothing goes out until
	 * rp_session_snapshot() asks for what is there. With an output, that gets what is there
	 * when the session ends; output_fd -1 and no path: nobody does. What is overwritten is not
	 * counted as lost: a snapshot tells from when on it is complete. The buffer is at least
	 * RP_SESSION_OVERWRITE_MIN, without block_ms. Not for listeners.
	 *
	 * Events marked as state (RP_STATE_EVENT) are kept: an eighth of the buffer is theirs, and
	 * nothing overwrites it. When a ring there is full, what comes is lost and counted as such.
	 * A session that overwrites counts as two of RP_SESSIONS_MAX.
	 */
	RP_SESSION_OVERWRITE = 8,
	/*
	 * Times from a clock that the drain thread moves on each millisecond, unless its output
	 * stands still or it gets no processor: an event is cheaper. Each thread's events keep
	 * their order, and so do those on one processor; what threads on different processors wrote
	 * within a step may come in another order. A writer without restartable sequences reads the
	 * clock all the same. The stream says so first, by event `CoarseTime` of provider
	 * `ringpipe`. Not with RP_SESSION_CAUSAL, recover_path or roll_bytes.
	 */
	RP_SESSION_COARSE = 16,
};

struct rp_session_options {
	uint32_t size;
	uint32_t flags;			/* enum rp_session_flags */
	const char *name;		/* for listings; NULL: "session" */
	size_t buffer_bytes;		/* the ceiling of all rings; 0: 64 MB */
	const struct rp_session_provider *providers;
	size_t provider_count;
	const char *output_path;	/* a file to make or overwrite, or NULL */
	int output_fd;			/* with no path: a socket, pipe or file */
	/*
	 * How long a writer that finds no room waits for some, in milliseconds; 0: not at all. What
	 * has waited that long in vain is lost, and so is what comes until the drain thread gets
	 * something rid again: an output that stands still holds each thread up once.
	 */
	uint32_t block_ms;
	/*
	 * The directory in which the session makes one for its rings, so that `ringpipe recover`
	 * can complete the output when the process was killed; "": /dev/shm/ringpipe-UID; NULL:
	 * rings are memory. Made if it is missing. The output has to be a regular file; a session
	 * that overwrites may have none, and its recovered trace is what a snapshot would have had.
	 */
	const char *recover_path;
	/*
	 * For a session that is always on, a quota in bytes, at least RP_SESSION_ROLL_MIN; 0: one
	 * file without bound. The output goes into one file after the other, each a whole nettrace
	 * of about an eighth of the quota, numbered before its extension: "trace.nettrace" is
	 * trace.000001.nettrace and so on. An event is in one of them, in the next where another
	 * ends. The oldest go, also those of earlier processes with that output_path, so that all
	 * together stay below the quota; names of functions, with stacks, may come on top.
	 *
	 * A file that somebody deletes while it is written is followed by the next one. A full disk
	 * costs the oldest file; it ends the session when that is the only one. Not with
	 * recover_path, RP_SESSION_OVERWRITE, or a listener.
	 */
	uint64_t roll_bytes;
};

/* Why events were lost. One list gives the enum, the names and the texts. */
#define RP_LOSS_REASONS(X) \
	X(FULL, "full", "the ring had no room") \
	X(TOO_BIG, "too-big", "the payload exceeded 64 KB or the ring") \
	X(BUSY, "busy", "every fallback ring was held by another writer") \
	X(SINK, "sink", "the file, socket or listener failed") \
	X(DAMAGED, "damaged", "a writer left while holding a ring") \
	X(BLOCKED, "blocked", "no room came while the writer waited, or it could not wait")

enum rp_loss_reason {
#define X(name, text, why) RP_LOSS_##name,
	RP_LOSS_REASONS(X)
#undef X
	RP_LOSS_REASON_COUNT,
};

/* The reason's name, as in EventsLost events; NULL for an unknown one. */
RP_PUBLIC const char *rp_loss_reason_name(enum rp_loss_reason reason);

struct rp_session_stats {
	uint32_t size;
	int32_t error;			/* 0, or -errno of what ended the session */
	uint64_t delivered;		/* events handed to the sink and accepted */
	uint64_t lost;			/* the sum of lost_by */
	uint64_t lost_by[RP_LOSS_REASON_COUNT];
	uint64_t bytes;			/* written to the output */
	uint64_t memory_bytes;		/* held by rings and buffers now */
	uint64_t clamped;		/* events whose time was moved to keep the order */
	uint32_t rings;
	uint32_t reserved;
	uint64_t shortened;		/* delivered, the payload cut to what a file holds */
};

/*
 * Starts a session that streams nettrace to a file, pipe or socket. Everything in `options` is
 * copied. When this returns, every event the session wants is on, and provider callbacks have run
 * (called in a callback: but for those that another thread is about to run). After success the
 * session owns output_fd; on failure the caller still does.
 *
 * Context: any thread, not a signal handler; allocates, maps memory, opens the output.
 * Return: 0; -EINVAL for a provider without a name, a level above 5, no provider, a non-zero
 * unknown byte in an option struct, a name that is too long, or recover_path where the output is no
 * regular file; -EPERM: the directory for recovery is another user's, or others may write to it;
 * -ENOSPC, -EFBIG: no room for the rings there; -ENOSPC with RP_SESSIONS_MAX
 * sessions running; -EBUSY: another session writes to the file, or rolls these files; -ENOMEM; or
 * what open(2) said of the path.
 */
RP_PUBLIC int rp_session_start(const struct rp_session_options *options,
			       struct rp_session **ret_session);

/*
 * Ends the session: events off, everything written so far delivered, the output complete and
 * closed, all memory given back. The pointer is dead after this, whatever is returned.
 *
 * Context: any thread, not a signal handler, not a listener's or provider's callback on the drain
 * thread (-EDEADLK, session unchanged). Waits for the drain thread; a peer that takes nothing for
 * two seconds is given up, and one that reads slowly after ten. A rundown may take six seconds to
 * read symbols, which do not count.
 * Return: 0, also for NULL; or -errno of what ended the session early (-ENOSPC: disk full, -ENOENT:
 * file deleted, -EPIPE: peer gone, -ETIMEDOUT: peer does not read, -EBADF: the host closed the
 * session's descriptor). `ret_stats` may be NULL; set its size first.
 */
RP_PUBLIC int rp_session_stop(struct rp_session *session, struct rp_session_stats *ret_stats);

/*
 * Whether the calling thread waits for room in sessions that ask for it (block_ms). It does from
 * its start on. Where it must not be held up, turn that off: what then finds no room is lost.
 * Without being asked to, nobody waits
 *  - in a signal handler that interrupted a wait, or one that runs on the alternate signal stack
 *    (but not one with SS_AUTODISARM, which the kernel does not tell);
 *  - on a thread of the library's, such as that of a push listener.
 *
 * Context: any thread, any signal handler. A forked child's thread keeps what its parent's had.
 * Return: what it was before, 0 or 1.
 */
RP_PUBLIC int rp_thread_set_blocking(int blocking);

/*
 * The session's figures now. Set ret_stats->size before the call; it is filled up to that.
 * Context: any thread, not a signal handler.
 */
RP_PUBLIC int rp_session_get_stats(struct rp_session *session, struct rp_session_stats *ret_stats);

struct rp_snapshot_info {
	uint32_t size;
	uint32_t reserved;
	uint64_t from_ns, to_ns;	/* all events of this time are in it; CLOCK_MONOTONIC */
	uint64_t events;
	uint64_t lost;			/* by the session until now: busy, too-big, damaged */
	uint64_t bytes;
};

/*
 * Writes what a session with RP_SESSION_OVERWRITE has recorded as one complete nettrace, to a file
 * (made or overwritten), or with no path to a descriptor, which stays the caller's. Writers go on
 * meanwhile; the session does too. Every event written from `from_ns` to `to_ns`, which is a moment
 * in this call, is in it, but for what `lost` counts; older ones are where they were not
 * overwritten yet. The last event of provider `ringpipe` in it, `Snapshot`, tells the same two
 * times. If writers overwrite all of a ring faster than it can be copied, time and again, then both
 * times are the same.
 *
 * `ret_info` may be NULL; set its size first.
 *
 * Context: any thread, not a signal handler, not a callback on the drain thread (-EDEADLK); not
 * after rp_session_stop() was called. Blocks while the output is written; takes as much memory as
 * the session's rings hold meanwhile. rp_session_stop() waits for it; where a pipe or socket is
 * read slowly, for ten seconds at most.
 * Return: 0; -EINVAL for a session that does not overwrite; -EPIPE: the session has ended; -ENOMEM;
 * -EBUSY: a session writes to the file; what open(2) or write(2) said; -ETIMEDOUT: the reader of a
 * pipe or socket takes nothing.
 */
RP_PUBLIC int rp_session_snapshot(struct rp_session *session, const char *path, int fd,
				  struct rp_snapshot_info *ret_info);

/*
 * From now on the signal takes a snapshot of each session that overwrites then, whoever started it:
 * into a new file of mode 0600, named as `path` with a number before its extension, behind the last
 * that is there ("flight.nettrace" makes flight.000001.nettrace and so on). A relative path is one
 * from the working directory of now. What cannot be written is not there. Signals that come while
 * a snapshot is written lead to one more.
 *
 * The handler posts a semaphore and then calls the one that the program had, whose flags and mask
 * it takes over; where the signal was ignored, or had its default effect, that is all. A handler
 * that the program installs later takes its place, and may call it. In a forked child the signal is
 * as it was before, and the child may ask anew; there is one such signal in a process, for good.
 *
 * Context: any thread, not a signal handler; starts a thread.
 * Return: 0; -EINVAL: no path, no signal, or one that cannot be caught or comes of a fault
 * (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS); -EBUSY: there is one already, or the
 * program's handler is for one time (SA_RESETHAND); -ENOMEM; or what pthread_create(3) said.
 */
RP_PUBLIC int rp_snapshot_on_signal(int signal_number, const char *path);

/*
 * Reads a provider list as in RINGPIPE_CONFIG: name[:keywords[:level[:arguments]]],… with keywords
 * in hex (missing: 0 after a bare name is all ones, as is an empty field), level 0-5 or a name
 * (missing: 5), arguments k=v;k2=v2, quoted where they hold a comma.
 *
 * `ret_providers` is one allocation, strings included: free() it.
 *
 * Context: any thread; allocates.
 * Return: 0; -EINVAL, with `*ret_at` (unless NULL) the offset of the offending byte; -ENOMEM.
 */
RP_PUBLIC int rp_providers_parse(const char *text, struct rp_session_provider **ret_providers,
				 size_t *ret_count, size_t *ret_at);

/*
 * Reads one value out of a session's arguments: `key=value` pairs with ';' between them. What
 * stands in double quotes is taken as it is, the quotes left out. Of several pairs with that key
 * the last counts; the first '=' of a pair ends its key. `filter_data` may be NULL: no pairs.
 * `*ret_value` is for free().
 *
 * Context: any thread, not a signal handler; provider callbacks are fine.
 * Return: 0; -ENOENT without that key; -ENOMEM.
 */
RP_PUBLIC int rp_filter_data_get(const char *filter_data, const char *key, char **ret_value);

RP_END_DECLS

#endif
