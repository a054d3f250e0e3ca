/* SPDX-License-Identifier: MIT */
#include "strict.h"

#include <string.h>

struct strict_writer *strict_writer_of(struct strict_result *result, uint64_t id)
{
	struct strict_writer *writer = result->writers;
	uint32_t count = result->writer_count;

	while (writer < result->writers + count && writer->id != id)
		writer++;
	if (writer < result->writers + count)
		return writer;
	if (count == STRICT_WRITERS_MAX)
		return NULL;
	result->writer_count++;
	*writer = (struct strict_writer){ .id = id };
	return writer;
}

uint64_t strict_lost(const struct strict_result *result, const char *reason)
{
	for (unsigned int i = 0; i < STRICT_REASONS; i++) {
		if (strcmp(strict_reasons[i], reason) == 0)
			return result->lost_by[i];
	}
	return UINT64_MAX;
}

uint64_t strict_missing(const struct strict_result *result)
{
	uint64_t missing = 0;

	for (uint32_t i = 0; i < result->writer_count; i++) {
		const struct strict_writer *writer = &result->writers[i];

		missing += writer->last - writer->first + 1 - writer->count;
	}
	return missing;
}
