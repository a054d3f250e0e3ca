/* SPDX-License-Identifier: MIT */
#include "probes.h"

int library_fires(uint32_t number)
{
	return probes_shared(number);
}

int library_enabled(void)
{
	return probes_shared_enabled();
}
