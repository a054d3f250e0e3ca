/* SPDX-License-Identifier: MIT */
/* Names of this architecture's system calls, from libseccomp. */
#ifndef RP_RECORD_SYSCALL_NAMES_H
#define RP_RECORD_SYSCALL_NAMES_H

#include <stdint.h>

/* Return: the name; the digits of a number without one. Valid until the next call. */
const char *rp_syscall_name(uint64_t number);

#endif
