/* SPDX-License-Identifier: MIT */
#include "notes.h"

int two(const void *address, size_t count);
int two(const void *address, size_t count)
{
	return fire_all(address, count) + notes_bare();
}
