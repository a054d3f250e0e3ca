/* SPDX-License-Identifier: MIT */
/*
 * The features of a perf.data: facts about the recording and its machine. A feature that is missing
 * or damaged leaves its members empty.
 *
 * Source: tools/perf/Documentation/perf.data-file-format.txt
 */
#ifndef RP_TOOL_PERF_FEATURES_H
#define RP_TOOL_PERF_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_PERF_BUILD_IDS_MAX 65536u
#define RP_PERF_EVENT_NAMES_MAX 1024u
#define RP_PERF_KERNEL "[kernel.kallsyms]"	/* the path of the kernel's build id */

struct rp_perf_build_id {
	const char *path;		/* with a NUL */
	uint8_t id[20];
	uint8_t bytes;
};

/* Texts are in the file and have a NUL, or are NULL. */
struct rp_perf_features {
	struct rp_perf_build_id *build_ids;
	size_t build_id_count, build_id_capacity;
	const char **event_names;	/* in the order of the file's events */
	size_t event_name_count, event_name_capacity;
	const char *host, *release, *machine;	/* "x86_64" is a machine */
	char *command;			/* of perf, with spaces between its arguments; or NULL */
	uint32_t processors;		/* online; 0: unknown */
	bool has_clock;
	uint64_t clock_ns;		/* a time on the clock of the records */
	uint64_t utc_ns;		/* the same moment since 1970 */
};

/* Read one feature, whose bytes must stay. Return: 0, also for an unknown feature; -ENOMEM. */
int rp_perf_features_read(struct rp_perf_features *features, uint64_t number, const uint8_t *bytes,
			  size_t size);

/* Read a build id, the payload of a record whose header has `misc`. Return: 0; -ENOMEM. */
int rp_perf_features_add_build_id(struct rp_perf_features *features, const uint8_t *bytes,
				  size_t size, uint16_t misc);
void rp_perf_features_fini(struct rp_perf_features *features);

/* Return: the build id of the file at `path`, or NULL. */
const struct rp_perf_build_id *rp_perf_features_find(const struct rp_perf_features *features,
						     const char *path);

#endif
