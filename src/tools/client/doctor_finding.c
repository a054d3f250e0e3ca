/* SPDX-License-Identifier: MIT */
#include "tools/client/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void rp_finding_set(struct rp_finding *ret_finding, enum rp_check_state state, const char *fix,
		    const char *format, ...)
{
	va_list arguments;

	ret_finding->state = state;
	ret_finding->fix = fix;
	va_start(arguments, format);
	vsnprintf(ret_finding->found, sizeof(ret_finding->found), format, arguments);
	va_end(arguments);
}
