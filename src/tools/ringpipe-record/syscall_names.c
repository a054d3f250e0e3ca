/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/syscall_names.h"

#include <inttypes.h>
#include <stdio.h>

#ifdef RP_HAVE_SECCOMP
#include <seccomp.h>
#endif

const char *rp_syscall_name(uint64_t number)
{
	static char digits[24];
#ifdef RP_HAVE_SECCOMP
	static char *names[1024];

	if (number < sizeof(names) / sizeof(names[0])) {
		if (!names[number])
			names[number] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE,
									 (int)number);
		if (names[number])
			return names[number];
	}
#endif
	snprintf(digits, sizeof(digits), "%" PRIu64, number);
	return digits;
}
