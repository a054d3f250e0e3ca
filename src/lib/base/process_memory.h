/* SPDX-License-Identifier: MIT */
/* Reads the memory of another process, which may end or unmap it at any time. */
#ifndef RP_BASE_PROCESS_MEMORY_H
#define RP_BASE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Return: whether all bytes were read. */
static inline bool rp_process_memory_read(pid_t process, uint64_t address, void *bytes,
					  size_t size)
{
	const struct iovec local = { .iov_base = bytes, .iov_len = size };
	const struct iovec remote = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };

	return process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

#endif
