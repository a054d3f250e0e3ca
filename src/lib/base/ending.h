/* SPDX-License-Identifier: MIT */
/*
 * Signals of a process whose main thread called pthread_exit(3) and whose other threads have ended,
 * but for the library's. The library's threads block all signals, so that no handler of the host's
 * runs on them and sigwait(3) and signalfd(2) lose nothing; but with no other thread left, a signal
 * that was sent to the process would be pending for ever. Then, and only then, the library lets
 * those signals take effect whose action is the default.
 *
 * The thread that loaded the library has a key with a destructor. When that thread ends, which it
 * does before the process can be without threads of the host's, a thread is created that looks at
 * /proc/self/task from then on. A process whose loading thread lives has no such thread, and a
 * thread that looks alone lets the process end as it would without the library.
 */
#ifndef RP_BASE_ENDING_H
#define RP_BASE_ENDING_H

/* Context: the thread that loads the library. */
void rp_ending_init(void);

/* Call it in a forked child. Its only thread is now the host's. */
void rp_ending_fork_child(void);

#endif
