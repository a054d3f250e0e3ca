/* SPDX-License-Identifier: MIT */
#include "tools/formats/string_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

#define SLOTS_MIN 256u

/* Return: the slot of the text, or the empty one where it belongs. */
static uint32_t *slot_of(const struct rp_string_table *table, const char *text)
{
	const size_t mask = table->slot_count - 1;
	const uint64_t hash = rp_hash_text(RP_HASH_BEGIN, text);
	size_t at = (hash ^ hash >> 32) & mask;

	while (table->slots[at] && strcmp(table->texts[table->slots[at] - 1], text) != 0)
		at = (at + 1) & mask;
	return &table->slots[at];
}

static int grow_slots(struct rp_string_table *table)
{
	const size_t slot_count = table->slot_count ? 2 * table->slot_count : SLOTS_MIN;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(table->slots);
	table->slots = slots;
	table->slot_count = slot_count;
	for (size_t i = 0; i < table->count; i++)
		*slot_of(table, table->texts[i]) = (uint32_t)i + 1;
	return 0;
}

int rp_string_table_add(struct rp_string_table *table, const char *text, uint32_t *ret_number)
{
	uint32_t *slot;
	char **grown;

	if (2 * table->count >= table->slot_count && grow_slots(table) < 0)
		return -ENOMEM;
	slot = slot_of(table, text);
	if (*slot) {
		*ret_number = *slot - 1;
		return 0;
	}
	grown = table->count >= UINT32_MAX - 1 ? NULL :
		rp_array_reserve(table->texts, table->count, &table->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	table->texts = grown;
	grown[table->count] = strdup(text);
	if (!grown[table->count])
		return -ENOMEM;
	table->bytes += strlen(text) + 1;
	*ret_number = (uint32_t)table->count++;
	*slot = *ret_number + 1;
	return 0;
}

bool rp_string_table_find(const struct rp_string_table *table, const char *text,
			  uint32_t *ret_number)
{
	const uint32_t *slot = table->slot_count ? slot_of(table, text) : NULL;

	if (!slot || !*slot)
		return false;
	*ret_number = *slot - 1;
	return true;
}

void rp_string_table_fini(struct rp_string_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->texts[i]);
	free(table->texts);
	free(table->slots);
	*table = (struct rp_string_table){ 0 };
}
