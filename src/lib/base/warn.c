/* SPDX-License-Identifier: MIT */
#include "base/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/shield.h"

void rp_warn(const char *format, ...)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
}
