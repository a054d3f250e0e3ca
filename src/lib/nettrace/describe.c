/* SPDX-License-Identifier: MIT */
/* metadata.c says what a blob looks like. */
#include "base/utf.h"
#include "nettrace/describe.h"

#include <stdbool.h>
#include <stdlib.h>

#include "nettrace/format.h"

#define CHUNK_BYTES 16384u

struct rp_arena_chunk {
	struct rp_arena_chunk *next;
	size_t used, capacity;
	_Alignas(16) uint8_t bytes[];
};

static const struct {
	uint8_t type, bytes;
} known_types[] = {
	[RP_WIRE_STRUCT] = { RP_TYPE_STRUCT, 0 },
	[RP_WIRE_BOOL32] = { RP_TYPE_BOOL, 4 },
	[RP_WIRE_CHAR16] = { RP_TYPE_CHAR, 2 },
	[RP_WIRE_I8] = { RP_TYPE_I8, 1 },
	[RP_WIRE_U8] = { RP_TYPE_U8, 1 },
	[RP_WIRE_I16] = { RP_TYPE_I16, 2 },
	[RP_WIRE_U16] = { RP_TYPE_U16, 2 },
	[RP_WIRE_I32] = { RP_TYPE_I32, 4 },
	[RP_WIRE_U32] = { RP_TYPE_U32, 4 },
	[RP_WIRE_I64] = { RP_TYPE_I64, 8 },
	[RP_WIRE_U64] = { RP_TYPE_U64, 8 },
	[RP_WIRE_F32] = { RP_TYPE_F32, 4 },
	[RP_WIRE_F64] = { RP_TYPE_F64, 8 },
	[RP_WIRE_DECIMAL] = { RP_TYPE_NONE, 16 },
	[RP_WIRE_TIME] = { RP_TYPE_TIME, 8 },
	[RP_WIRE_GUID] = { RP_TYPE_GUID, 16 },
	[RP_WIRE_STRING16] = { RP_TYPE_STRING16, 0 },
	[RP_WIRE_ARRAY] = { RP_TYPE_ARRAY, 0 },
};

static void *arena_alloc(struct rp_type_table *table, size_t size)
{
	struct rp_arena_chunk *chunk = table->chunks;
	size_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
	void *bytes;

	size = (size + 15) & ~(size_t)15;
	if (!chunk || chunk->capacity - chunk->used < size) {
		capacity = (capacity + 15) & ~(size_t)15;
		chunk = malloc(sizeof(*chunk) + capacity);
		if (!chunk)
			return NULL;
		chunk->next = table->chunks;
		chunk->used = 0;
		chunk->capacity = capacity;
		table->chunks = chunk;
	}
	bytes = chunk->bytes + chunk->used;
	chunk->used += size;
	return memset(bytes, 0, size);
}

static int take_name(struct rp_type_table *table, struct rp_cursor *c, const char **ret_name)
{
	const uint8_t *text;
	size_t units, size;
	char *name;

	if (rp_cursor_string16(c, &text, &units) < 0)
		return -EBADMSG;
	/* A unit needs three bytes at most. */
	name = arena_alloc(table, 3 * units + 1);
	if (!name)
		return -ENOMEM;
	size = rp_utf8_from_utf16(text, units, name);
	name[size] = 0;
	*ret_name = name;
	return 0;
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count);

/* The least a value takes; arrays of what may take nothing could claim to be endless. */
static uint64_t least_bytes(uint8_t type, uint8_t wire_bytes, const struct rp_reader_field *members,
			    uint16_t member_count)
{
	uint64_t sum = 0;

	if (type == RP_TYPE_STRING16 || type == RP_TYPE_ARRAY)
		return 2;
	if (type != RP_TYPE_STRUCT)
		return wire_bytes;
	for (uint16_t i = 0; i < member_count && !sum; i++)
		sum += least_bytes(members[i].type, members[i].wire_bytes, members[i].members,
				   members[i].member_count);
	return sum;
}

static int take_code(struct rp_cursor *c, uint8_t *ret_type, uint8_t *ret_bytes)
{
	uint32_t code;

	if (rp_cursor_u32(c, &code) < 0)
		return -EBADMSG;
	if (code >= sizeof(known_types) / sizeof(*known_types) ||
	    (!known_types[code].type && !known_types[code].bytes))
		return -EBADMSG;
	*ret_type = known_types[code].type;
	*ret_bytes = known_types[code].bytes;
	return 0;
}

static int take_type(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		     struct rp_reader_field *field)
{
	uint8_t value;
	int ret = take_code(c, &field->type, &field->wire_bytes);

	if (ret < 0)
		return ret;
	value = field->type;
	if (value == RP_TYPE_ARRAY) {
		if (!v2 || take_code(c, &field->element, &field->wire_bytes) < 0)
			return -EBADMSG;
		value = field->element;
		if (value == RP_TYPE_ARRAY)
			return -EBADMSG;
	}
	if (value == RP_TYPE_STRUCT) {
		ret = take_fields(table, c, v2, depth + 1, &field->members, &field->member_count);
		if (ret < 0)
			return ret;
	}
	if (field->type == RP_TYPE_ARRAY &&
	    !least_bytes(value, field->wire_bytes, field->members, field->member_count))
		return -EBADMSG;
	return 0;
}

static int take_field(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		      struct rp_reader_field *field)
{
	struct rp_cursor sub;
	uint32_t size;
	int ret;

	if (!v2) {
		ret = take_type(table, c, v2, depth, field);
		return ret < 0 ? ret : take_name(table, c, &field->name);
	}
	if (rp_cursor_u32(c, &size) < 0 || size < 4 || rp_cursor_sub(c, size - 4, &sub) < 0)
		return -EBADMSG;
	ret = take_name(table, &sub, &field->name);
	return ret < 0 ? ret : take_type(table, &sub, v2, depth, field);
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count)
{
	struct rp_reader_field *fields;
	uint32_t count;
	int ret;

	/* A field takes at least a code and an empty name, in V2 also its size. */
	if (depth > RP_STRUCT_DEPTH_MAX || rp_cursor_u32(c, &count) < 0 ||
	    count > rp_cursor_left(c) / (v2 ? 10 : 6) || count > UINT16_MAX)
		return -EBADMSG;
	fields = arena_alloc(table, count * sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		ret = take_field(table, c, v2, depth, &fields[i]);
		if (ret < 0)
			return ret;
	}
	*ret_fields = fields;
	*ret_count = count;
	return 0;
}

static int take_tag(struct rp_type_table *table, struct rp_cursor *c, struct rp_reader_type *type)
{
	const struct rp_reader_field *fields;
	struct rp_cursor data;
	const uint8_t *kind;
	uint32_t size;
	uint16_t count;
	int ret;

	if (rp_cursor_u32(c, &size) < 0 || rp_cursor_take(c, 1, &kind) < 0 ||
	    rp_cursor_sub(c, size, &data) < 0)
		return -EBADMSG;
	if (*kind == RP_METADATA_OPCODE && data.at < data.end) {
		type->opcode = *data.at;
	} else if (*kind == RP_METADATA_FIELDS_V2) {
		ret = take_fields(table, &data, true, 0, &fields, &count);
		if (ret == -ENOMEM)
			return ret;
		type->fields = ret ? NULL : fields;
		type->field_count = ret ? 0 : count;
	}
	return 0;
}

/* Where the list of V1 fields is damaged, the tags cannot be found either. */
static int take_description(struct rp_type_table *table, struct rp_cursor *c,
			    struct rp_reader_type *type)
{
	const struct rp_reader_field *fields;
	uint16_t count;
	int ret = 0;

	if (c->at == c->end)
		return 0;
	ret = take_fields(table, c, false, 0, &fields, &count);
	if (!ret) {
		type->fields = fields;
		type->field_count = count;
	}
	while (!ret && c->at < c->end)
		ret = take_tag(table, c, type);
	return ret == -ENOMEM ? ret : 0;
}

static int take_header(struct rp_type_table *table, struct rp_cursor *c,
		       struct rp_reader_type *type)
{
	int ret;

	if (rp_cursor_u32(c, &type->metadata_id) < 0)
		return -EBADMSG;
	ret = take_name(table, c, &type->provider);
	if (ret < 0 || rp_cursor_u32(c, &type->id) < 0)
		return ret < 0 ? ret : -EBADMSG;
	ret = take_name(table, c, &type->name);
	if (ret < 0)
		return ret;
	if (rp_cursor_u64(c, &type->keywords) < 0 || rp_cursor_u32(c, &type->version) < 0 ||
	    rp_cursor_u32(c, &type->level) < 0)
		return -EBADMSG;
	return 0;
}

static size_t slot_of(struct rp_reader_type **slots, size_t capacity, uint32_t metadata_id)
{
	size_t at = metadata_id * 0x9e3779b1u & (capacity - 1);

	while (slots[at] && slots[at]->metadata_id != metadata_id)
		at = (at + 1) & (capacity - 1);
	return at;
}

struct rp_reader_type *rp_type_table_find(const struct rp_type_table *table, uint32_t metadata_id)
{
	if (!table->capacity)
		return NULL;
	return table->slots[slot_of(table->slots, table->capacity, metadata_id)];
}

static int grow(struct rp_type_table *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : 64;
	struct rp_reader_type **slots;

	if (2 * (table->count + 1) <= table->capacity)
		return 0;
	slots = calloc(capacity, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++)
		if (table->slots[i])
			slots[slot_of(slots, capacity, table->slots[i]->metadata_id)] =
				table->slots[i];
	free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int rp_type_table_add(struct rp_type_table *table, struct rp_cursor blob)
{
	struct rp_reader_type *type = arena_alloc(table, sizeof(*type));
	int ret;

	if (!type || grow(table) < 0)
		return -ENOMEM;
	ret = take_header(table, &blob, type);
	if (!ret)
		ret = take_description(table, &blob, type);
	if (ret < 0)
		return ret;
	if (rp_type_table_find(table, type->metadata_id))
		return -EEXIST;
	table->slots[slot_of(table->slots, table->capacity, type->metadata_id)] = type;
	table->count++;
	return 0;
}

void rp_type_table_fini(struct rp_type_table *table)
{
	while (table->chunks) {
		struct rp_arena_chunk *next = table->chunks->next;

		free(table->chunks);
		table->chunks = next;
	}
	free(table->slots);
	memset(table, 0, sizeof(*table));
}
