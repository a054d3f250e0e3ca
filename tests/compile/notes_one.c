/* SPDX-License-Identifier: MIT */
#include "notes.h"

#ifdef __cplusplus
extern "C"
#endif
int one(const void *address, size_t count);
int one(const void *address, size_t count)
{
	return fire_all(address, count) + fire_all(NULL, 1);
}
