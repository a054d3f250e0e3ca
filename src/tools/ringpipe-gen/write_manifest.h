/* SPDX-License-Identifier: MIT */
#ifndef RP_TOOL_WRITE_MANIFEST_H
#define RP_TOOL_WRITE_MANIFEST_H

#include <stdio.h>

#include "tools/ringpipe-gen/binary_events.h"

/*
 * Write an ETW manifest of the events. `source` is the name of their file without its folder.
 * Return: 0; -ENOMEM.
 */
int rp_write_manifest(FILE *out, const struct rp_binary_events *events, const char *source);

#endif
