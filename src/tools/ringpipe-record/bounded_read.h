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
 * Read the memory, in a thread that is left behind if the read takes longer than 250 ms. As long as
 * such a thread waits, further reads of the same process fail. For one thread at a time.
 *
 * Return: whether all bytes were read; `bytes` stay untouched otherwise.
 */
bool rp_bounded_read(pid_t process, uint64_t address, void *bytes, size_t size);

#endif
