/* SPDX-License-Identifier: MIT */
/*
 * For programs that restrict themselves after their start, by seccomp(2), chroot(2) or setuid(2).
 * doc/security.md lists the system calls that ringpipe makes before and after rp_prepare().
 */
#ifndef RINGPIPE_PREPARE_H
#define RINGPIPE_PREPARE_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

enum rp_prepare_what {
	RP_PREPARE_SESSIONS = 1,	/* the drain thread */
	RP_PREPARE_STACKS = 2,		/* the module that names the functions of stacks */
	RP_PREPARE_SAMPLES = 4,		/* the sampler's thread */
	RP_PREPARE_COUNTERS = 8,	/* the counters' thread */
	RP_PREPARE_STATIC_KEYS = 16,	/* find out whether code can be changed */
};

struct rp_prepare_options {
	uint32_t size;
	uint32_t what;			/* enum rp_prepare_what; 0: everything */
};

#define RP_PREPARE_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_prepare_options, what)
#define RP_PREPARE_OPTIONS_INIT RP_INIT_(struct rp_prepare_options)

/*
 * Prepare what sessions need later: threads, which run when this returns, the modules that are
 * loaded with dlopen(3), and the permission to change code. The library then creates none of it
 * after a filter of system calls, in another root directory, or as another user. The loading of the
 * library has registered for membarrier(2) and opened the diagnostics ports already. The program
 * itself calls rp_lttng_start(), rp_tracers_watch() and rp_snapshot_on_signal() before it restricts
 * itself.
 *
 * A thread takes its part in what setuid(2) and seccomp(2) with SECCOMP_FILTER_FLAG_TSYNC change.
 * Afterwards these still use the file system of the root directory of then:
 *  - the output, and recover_path: give a path there, or an open output_fd;
 *  - /proc, for samples, recover_path, roll_bytes and the counters of memory and threads: without
 *    it there are none;
 *  - the files of the loaded objects, for names of functions: without them addresses stay unnamed.
 *
 * `options` may be NULL: everything. A second call prepares what the first one did not. A forked
 * child calls it anew.
 *
 * Context: any thread, not a signal handler, not a constructor of a library; allocates, starts
 * threads, loads a library, blocks until the threads run.
 * Return: 0; -EINVAL: a size or a bit that is not known; -ENOENT: the module that names functions
 * is not installed; or what pthread_create(3) returned. The function prepares the rest of what was
 * asked for in any case.
 */
RP_PUBLIC int rp_prepare(const struct rp_prepare_options *options);

/*
 * Name the system call that failed, by its function in libc: of the calling thread's last
 * rp_session_start(), rp_session_snapshot(), rp_listener_start(), rp_triggers_start() or
 * rp_prepare(). When that function returned -EPERM or -ENOSYS, a filter refuses
 * this call.
 *
 * Context: any thread, not a signal handler.
 * Return: a string that is not freed; NULL: it succeeded, or no system call was the cause.
 */
RP_PUBLIC const char *rp_error_call(void);

RP_END_DECLS

#endif
