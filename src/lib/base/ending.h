/* SPDX-License-Identifier: MIT */
/*
 * Handles signals of a process whose main thread called pthread_exit(3) and whose other threads
 * have ended, except for the library's. The library's threads block all signals, so that they run
 * no handler of the host and sigwait(3) and signalfd(2) miss nothing. But without any other thread,
 * a signal sent to the process would stay pending for ever. Only in that state does the library
 * unblock the signals whose action is the default.
 *
 * The thread that loaded the library has a thread-specific key with a destructor. The destructor
 * runs when that thread ends, which precedes the state described. It creates a thread that checks
 * /proc/self/task at intervals. While the loading thread lives, no such thread exists. When the
 * checking thread is the last one, it ends, and the process ends as it would without the library.
 */
#ifndef RP_BASE_ENDING_H
#define RP_BASE_ENDING_H

/* Context: the thread that loads the library. */
void rp_ending_init(void);

/* Call in a forked child, whose only thread is a thread of the host. */
void rp_ending_fork_child(void);

#endif
