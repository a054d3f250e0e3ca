/* SPDX-License-Identifier: MIT */
/* A session selects events of providers and delivers them to an output. */
#ifndef RINGPIPE_SESSION_H
#define RINGPIPE_SESSION_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_session;

#define RP_SESSIONS_MAX 40u
#define RP_SESSION_BUFFER_MIN (1u << 20)
#define RP_SESSION_OVERWRITE_MIN (8u << 20)
#define RP_SESSION_ROLL_MIN (8u << 20)

/* Selects events of a provider by id. Without a filter, a session wants all ids. */
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
 * One provider that a session wants. Level 0 and keywords 0 mean every event, as in a newly
 * initialised struct. In RINGPIPE_CONFIG and in .NET's protocol, keywords 0 mean the events
 * without keywords; here RP_SESSION_PROVIDER_EXACT requests that meaning.
 */
struct rp_session_provider {
	uint32_t size;			/* the same in all structs of an array */
	uint8_t level;			/* events of level 0 and of 1 to `level`; 0: every level */
	uint8_t flags;			/* enum rp_session_provider_flags */
	uint8_t reserved[2];
	const char *name;		/* "*": every provider, including later ones */
	uint64_t keywords;		/* events that share a bit or have none; 0: every event */
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
	RP_SESSION_CAUSAL = 2,		/* fence each timestamp, for causal order between threads */
	/*
	 * Omits the rundown, which records the mappings and, at the end of the session, the names
	 * of the functions in the stacks.
	 */
	RP_SESSION_NO_RUNDOWN = 4,
	/*
	 * Makes the session a flight recorder: new events overwrite the oldest, and
	 * rp_session_snapshot() writes the recorded events. At its end, the session writes the
	 * recorded events to its output; without an output, it discards them. Overwritten events do
	 * not count as lost: each snapshot states the time from which on it is complete. The buffer
	 * has at least RP_SESSION_OVERWRITE_MIN bytes, and block_ms is 0. Not for listeners.
	 *
	 * State events (RP_STATE_EVENT) have an eighth of the buffer and are never overwritten. If
	 * their rings are full, further state events are lost and counted. An overwriting session
	 * counts as two of RP_SESSIONS_MAX.
	 */
	RP_SESSION_OVERWRITE = 8,
	/*
	 * Timestamps events with a clock that the drain thread advances every millisecond, unless
	 * its output stalls or the thread gets no CPU. Events become cheaper. The events of a
	 * thread keep their order, and so do those on one processor. Events that different
	 * processors write within one step may be out of order. Writers without restartable
	 * sequences still read the exact clock. The stream begins with an event `CoarseTime` of
	 * provider `ringpipe`. Not with RP_SESSION_CAUSAL, recover_path or roll_bytes.
	 */
	RP_SESSION_COARSE = 16,
};

struct rp_session_options {
	uint32_t size;
	uint32_t flags;			/* enum rp_session_flags */
	const char *name;		/* shown in lists; NULL: "session" */
	/*
	 * The limit for the memory of all rings and of the sink, at least RP_SESSION_BUFFER_MIN;
	 * 0: 64 MB. Before the first loss, events of any sizes fill four fifths of a limit of at
	 * least 64 MB and 8 MB per processor. Large events leave more of a smaller limit unused,
	 * because each event is in one buffer (doc/architecture.md, "Memory"). With two processors,
	 * the worst sizes fill at least 75 % of 32 MB, 65 % of 16 MB, 50 % of 4 MB, 40 % of 2 MB
	 * and 25 % of 1 MB; events of up to 4 KB fill 80 % of 16 MB, 75 % of 4 MB, 60 % of 2 MB and
	 * 40 % of 1 MB.
	 */
	size_t buffer_bytes;
	const struct rp_session_provider *providers;
	size_t provider_count;
	const char *output_path;	/* a file to create or overwrite, or NULL */
	/*
	 * Without output_path: a socket, pipe or file that is open for writing. 0 or less: none. To
	 * write to descriptor 0, pass a copy of it from dup(2).
	 */
	int output_fd;
	/*
	 * The longest time that a writer waits for space, in milliseconds; 0: it does not wait. The
	 * time runs on while the process is stopped, as by SIGSTOP. If the wait times out, the
	 * event is lost. Further events are then lost without a wait until the drain thread frees
	 * space, so a stalled output delays each thread once.
	 */
	uint32_t block_ms;
	/*
	 * The directory in which the session creates its own directory for its rings. If the
	 * process is killed or the output fails, that directory remains, and `ringpipe recover`
	 * completes the output from it. "": /dev/shm/ringpipe-UID; NULL: the rings are in memory
	 * only. The session creates recover_path if it is missing. The output must be a regular
	 * file. An overwriting session may have no output; its recovered trace is the same as a
	 * snapshot.
	 */
	const char *recover_path;
	/*
	 * For a session that is always on: a quota in bytes, at least RP_SESSION_ROLL_MIN; 0: one
	 * file without a limit. The session writes a sequence of files. Each is a complete nettrace
	 * of about an eighth of the quota, with a number before its extension: "trace.nettrace"
	 * becomes trace.000001.nettrace and so on. Each event is in one file. The session deletes
	 * the oldest files, including those of earlier processes with the same output_path, so that
	 * all files together stay below the quota. With stacks, names of functions may exceed the
	 * quota.
	 *
	 * If the current file is deleted, the session continues with the next one. If the disk is
	 * full, the session deletes the oldest file; if there is only one, the session ends. Not
	 * with recover_path, RP_SESSION_OVERWRITE, or a listener.
	 */
	uint64_t roll_bytes;
	/*
	 * The version of nettrace that the output and snapshots have: 4, which every tool reads; or
	 * 6, which also has trace ids and span ids; 0: 4.
	 */
	uint32_t format;
	uint32_t reserved;
};

#define RP_SESSION_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_session_options, roll_bytes)
#define RP_SESSION_OPTIONS_INIT RP_INIT_(struct rp_session_options)

/* Reasons for lost events. This list defines the enum, the names and the descriptions. */
#define RP_LOSS_REASONS(X) \
	X(FULL, "full", "no buffer had space for the processor's events") \
	X(TOO_BIG, "too-big", "the payload exceeded 64 KB or the ring") \
	X(BUSY, "busy", "every fallback ring was held by another writer") \
	X(SINK, "sink", "the file, socket or listener failed") \
	X(DAMAGED, "damaged", "a writer left while holding a ring") \
	X(BLOCKED, "blocked", "no space became free while a writer waited, or it could not wait") \
	X(FULL_FALLBACK, "full-fallback", "no buffer had space for the fallback's events")

enum rp_loss_reason {
#define X(name, text, why) RP_LOSS_##name,
	RP_LOSS_REASONS(X)
#undef X
	RP_LOSS_REASON_COUNT,
};

/* Maximum number of reasons in later versions. */
#define RP_LOSS_REASONS_MAX 24u

/*
 * Return the name of a reason, as EventsLost events contain it.
 * @reason: an index of `lost_by`.
 *
 * Context: any.
 * Return: the name, a constant; NULL for an unknown reason.
 */
RP_PUBLIC const char *rp_loss_reason_name(enum rp_loss_reason reason);

struct rp_session_stats {
	uint32_t size;
	int32_t error;			/* 0, or -errno of the failure that ended the session */
	uint64_t delivered;		/* events that the kernel or a listener accepted */
	uint64_t lost;			/* the sum of lost_by */
	uint64_t bytes;			/* written to the output */
	uint64_t memory_bytes;		/* current memory of rings and buffers */
	uint64_t clamped;		/* events whose time was adjusted to keep the order */
	uint32_t rings;
	uint32_t reserved;
	uint64_t shortened;		/* delivered with a payload cut to the limit of a file */
	uint64_t lost_by[RP_LOSS_REASONS_MAX];	/* by enum rp_loss_reason */
	uint64_t skipped;		/* events that exceeded their limit: RP_EVENT_EX */
};

#define RP_SESSION_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_session_stats, lost_by)
#define RP_SESSION_STATS_INIT RP_INIT_(struct rp_session_stats)

/*
 * Start a session that streams nettrace to a file, pipe or socket. The function copies everything
 * in `options`. When it returns, every event that the session wants is enabled, and the callbacks
 * of the providers have run. (If a provider's callback calls it, other threads may still have to
 * run some of them.) On success the session owns output_fd. On failure the caller still owns it,
 * and the function leaves no new file at output_path.
 *
 * Context: any thread, not a signal handler; allocates, maps memory, opens the output.
 * Return: 0; -EINVAL if a provider has no name, a level is above 5, there is no provider or no
 * output, options exclude each other or are below their minimum, the size of a struct is invalid
 * (types.h), a name is too long, or recover_path is set and the output is not a regular file;
 * -EBADF if output_fd is closed, or not open for writing; -EPERM if the directory for recovery
 * belongs to another user, or others may write to it; -ENOSPC, -EFBIG if there is no space for the
 * rings in that directory; -ENOSPC if RP_SESSIONS_MAX sessions are running; -EBUSY if another
 * session writes to the file, or rolls these files; -ENOMEM if an allocation fails; -ENOENT if
 * recover_path or roll_bytes is set and /proc is not mounted; -EPERM, -ENOSYS if a filter refuses
 * the system call that rp_error_call() names; or an error of open(2) for the path.
 */
RP_PUBLIC int rp_session_start(const struct rp_session_options *options,
			       struct rp_session **ret_session);

/*
 * Stop a session. The function disables the session's events, delivers all events that were
 * written, completes and closes the output, and frees all memory. If a failure ended the session
 * early, the function returns the error of that failure. The pointer is invalid afterwards, unless
 * the result is -EDEADLK or -EINVAL, which leave the session unchanged.
 *
 * Context: any thread, not a signal handler, not a listener's or provider's callback on the drain
 * thread. Waits for the drain thread: two seconds for a peer that reads nothing, ten seconds for a
 * slow peer. After the process was stopped meanwhile, as by SIGSTOP, the two seconds begin again. A
 * rundown may take another six seconds to read symbols.
 * Return: 0, also for NULL; -EDEADLK if called on the drain thread; -EINVAL if the size of
 * `ret_stats`, which may be NULL, is too small; -ENOSPC if the disk was full; -ENOENT if the file
 * was deleted; -ESTALE if another program truncated the file; -EPIPE if the peer closed the
 * connection; -ETIMEDOUT if the peer did not read; -EBADF if the program closed the session's
 * descriptor.
 */
RP_PUBLIC int rp_session_stop(struct rp_session *session, struct rp_session_stats *ret_stats);

/*
 * Hand every event written before this call to the kernel. When the function returns 0, write(2) or
 * send(2) has accepted these events in every session of this process, including those that its
 * environment or a client started. Call it before _exit(2) or execve(2), or in the handler of a
 * fatal signal. exit(3) and rp_session_stop() need no such call.
 *
 * `timeout_ms` is the longest time to wait, in milliseconds; -1: without a limit.
 *
 * The function covers events of other threads if a join, a lock or a message orders them before
 * this call. The file then contains complete events but no end mark: readers report that it was
 * cut. The function does not cover these sessions:
 *  - a listener: its callback may still have to receive the events;
 *  - a session with RP_SESSION_OVERWRITE: its events stay in memory until a snapshot, or in files
 *    with recover_path;
 *  - a session whose output has failed: its events are lost and counted.
 *
 * Context: any thread, any callback, any signal handler. Takes no lock, does not allocate,
 * preserves errno. The drain thread does the work, so the function cannot succeed while that thread
 * waits for the caller: it times out in a handler that interrupted another call of this library.
 * Return: 0, also if no session was started, and in a forked child, which has no session;
 * -ETIMEDOUT if a pipe, socket or disk accepts nothing, or the drain thread cannot run (as many
 * events as possible were then delivered); -EDEADLK if called on the drain thread, by a provider's
 * callback.
 */
RP_PUBLIC int rp_sessions_flush(int timeout_ms);

/*
 * Set whether the calling thread waits for space in sessions with block_ms. By default it waits. If
 * it does not wait, events without space are lost. A writer never waits
 *  - in a signal handler that interrupted a wait, or that runs on the alternate signal stack
 *    (except with SS_AUTODISARM, which the library cannot detect);
 *  - on a thread of the library, such as that of a push listener.
 * @blocking: 1: the thread waits; 0: it does not.
 *
 * Context: any thread, any signal handler. The thread of a forked child inherits the setting.
 * Return: the previous setting, 0 or 1.
 */
RP_PUBLIC int rp_thread_set_blocking(int blocking);

/*
 * Return the session's current statistics. The counts of losses grow, except RP_LOSS_DAMAGED and
 * `lost`: while a signal handler that interrupted a write computes, they include its event.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EINVAL if a pointer is NULL or the size of `ret_stats` is too small.
 */
RP_PUBLIC int rp_session_get_stats(struct rp_session *session, struct rp_session_stats *ret_stats);

struct rp_snapshot_info {
	uint32_t size;
	uint32_t reserved;
	uint64_t from_ns, to_ns;	/* the snapshot is complete here; CLOCK_MONOTONIC */
	uint64_t events;
	uint64_t lost;			/* lost by the session so far: busy, too-big, damaged */
	uint64_t bytes;
};

#define RP_SNAPSHOT_INFO_SIZE_V1 RP_SIZE_THROUGH_(struct rp_snapshot_info, bytes)
#define RP_SNAPSHOT_INFO_INIT RP_INIT_(struct rp_snapshot_info)

/*
 * Write the recorded events of a session with RP_SESSION_OVERWRITE. The output is one complete
 * nettrace, in the file `path`, which is created or overwritten, or without a path in the
 * descriptor `fd`, which the caller still owns. Meanwhile writers and the session continue. The
 * snapshot contains every event written from `from_ns` to `to_ns`, except the events that `lost`
 * counts. `to_ns` is a time during this call. The snapshot also contains older events that were not
 * overwritten yet. Its last event of provider `ringpipe`, `Snapshot`, has the same two times. Both
 * times are equal if writers repeatedly overwrite a whole ring faster than the function can copy
 * it.
 *
 * `ret_info` may be NULL.
 * @path: the file, or NULL.
 * @fd: with no path, a descriptor that is open for writing.
 *
 * Context: any thread, not a signal handler, not a callback on the drain thread; not after
 * rp_session_stop() was called. Raises neither SIGPIPE nor SIGXFSZ. Blocks while the output is
 * written, and needs as much memory as the session's rings have. rp_session_stop() waits for it,
 * but at most ten seconds for a slow pipe or socket.
 * Return: 0; -EINVAL if the session does not overwrite or the size of `ret_info` is too small;
 * -EPIPE if the session has ended, or the reader of the output is gone; -ENOMEM if an allocation
 * fails; -EBADF if the descriptor is closed, or not open for writing; -EBUSY if a session writes to
 * the file; -EFBIG if the file exceeds RLIMIT_FSIZE; -ETIMEDOUT if the reader of a pipe or socket
 * reads nothing; -EDEADLK if called on the drain thread; or an error of open(2) or write(2).
 */
RP_PUBLIC int rp_session_snapshot(struct rp_session *session, const char *path, int fd,
				  struct rp_snapshot_info *ret_info);

/*
 * Make a signal take a snapshot of each overwriting session of the process. Each snapshot is a new
 * file of mode 0600. Its name is `path` with the next free number before the extension
 * ("flight.nettrace" becomes flight.000001.nettrace and so on). A relative path is resolved in the
 * current working directory of this call. A snapshot that cannot be written leaves no file. All
 * signals that arrive during a snapshot cause one more snapshot.
 *
 * The handler posts a semaphore and then calls the program's previous handler, whose flags and mask
 * it keeps. If the signal was ignored or had its default action, the handler only posts the
 * semaphore. If the program installs a handler later, that handler replaces this one, and may call
 * it. In a forked child the signal has its previous action, and the child may call this function
 * again. A process has one such signal and cannot change it.
 * @signal_number: the signal, such as SIGUSR2.
 *
 * Context: any thread, not a signal handler; starts a thread.
 * Return: 0; -EINVAL if there is no path, the signal does not exist or cannot be caught, or the
 * signal reports a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS); -EBUSY if the
 * process already has such a signal, or the program's handler has SA_RESETHAND; -ENOMEM if an
 * allocation fails; or an error of pthread_create(3).
 */
RP_PUBLIC int rp_snapshot_on_signal(int signal_number, const char *path);

/*
 * Parse a provider list as in RINGPIPE_CONFIG. Commas separate its entries:
 *
 *	name[:keywords[:level[:arguments]]]
 *
 *  - keywords in hexadecimal; missing or empty: all;
 *  - a level from 0 to 5, or its name; missing or empty: 5;
 *  - arguments k=v;k2=v2, in double quotes if they contain a comma.
 *
 * The resulting providers have the flag RP_SESSION_PROVIDER_EXACT. `*ret_providers` is one
 * allocation that includes the strings; release it with free(3).
 * @text: the list, which ends with a NUL.
 * @ret_count: the number of providers.
 *
 * Context: any thread; allocates.
 * Return: 0; -EINVAL if the list is invalid, and `*ret_at` (unless `ret_at` is NULL) is then the
 * offset of the invalid byte; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_providers_parse(const char *text, struct rp_session_provider **ret_providers,
				 size_t *ret_count, size_t *ret_at);

/*
 * Read one value from a session's arguments. The arguments are `key=value` pairs separated by ';'.
 * Text in double quotes is taken literally, without the quotes. The first '=' of a pair ends its
 * key. If a key occurs more than once, the last pair applies. `filter_data` may be NULL. Release
 * `*ret_value` with free(3).
 *
 * Context: any thread, not a signal handler; also in provider callbacks.
 * Return: 0; -ENOENT if the key does not occur; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_filter_data_get(const char *filter_data, const char *key, char **ret_value);

RP_END_DECLS

#endif
