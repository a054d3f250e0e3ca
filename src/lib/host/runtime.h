/* SPDX-License-Identifier: MIT */
/* Detects a .NET runtime in the same process. */
#ifndef RP_HOST_RUNTIME_H
#define RP_HOST_RUNTIME_H

#include <stdbool.h>

/*
 * Return: whether this process contains a .NET runtime, or the program will load one: `dotnet`, or
 * a program from `dotnet build` or `dotnet publish`, single files included.
 */
bool rp_runtime_is_dotnet(void);

/*
 * Map a page that marks this process as one with .NET's diagnostics socket. Recorders of the whole
 * machine (one-collect, which is in dotnet-trace collect-linux) look for an executable mapping of a
 * memfd named "doublemapper", as the .NET runtime has for its code, and request user_events only in
 * such processes. The page is empty. A second call does nothing; a forked child has the mapping.
 *
 * Context: the default diagnostics port listens, since a recorder that sees the mapping connects.
 * If the kernel refuses the mapping, such recorders do not find the process.
 */
void rp_runtime_mark_process(void);

#endif
