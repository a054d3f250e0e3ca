/* SPDX-License-Identifier: MIT */
/*
 * Preparation for programs that restrict themselves after their start with seccomp(2), chroot(2) or
 * setuid(2). doc/security.md lists the system calls that ringpipe makes before and after
 * rp_prepare().
 */
#ifndef RINGPIPE_PREPARE_H
#define RINGPIPE_PREPARE_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

enum rp_prepare_what {
	RP_PREPARE_SESSIONS = 1,	/* the drain thread */
	RP_PREPARE_STACKS = 2,		/* the module that names the functions of stacks */
	RP_PREPARE_SAMPLES = 4,		/* the thread of the sampler */
	RP_PREPARE_COUNTERS = 8,	/* the thread for counters */
	RP_PREPARE_STATIC_KEYS = 16,	/* the test whether code can be changed */
};

struct rp_prepare_options {
	uint32_t size;
	uint32_t what;			/* enum rp_prepare_what; 0: everything */
};

#define RP_PREPARE_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_prepare_options, what)
#define RP_PREPARE_OPTIONS_INIT RP_INIT_(struct rp_prepare_options)

/*
 * Prepare what sessions need later. This includes threads, modules that dlopen(3) loads, and the
 * permission to change code. The library then creates none of these after the program has set a
 * filter of system calls, changed its root directory or changed its user. Loading the library has
 * already registered for membarrier(2) and opened the diagnostics ports. Before the program
 * restricts itself, it also has to call rp_lttng_start(), rp_tracers_watch() and
 * rp_snapshot_on_signal() if it uses them.
 *
 * A later setuid(2), or seccomp(2) with SECCOMP_FILTER_FLAG_TSYNC, also applies to the prepared
 * threads.
 * After chroot(2), the following still use the file system, below the new root directory:
 *  - the output and recover_path: specify paths that exist there, or an open output_fd;
 *  - /proc, for samples, recover_path, roll_bytes, and the counters of memory and threads, none of
 *    which work without it;
 *  - the files of the loaded objects, for names of functions: without these files, addresses have
 *    no names.
 *
 * `options` may be NULL, which means everything. A second call prepares what the first call did
 * not. A forked child has to call the function again. The library opens the ports of a child 100 ms
 * after the fork, and the function waits until they are open, for 3 seconds at most. It does not
 * wait if the program runs the diagnostics server itself: then rp_diagnostics_fd() opens the ports.
 * With RP_DIAGNOSTICS_ON_DEMAND, the function opens the ports and starts the thread that serves
 * clients, whatever `options` says.
 *
 * Context: any thread, not a signal handler, not a constructor of a library; allocates, starts
 * threads, loads a library, blocks until the threads run.
 * Return: 0; -EINVAL if the size of `options` is invalid or a bit is unknown; -ENOENT if the module
 * that names functions is not installed; or the error of pthread_create(3). If one part fails, the
 * function still prepares the others.
 */
RP_PUBLIC int rp_prepare(const struct rp_prepare_options *options);

/*
 * Name the system call whose failure made a function of the library fail. That function is the
 * last one of rp_session_start(), rp_session_snapshot(), rp_listener_start(), rp_triggers_start()
 * and rp_prepare() that the calling thread called. If it returned -EPERM or -ENOSYS, a seccomp
 * filter usually refuses the system call.
 *
 * Context: any thread, not a signal handler.
 * Return: the name of the system call's function in libc, which the caller must not free; NULL if
 * that function of the library succeeded, or failed for another reason.
 */
RP_PUBLIC const char *rp_error_call(void);

RP_END_DECLS

#endif
