/* SPDX-License-Identifier: MIT */
/* Names of the .NET runtime's own events, whose descriptions in a trace have none. */
#ifndef RP_TOOL_DOTNET_H
#define RP_TOOL_DOTNET_H

#include <ringpipe/reader.h>

/* Return: the name of an event of this provider, id and version; "" when it is not known. */
const char *rp_dotnet_event_name(const struct rp_reader_type *type);

#endif
