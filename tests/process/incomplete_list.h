/* SPDX-License-Identifier: MIT */
#ifndef PROCESS_INCOMPLETE_LIST_H
#define PROCESS_INCOMPLETE_LIST_H

/*
 * Let the next list of this process's threads lack those of the host, as the kernel's can if a
 * thread that it has already listed ends. `end_thread` ends such a thread; it is called when
 * SIGTERM is pending.
 */
void incomplete_list_begin(void (*end_thread)(void));

#endif
