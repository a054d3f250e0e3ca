/* SPDX-License-Identifier: MIT */
/* The events that an executable or shared library declares, as plain data. */
#ifndef RP_TOOL_BINARY_EVENTS_H
#define RP_TOOL_BINARY_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "tools/ringpipe-gen/elf_image.h"

/* A declared event. Its texts are in the image. */
struct rp_binary_event {
	const char *provider, *name;
	const char *provider_symbol;	/* in the source code; NULL: the event has no probe */
	const char *message;		/* or NULL */
	uint64_t keywords;
	struct rp_field *fields;
	uint16_t field_count;
	uint16_t id;
	uint8_t version, level, opcode;
	uint8_t flags;			/* enum rp_event_flags */
};

struct rp_binary_events {
	struct rp_elf_image image;
	struct rp_binary_event *events;	/* sorted by provider, id and version */
	size_t count;
};

/*
 * Read the events of a file. Return: 0; -errno, after an error line. rp_binary_events_free() is
 * necessary in both cases.
 */
int rp_binary_events_read(struct rp_binary_events *events, const char *path);
void rp_binary_events_free(struct rp_binary_events *events);

#endif
