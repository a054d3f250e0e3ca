/* SPDX-License-Identifier: MIT */
#include "tools/trace/perf_features.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/perf_event.h>

#include "base/array.h"
#include "base/cursor.h"

#define COMMAND_BYTES_MAX 4096u
#define ARGUMENTS_MAX 1024u

/* The numbers of features. */
enum {
	BUILD_ID = 2,
	HOST_NAME = 3,
	OS_RELEASE = 4,
	ARCHITECTURE = 6,
	PROCESSORS = 7,
	COMMAND_LINE = 11,
	EVENT_DESCRIPTIONS = 12,
	CLOCK_DATA = 29,
};

#define BUILD_ID_HAS_SIZE (1u << 15)	/* in the misc of a build id */

/* A string is a u32 with the number of bytes that follow, and the bytes, with one NUL or more. */
static const char *take_string(struct rp_cursor *cursor)
{
	const uint8_t *text;
	uint32_t bytes;

	if (rp_cursor_u32(cursor, &bytes) || rp_cursor_take(cursor, bytes, &text) ||
	    !memchr(text, '\0', bytes)) {
		rp_cursor_fail(cursor);
		return NULL;
	}
	return (const char *)text;
}

int rp_perf_features_add_build_id(struct rp_perf_features *features, const uint8_t *bytes,
				  size_t size, uint16_t misc)
{
	struct rp_perf_build_id *grown;

	/* i32 process, 20 bytes of the id, its size and three bytes, the path */
	if (size < 4 + 24 + 2 || !memchr(bytes + 28, '\0', size - 28) ||
	    features->build_id_count == RP_PERF_BUILD_IDS_MAX)
		return 0;
	grown = rp_array_reserve(features->build_ids, features->build_id_count,
				 &features->build_id_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	features->build_ids = grown;
	grown += features->build_id_count++;
	*grown = (struct rp_perf_build_id){
		.path = (const char *)bytes + 28,
		.bytes = misc & BUILD_ID_HAS_SIZE && bytes[24] <= 20 ? bytes[24] : 20,
	};
	memcpy(grown->id, bytes + 4, sizeof(grown->id));
	return 0;
}

static int read_build_ids(struct rp_perf_features *features, const uint8_t *bytes, size_t size)
{
	int ret = 0;

	while (ret == 0 && size >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;

		memcpy(&header, bytes, sizeof(header));
		if (header.size < sizeof(header) || header.size > size)
			return 0;
		ret = rp_perf_features_add_build_id(features, bytes + sizeof(header),
						    header.size - sizeof(header), header.misc);
		bytes += header.size;
		size -= header.size;
	}
	return ret;
}

/* u32 arguments, and each as a string */
static int read_command(struct rp_perf_features *features, struct rp_cursor *cursor)
{
	const uint32_t count = rp_cursor_get_u32(cursor);
	size_t used = 0;
	char *command;

	if (features->command || count > ARGUMENTS_MAX)
		return 0;
	command = calloc(1, COMMAND_BYTES_MAX);
	if (!command)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const char *argument = take_string(cursor);
		const size_t length = argument ? strlen(argument) : COMMAND_BYTES_MAX;

		if (used + length + 2 > COMMAND_BYTES_MAX)
			break;
		if (i)
			command[used++] = ' ';
		memcpy(command + used, argument, length);
		used += length;
	}
	features->command = command;
	return 0;
}

/* u32 events, u32 bytes of attributes; each has its attributes, u32 ids, a string, the ids */
static int read_event_names(struct rp_perf_features *features, struct rp_cursor *cursor)
{
	const uint32_t count = rp_cursor_get_u32(cursor), attr_bytes = rp_cursor_get_u32(cursor);

	for (uint32_t i = 0; i < count && i < RP_PERF_EVENT_NAMES_MAX; i++) {
		const char *name, **grown;
		uint32_t ids;

		rp_cursor_skip(cursor, attr_bytes);
		ids = rp_cursor_get_u32(cursor);
		name = take_string(cursor);
		rp_cursor_skip(cursor, 8 * (size_t)ids);
		if (rp_cursor_failed(cursor))
			return 0;
		grown = rp_array_reserve(features->event_names, features->event_name_count,
					 &features->event_name_capacity, 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		features->event_names = grown;
		grown[features->event_name_count++] = name;
	}
	return 0;
}

/* u32 version, u32 clock, u64 time since 1970, u64 the same moment on the clock */
static void read_clock(struct rp_perf_features *features, struct rp_cursor *cursor)
{
	rp_cursor_skip(cursor, 8);
	features->utc_ns = rp_cursor_get_u64(cursor);
	features->clock_ns = rp_cursor_get_u64(cursor);
	features->has_clock = !rp_cursor_failed(cursor);
}

int rp_perf_features_read(struct rp_perf_features *features, uint64_t number, const uint8_t *bytes,
			  size_t size)
{
	struct rp_cursor cursor = rp_cursor_over(bytes, size);

	switch (number) {
	case BUILD_ID:
		return read_build_ids(features, bytes, size);
	case HOST_NAME:
		features->host = take_string(&cursor);
		return 0;
	case OS_RELEASE:
		features->release = take_string(&cursor);
		return 0;
	case ARCHITECTURE:
		features->machine = take_string(&cursor);
		return 0;
	case PROCESSORS:
		(void)rp_cursor_get_u32(&cursor);	/* those that may come online */
		features->processors = rp_cursor_get_u32(&cursor);
		return 0;
	case COMMAND_LINE:
		return read_command(features, &cursor);
	case EVENT_DESCRIPTIONS:
		return features->event_name_count ? 0 : read_event_names(features, &cursor);
	case CLOCK_DATA:
		read_clock(features, &cursor);
		return 0;
	default:
		return 0;
	}
}

void rp_perf_features_fini(struct rp_perf_features *features)
{
	free(features->build_ids);
	free(features->event_names);
	free(features->command);
}

const struct rp_perf_build_id *rp_perf_features_find(const struct rp_perf_features *features,
						     const char *path)
{
	for (size_t i = 0; i < features->build_id_count; i++) {
		if (strcmp(features->build_ids[i].path, path) == 0)
			return &features->build_ids[i];
	}
	return NULL;
}
