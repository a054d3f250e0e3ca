/* SPDX-License-Identifier: MIT */
/*
 * Reads the memory of another process without waiting for that process. A read of memory that is
 * missing may wait for a file system in user space, or for the process itself (userfaultfd(2)).
 */
#ifndef RP_RECORD_BOUNDED_READ_H
#define RP_RECORD_BOUNDED_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Read the memory, in 250 ms at most. After a read took longer, further reads of the same process
 * fail as long as that read waits.
 *
 * Context: if Yama permits only an ancestor of the process to read its memory, this thread reads
 * it, and may wait for longer. Only a command that an ordinary user records is such a process.
 * Return: whether all bytes were read; `bytes` are undefined otherwise.
 */
bool rp_bounded_read(pid_t process, uint64_t address, void *bytes, size_t size);

#endif
