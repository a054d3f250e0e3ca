/* SPDX-License-Identifier: MIT */
/* The .NET runtime, which may live in the same process. */
#ifndef RP_HOST_RUNTIME_H
#define RP_HOST_RUNTIME_H

#include <stdbool.h>

/*
 * Whether a .NET runtime is in this process, or the program is one that will load it: `dotnet`, or
 * what `dotnet build` and `dotnet publish` make, single files included.
 */
bool rp_runtime_is_dotnet(void);

#endif
