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

#define RP_EVENT_FILTER_SIZE_V1 RP_SIZE_THROUGH_(struct rp_event_filter, id_count)
#define RP_EVENT_FILTER_INIT RP_INIT_(struct rp_event_filter)

/*
 * One provider that a session wants. Level 0 and keywords 0 mean every event, as in a struct that
 * was only initialised. In RINGPIPE_CONFIG and in .NET's protocol, keywords 0 mean the events
 * without keywords; RP_SESSION_PROVIDER_EXACT asks for that meaning here.
 */
struct rp_session_provider {
	uint32_t size;			/* of several, the same in each */
	uint8_t level;			/* events of level 0 and of 1 to this; 0: of every level */
	uint8_t flags;			/* enum rp_session_provider_flags */
	uint8_t reserved[2];
	const char *name;		/* "*": every provider, those to come included */
	uint64_t keywords;		/* events with one of these or with none; 0: every event */
	const char *filter_data;	/* arguments for the provider's callback, or NULL */
	const struct rp_event_filter *filter;	/* or NULL */
};

#define RP_SESSION_PROVIDER_SIZE_V1 RP_SIZE_THROUGH_(struct rp_session_provider, filter)
#define RP_SESSION_PROVIDER_INIT RP_INIT_(struct rp_session_provider)

enum rp_session_provider_flags {
	RP_SESSION_PROVIDER_EXACT = 1,	/* keywords 0: only events without keywords */
};

enum rp_session_flags {
	RP_SESSION_STACKS = 1,		/* capture the writer's stack with each event */
	RP_SESSION_CAUSAL = 2,		/* fence each timestamp: order between threads is causal */
	/*
	 * Leaves out the rundown, which records the mappings and, at the end of the session, the
	 * names of the functions in the stacks.
	 */
	RP_SESSION_NO_RUNDOWN = 4,
	/*
	 * A flight recorder: new events overwrite the oldest, and rp_session_snapshot() writes the
	 * recorded events. If the session has an output, the events at its end are written there;
	 * without one, they are discarded. Overwritten events do not count as
	 * lost: a snapshot has the time from which on it is complete. The buffer has at least
	 * RP_SESSION_OVERWRITE_MIN bytes, and block_ms is 0. Not for listeners.
	 *
	 * State events (RP_STATE_EVENT) have an eighth of the buffer and are never overwritten.
	 * When a ring of theirs is full, further state events are lost and counted. An overwriting
	 * session counts as two of RP_SESSIONS_MAX.
	 */
	RP_SESSION_OVERWRITE = 8,
	/*
	 * Timestamps events with a clock that the drain thread advances every millisecond, unless
	 * its output stalls or it gets no CPU. This makes events cheaper. The events of a thread
	 * keep their order, and so do those on one processor. Events of different processors within
	 * one step may be in another order. Writers without restartable sequences read the exact
	 * clock nevertheless. The stream begins with an event `CoarseTime` of provider `ringpipe`.
	 * Not with RP_SESSION_CAUSAL, recover_path or roll_bytes.
	 */
	RP_SESSION_COARSE = 16,
};

struct rp_session_options {
	uint32_t size;
	uint32_t flags;			/* enum rp_session_flags */
	const char *name;		/* for listings; NULL: "session" */
	/*
	 * The limit for all rings, and from 16 MB on for the sink's memory, too; 0: 64 MB. From
	 * 16 MB on, any mix of writers and sizes fills four fifths of it before the first loss
	 * (doc/architecture.md, "Memory").
	 */
	size_t buffer_bytes;
	const struct rp_session_provider *providers;
	size_t provider_count;
	const char *output_path;	/* a file to make or overwrite, or NULL */
	/*
	 * With no path: a socket, pipe or file, open for writing. 0 or less: none. Give a copy of
	 * descriptor 0, by dup(2), to write there.
	 */
	int output_fd;
	/*
	 * The longest time that a writer waits for space, in milliseconds; 0: it does not wait. If
	 * the wait times out, the event is lost, and so are further events without a wait, until
	 * the drain thread frees space: a stalled output delays each thread once.
	 */
	uint32_t block_ms;
	/*
	 * The directory in which the session creates another one for its rings, so that
	 * `ringpipe recover` can complete the output after the process was killed or the output
	 * failed (then the directory stays). "": /dev/shm/ringpipe-UID; NULL: rings are in memory.
	 * Created if it is missing. The output must be a regular file. An overwriting session may
	 * have none; its recovered trace is the same as a snapshot.
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
	 * If the current file is deleted, the session continues with the next one. If the disk is
	 * full, the oldest file is removed; if there is only one, the session ends. Not with
	 * recover_path, RP_SESSION_OVERWRITE, or a listener.
	 */
	uint64_t roll_bytes;
};

#define RP_SESSION_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_session_options, roll_bytes)
#define RP_SESSION_OPTIONS_INIT RP_INIT_(struct rp_session_options)

/* Why events were lost. One list gives the enum, the names and the texts. */
#define RP_LOSS_REASONS(X) \
	X(FULL, "full", "no buffer had space for the processor's events") \
	X(TOO_BIG, "too-big", "the payload exceeded 64 KB or the ring") \
	X(BUSY, "busy", "every fallback ring was held by another writer") \
	X(SINK, "sink", "the file, socket or listener failed") \
	X(DAMAGED, "damaged", "a writer left while holding a ring") \
	X(BLOCKED, "blocked", "no space became free while the writer waited, or it could not wait") \
	X(FULL_FALLBACK, "full-fallback", "no buffer had space for the fallback's events")

enum rp_loss_reason {
#define X(name, text, why) RP_LOSS_##name,
	RP_LOSS_REASONS(X)
#undef X
	RP_LOSS_REASON_COUNT,
};

/* Later versions have further reasons, up to this number. */
#define RP_LOSS_REASONS_MAX 24u

/* Return a reason's name, as in EventsLost events; NULL for an unknown one. Context: any. */
RP_PUBLIC const char *rp_loss_reason_name(enum rp_loss_reason reason);

struct rp_session_stats {
	uint32_t size;
	int32_t error;			/* 0, or -errno of what ended the session */
	uint64_t delivered;		/* events that the kernel, or a listener's reader, took */
	uint64_t lost;			/* the sum of lost_by */
	uint64_t bytes;			/* written to the output */
	uint64_t memory_bytes;		/* held by rings and buffers now */
	uint64_t clamped;		/* events whose time was moved to keep the order */
	uint32_t rings;
	uint32_t reserved;
	uint64_t shortened;		/* delivered, the payload cut to what a file holds */
	uint64_t lost_by[RP_LOSS_REASONS_MAX];	/* by enum rp_loss_reason */
	uint64_t skipped;		/* events that their limit left out: RP_EVENT_EX */
};

#define RP_SESSION_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_session_stats, lost_by)
#define RP_SESSION_STATS_INIT RP_INIT_(struct rp_session_stats)

/*
 * Start a session that streams nettrace to a file, pipe or socket. Everything in `options` is
 * copied. When this returns, every event the session wants is on, and provider callbacks have run
 * (called in a callback: but for those that another thread is about to run). After success the
 * session owns output_fd; on failure the caller still does.
 *
 * Context: any thread, not a signal handler; allocates, maps memory, opens the output.
 * Return: 0; -EINVAL for a provider without a name, a level above 5, no provider, no output, a
 * struct that types.h does not permit, a name that is too long, or recover_path where the output is
 * no regular file; -EBADF: output_fd is closed, or not open for writing; -EPERM: the directory for
 * recovery is another user's, or others may write to it; -ENOSPC, -EFBIG: no room for the rings
 * there; -ENOSPC with RP_SESSIONS_MAX sessions running; -EBUSY: another session writes to the file,
 * or rolls these files; -ENOMEM; -EPERM, -ENOSYS: a filter refuses the system call that
 * rp_error_call() names; or what open(2) said of the path.
 */
RP_PUBLIC int rp_session_start(const struct rp_session_options *options,
			       struct rp_session **ret_session);

/*
 * End the session. This disables its events, delivers all that were written, completes and closes
 * the output, and frees all memory. The pointer is invalid afterwards, unless the result is
 * -EDEADLK or -EINVAL.
 *
 * Context: any thread, not a signal handler, not a listener's or provider's callback on the drain
 * thread (-EDEADLK, session unchanged). Waits for the drain thread: two
 * seconds for a peer that reads nothing, ten for a slow one. A rundown may take another six seconds
 * to read symbols.
 * Return: 0, also for NULL; or -errno of the failure that ended the session early (-ENOSPC: disk
 * full, -ENOENT: file deleted, -ESTALE: file cut from outside, -EPIPE: peer closed, -ETIMEDOUT:
 * peer does not read, -EBADF: the host closed the session's descriptor); -EINVAL: the size of
 * `ret_stats`, which may be NULL, is too small, and the session is unchanged.
 */
RP_PUBLIC int rp_session_stop(struct rp_session *session, struct rp_session_stats *ret_stats);

/*
 * Hand every event written before this call to the kernel: in every session of this process,
 * whoever started it, write(2) or send(2) has taken the event when the function returns 0. Call it
 * before _exit(2), before execve(2), or in the handler of a fatal signal; exit(3) and
 * rp_session_stop() do it by themselves.
 *
 * `timeout_ms`: how long to wait at most; -1: without a limit.
 *
 * The events of other threads count if the caller knows that they were written, by a join, a lock
 * or a message. A file then holds whole events, but no end: readers report that it was cut. These
 * sessions have no part in it:
 *  - a listener: its callback may still have to see the events;
 *  - a session with RP_SESSION_OVERWRITE: its events stay in memory until a snapshot, or in files
 *    with recover_path;
 *  - a session whose output has failed: its events are lost and counted.
 *
 * Context: any thread, any callback, any signal handler: takes no lock, allocates nothing, leaves
 * errno alone. The drain thread does the work, so the function cannot succeed while that thread
 * waits for the caller: a handler that interrupted another call of this library times out.
 * Return: 0, also where no session was started, and in a forked child, which has none; -ETIMEDOUT:
 * a pipe, socket or disk takes nothing, or the drain thread cannot run: what was possible has been
 * delivered; -EDEADLK: called on the drain thread, by a provider's callback there.
 */
RP_PUBLIC int rp_sessions_flush(int timeout_ms);

/*
 * Set whether the calling thread waits for space in sessions with block_ms. By default it does. If
 * it does not, events without space are lost. A writer never waits
 *  - in a signal handler that interrupted a wait, or that runs on the alternate signal stack
 *    (except with SS_AUTODISARM, which the library cannot see);
 *  - on a thread of the library, such as that of a push listener.
 *
 * Context: any thread, any signal handler. The thread of a forked child inherits the setting.
 * Return: the previous setting, 0 or 1.
 */
RP_PUBLIC int rp_thread_set_blocking(int blocking);

/*
 * Return the session's current stats.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EINVAL: NULL, or the size of `ret_stats` is too small.
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

#define RP_SNAPSHOT_INFO_SIZE_V1 RP_SIZE_THROUGH_(struct rp_snapshot_info, bytes)
#define RP_SNAPSHOT_INFO_INIT RP_INIT_(struct rp_snapshot_info)

/*
 * Write what a session with RP_SESSION_OVERWRITE has recorded as one complete nettrace. It goes to
 * a file (created or overwritten), or with no path to a descriptor, which the caller still owns.
 * Writers go on meanwhile; the session does too. Every event written from `from_ns` to `to_ns`,
 * which is a moment during this call, is in it, except those that `lost` counts. Older events are
 * in it if they were not overwritten yet. Its last event of provider `ringpipe`, `Snapshot`, has
 * the same two times. Both times are equal if writers repeatedly overwrite a whole ring faster than
 * it can be copied.
 *
 * `ret_info` may be NULL.
 *
 * Context: any thread, not a signal handler, not a callback on the drain thread (-EDEADLK); not
 * after rp_session_stop() was called. Raises neither SIGPIPE nor SIGXFSZ: a reader that is gone is
 * -EPIPE, a file beyond RLIMIT_FSIZE is -EFBIG. Blocks while the output is written; takes as much
 * memory as the session's rings hold meanwhile. rp_session_stop() waits for it, but at most ten
 * seconds for a slow pipe or socket.
 * Return: 0; -EINVAL for a session that does not overwrite, or the size of `ret_info` is too small;
 * -EPIPE: the session has ended; -ENOMEM;
 * -EBADF: the descriptor is closed, or not open for writing; -EBUSY: a session writes to the file;
 * errors of open(2) and write(2); -ETIMEDOUT: the reader of a pipe or socket reads nothing.
 */
RP_PUBLIC int rp_session_snapshot(struct rp_session *session, const char *path, int fd,
				  struct rp_snapshot_info *ret_info);

/*
 * Make a signal take a snapshot of each overwriting session of the process. Each snapshot is a new
 * file of mode 0600. Its name is `path` with the next free number before the extension
 * ("flight.nettrace" becomes flight.000001.nettrace and so on). A relative path is relative to the
 * current working directory. A snapshot that cannot be written leaves no file. Signals during a
 * snapshot cause one more.
 *
 * The handler posts a semaphore and then calls the program's previous handler, whose flags and mask
 * it keeps. If the signal was ignored or had its default action, it does nothing else. A handler
 * that the program installs later replaces it, and may call it. In a forked child the signal has
 * its previous action, and the child may call this function again. A process has one such signal
 * and cannot change it.
 *
 * Context: any thread, not a signal handler; starts a thread.
 * Return: 0; -EINVAL: no path, no signal, or one that cannot be caught or reports a fault
 * (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS); -EBUSY: there is one already, or the
 * program's handler has SA_RESETHAND; -ENOMEM; errors of pthread_create(3).
 */
RP_PUBLIC int rp_snapshot_on_signal(int signal_number, const char *path);

/*
 * Parse a provider list as in RINGPIPE_CONFIG. Its entries are separated by commas:
 *
 *	name[:keywords[:level[:arguments]]]
 *
 *  - keywords in hexadecimal; missing or empty: all;
 *  - a level from 0 to 5, or its name; missing or empty: 5;
 *  - arguments k=v;k2=v2, in double quotes where they contain a comma.
 *
 * The providers have the flag RP_SESSION_PROVIDER_EXACT. `ret_providers` is one allocation, strings
 * included: free() it.
 *
 * Context: any thread; allocates.
 * Return: 0; -EINVAL, with `*ret_at` (unless NULL) the offset of the offending byte; -ENOMEM.
 */
RP_PUBLIC int rp_providers_parse(const char *text, struct rp_session_provider **ret_providers,
				 size_t *ret_count, size_t *ret_at);

/*
 * Read one value from a session's arguments: `key=value` pairs separated by ';'. Text in double
 * quotes is taken literally, without the quotes. If a key occurs more than once, the last counts.
 * The first '=' of a pair ends its key. `filter_data` may be NULL. Free `*ret_value` with free(3).
 *
 * Context: any thread, not a signal handler; also in provider callbacks.
 * Return: 0; -ENOENT without that key; -ENOMEM.
 */
RP_PUBLIC int rp_filter_data_get(const char *filter_data, const char *key, char **ret_value);

RP_END_DECLS

#endif
