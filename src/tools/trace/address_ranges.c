/* SPDX-License-Identifier: MIT */
#include "tools/trace/address_ranges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/trace/system_event.h"

static int add(struct rp_address_ranges *ranges, struct rp_address_range range)
{
	struct rp_address_range *grown;

	grown = rp_array_reserve(ranges->rows, ranges->count, &ranges->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	ranges->rows = grown;
	range.reported = ranges->count;
	ranges->rows[ranges->count++] = range;
	return 0;
}

int rp_names_take(struct rp_names *names, const struct rp_reader_event *event)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	bool is_mapping = event->type->id == RP_SYSTEM_MAPPING;
	struct rp_address_range range;
	int ret;

	if ((!is_mapping && event->type->id != RP_SYSTEM_FUNCTION) ||
	    event->type->field_count != 0 || !rp_system_is_event(event))
		return 0;
	(void)rp_system_take_number(&payload);
	if (!is_mapping)
		(void)rp_system_take_number(&payload);
	range.start = rp_system_take_number(&payload);
	range.end = rp_system_take_number(&payload) - is_mapping;
	if (is_mapping)
		(void)rp_system_take_number(&payload);
	range.name = rp_system_take_text(&payload);
	if (!range.name)
		return rp_cursor_failed(&payload) ? 0 : -ENOMEM;
	ret = add(is_mapping ? &names->files : &names->functions, range);
	if (ret != 0)
		free(range.name);
	return ret;
}

bool rp_address_range_is_generated(const char *function)
{
	static const char ending[] = "_write_";
	const size_t ending_length = sizeof(ending) - 1;
	size_t length = strcspn(function, ".(");

	/* _ZL16shop_order_write_m: a static function; its name has 16 bytes. */
	if (!strncmp(function, "_ZL", 3)) {
		char *name;
		const unsigned long name_length = strtoul(function + 3, &name, 10);

		length = strnlen(name, name_length < 1024 ? name_length : 0);
		function = name;
	}
	return length > ending_length &&
	       !memcmp(function + length - ending_length, ending, ending_length);
}

static int compare(const void *a, const void *b)
{
	const struct rp_address_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->reported > y->reported ? -1 : 1;
}

static void sort(struct rp_address_ranges *ranges)
{
	if (ranges->count)
		qsort(ranges->rows, ranges->count, sizeof(*ranges->rows), compare);
}

void rp_names_sort(struct rp_names *names)
{
	sort(&names->functions);
	sort(&names->files);
}

static void fini(struct rp_address_ranges *ranges)
{
	for (size_t i = 0; i < ranges->count; i++)
		free(ranges->rows[i].name);
	free(ranges->rows);
}

void rp_names_fini(struct rp_names *names)
{
	fini(&names->functions);
	fini(&names->files);
}

int rp_names_read(struct rp_names *names, const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
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

const struct rp_address_range *rp_address_range_find(const struct rp_address_ranges *ranges,
						     uint64_t address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->rows[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && address <= ranges->rows[low - 1].end ? &ranges->rows[low - 1] : NULL;
}
