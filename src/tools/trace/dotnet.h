/* SPDX-License-Identifier: MIT */
/* Names for the events of the .NET runtime, which traces describe without names. */
#ifndef RP_TOOL_DOTNET_H
#define RP_TOOL_DOTNET_H

#include <ringpipe/reader.h>

/* Return: the event's name by provider, id and version; "" if it is unknown. */
const char *rp_dotnet_event_name(const struct rp_reader_type *type);

#endif
