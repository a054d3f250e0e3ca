/* SPDX-License-Identifier: MIT */
/*
 * The methods whose code the .NET runtime generated, from the events that report them: when code is
 * generated (MethodLoadVerbose), and at the start or the end of a session (MethodDCStartVerbose,
 * MethodDCEndVerbose).
 *
 * Source: "Method events" of the .NET runtime, in the documentation of .NET.
 */
#ifndef RP_TOOL_DOTNET_METHOD_H
#define RP_TOOL_DOTNET_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

struct rp_dotnet_method {
	uint64_t start, last;		/* of its code; both are inclusive */
	char *name;			/* with namespace, class and arguments; for free() */
};

/* Return: whether events of the type report a method. */
bool rp_dotnet_is_method(const struct rp_reader_type *type);

/* Read the method in an event. Return: 0; -EBADMSG: the payload is damaged; -ENOMEM. */
int rp_dotnet_method_read(const struct rp_reader_event *event, struct rp_dotnet_method *ret_method);

#endif
