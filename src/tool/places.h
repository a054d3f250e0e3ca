/* SPDX-License-Identifier: MIT */
/* Names of addresses, as a trace tells them by its events of provider Universal.System. */
#ifndef RP_TOOL_PLACES_H
#define RP_TOOL_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

/* What lies from start to end, the end inclusive. Of those with one start the first told counts. */
struct rp_place {
	uint64_t start, end;
	size_t told;			/* how many were told before */
	char *name;
};

struct rp_places {
	struct rp_place *rows;		/* by start, once rp_names_sort() was called */
	size_t count, room;
};

struct rp_names {
	struct rp_places functions;
	struct rp_places files;
};

/* Takes the event if it is one that names. Return: 0; -ENOMEM. What is damaged is left out. */
int rp_names_take(struct rp_names *names, const struct rp_reader_event *event);
/* After the last event, before the first rp_place_find(). */
void rp_names_sort(struct rp_names *names);
/* Both for the file at `path`, as far as it is whole. */
int rp_names_read(struct rp_names *names, const char *path);
void rp_names_fini(struct rp_names *names);

/* NULL: nothing is told of the address. */
const struct rp_place *rp_place_find(const struct rp_places *places, uint64_t address);

#endif
