/* SPDX-License-Identifier: MIT */
/*
 * Payloads of Universal.System: integers are ULEB128, strings a u16 of bytes and UTF-8.
 *
 *	3  ProcessMapping	id, start, end (exclusive), file offset, file, id of the metadata
 *	4  ProcessSymbol	id, id of the mapping, start, end (inclusive), name
 */
#include "tool/places.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAPPING_ID 3u
#define SYMBOL_ID 4u

struct payload {
	const uint8_t *at, *end;
	bool failed;
};

static uint64_t get_number(struct payload *payload)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; payload->at < payload->end && shift < 64; shift += 7) {
		uint8_t byte = *payload->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	payload->failed = true;
	return 0;
}

static int get_text(struct payload *payload, char **ret_text)
{
	uint16_t length = 0;

	if (payload->end - payload->at >= 2)
		memcpy(&length, payload->at, sizeof(length));
	if (payload->failed || payload->end - payload->at < 2 + length)
		return -EBADMSG;
	*ret_text = strndup((const char *)payload->at + 2, length);
	return *ret_text ? 0 : -ENOMEM;
}

static int add(struct rp_places *places, struct rp_place place)
{
	if (places->count == places->room) {
		size_t room = places->room ? 2 * places->room : 64;
		struct rp_place *grown = realloc(places->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		places->rows = grown;
		places->room = room;
	}
	place.told = places->count;
	places->rows[places->count++] = place;
	return 0;
}

int rp_names_take(struct rp_names *names, const struct rp_reader_event *event)
{
	const uint8_t *bytes = event->payload;
	struct payload payload = { bytes, bytes + event->payload_bytes, false };
	bool is_mapping = event->type->id == MAPPING_ID;
	struct rp_place place;
	int ret;

	if ((!is_mapping && event->type->id != SYMBOL_ID) || event->type->field_count != 0 ||
	    strcmp(event->type->provider, "Universal.System") != 0)
		return 0;
	(void)get_number(&payload);
	if (!is_mapping)
		(void)get_number(&payload);
	place.start = get_number(&payload);
	place.end = get_number(&payload) - is_mapping;
	if (is_mapping)
		(void)get_number(&payload);
	ret = get_text(&payload, &place.name);
	if (ret != 0)
		return ret == -EBADMSG ? 0 : ret;
	ret = add(is_mapping ? &names->files : &names->functions, place);
	if (ret != 0)
		free(place.name);
	return ret;
}

static int compare(const void *a, const void *b)
{
	const struct rp_place *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->told > y->told ? -1 : 1;
}

static void sort(struct rp_places *places)
{
	if (places->count)
		qsort(places->rows, places->count, sizeof(*places->rows), compare);
}

void rp_names_sort(struct rp_names *names)
{
	sort(&names->functions);
	sort(&names->files);
}

static void fini(struct rp_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		free(places->rows[i].name);
	free(places->rows);
}

void rp_names_fini(struct rp_names *names)
{
	fini(&names->functions);
	fini(&names->files);
}

int rp_names_read(struct rp_names *names, const char *path)
{
	struct rp_reader_event event = { .size = sizeof(event) };
	struct rp_reader *reader;
	int ret = 0;

	if (rp_reader_open(path, &reader) != 0)
		return 0;
	while (ret == 0 && rp_reader_next(reader, &event) == 1)
		ret = rp_names_take(names, &event);
	rp_reader_close(reader);
	rp_names_sort(names);
	return ret;
}

const struct rp_place *rp_place_find(const struct rp_places *places, uint64_t address)
{
	size_t low = 0, high = places->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (places->rows[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && address <= places->rows[low - 1].end ? &places->rows[low - 1] : NULL;
}
