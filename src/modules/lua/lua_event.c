/* SPDX-License-Identifier: MIT */
/*
 * Events: dynamic events of ringpipe, whose fields have names and types. A trace describes them, so
 * every reader decodes them.
 *
 * A value is checked only if the event is written. A string ends at its first NUL in a field of
 * type "string"; type "bytes" keeps all bytes.
 */
#include "modules/lua/lua_module.h"
#include "modules/lua/lua_stack.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define ARRAY_SUFFIX "[]"
/* Bytes of all scalars and counts of an event, and its parts: two for a string or an array. */
#define SCALARS_MAX (RP_FIELDS_MAX * sizeof(struct rp_guid))
#define PARTS_MAX (RP_FIELDS_MAX * 2)

struct lua_field_type {
	const char *name;
	enum rp_type type;
	uint8_t size_bytes;
	bool is_signed;
};

/* By enum rp_type. Types that Lua cannot use have no name. */
static const struct lua_field_type types[] = {
	[RP_TYPE_BOOL] = { "bool", RP_TYPE_BOOL, 1, false },
	[RP_TYPE_I8] = { "i8", RP_TYPE_I8, 1, true },
	[RP_TYPE_U8] = { "u8", RP_TYPE_U8, 1, false },
	[RP_TYPE_I16] = { "i16", RP_TYPE_I16, 2, true },
	[RP_TYPE_U16] = { "u16", RP_TYPE_U16, 2, false },
	[RP_TYPE_I32] = { "i32", RP_TYPE_I32, 4, true },
	[RP_TYPE_U32] = { "u32", RP_TYPE_U32, 4, false },
	[RP_TYPE_I64] = { "i64", RP_TYPE_I64, 8, true },
	[RP_TYPE_U64] = { "u64", RP_TYPE_U64, 8, false },
	[RP_TYPE_F32] = { "f32", RP_TYPE_F32, 4, true },
	[RP_TYPE_F64] = { "f64", RP_TYPE_F64, 8, true },
	[RP_TYPE_TIME] = { "time", RP_TYPE_TIME, 8, true },
	[RP_TYPE_STRING] = { "string", RP_TYPE_STRING, 0, false },
};

/* A payload while it is gathered. */
struct lua_payload {
	uint8_t scalars[SCALARS_MAX];
	size_t used;
	struct rp_part parts[PARTS_MAX];
	unsigned int part_count;
};

static const struct lua_field_type *find_type(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (types[i].name && strlen(types[i].name) == length &&
		    memcmp(types[i].name, name, length) == 0)
			return &types[i];
	}
	return NULL;
}

static const struct lua_field_type *type_of(uint8_t type)
{
	return type < sizeof(types) / sizeof(types[0]) && types[type].name ? &types[type] : NULL;
}

/* Set the type of a field from its text. Return: whether it is one. */
static bool parse_type(const char *text, struct rp_field *ret_field)
{
	size_t length = strlen(text), suffix = strlen(ARRAY_SUFFIX);
	const struct lua_field_type *type;

	if (strcmp(text, "bytes") == 0) {
		ret_field->type = RP_TYPE_ARRAY;
		ret_field->element = RP_TYPE_U8;
		return true;
	}
	if (length > suffix && strcmp(text + length - suffix, ARRAY_SUFFIX) == 0) {
		type = find_type(text, length - suffix);
		/* U8 elements are "bytes", a string in Lua. */
		if (!type || type->size_bytes == 0 || type->type == RP_TYPE_U8)
			return false;
		ret_field->type = RP_TYPE_ARRAY;
		ret_field->element = (uint8_t)type->type;
		return true;
	}
	type = find_type(text, length);
	if (type)
		ret_field->type = (uint8_t)type->type;
	return type != NULL;
}

/* Read { "name", "type", secret = true } at the top of the stack. */
static void read_field(lua_State *L, struct rp_field *ret_field, lua_Integer number)
{
	const char *type;
	size_t length;

	memset(ret_field, 0, sizeof(*ret_field));
	if (!lua_istable(L, -1))
		luaL_error(L, "field %I is not a table of a name and a type", (LUAI_UACINT)number);
	if (lua_rawgeti(L, -1, 1) != LUA_TSTRING || lua_rawgeti(L, -2, 2) != LUA_TSTRING)
		luaL_error(L, "field %I has no name or no type", (LUAI_UACINT)number);
	ret_field->name = lua_tolstring(L, -2, &length);
	type = lua_tostring(L, -1);
	if (length == 0 || strlen(ret_field->name) != length)
		luaL_error(L, "the name of field %I is empty or contains a NUL",
			   (LUAI_UACINT)number);
	if (!parse_type(type, ret_field))
		luaL_error(L, "field '%s' has no type '%s'", ret_field->name, type);
	lua_pop(L, 2);
	if (rp_lua_get_raw(L, lua_gettop(L), "secret") != LUA_TNIL && lua_toboolean(L, -1))
		ret_field->flags = RP_FIELD_SECRET;
	lua_pop(L, 1);
}

/* Push the table of fields, and return their number. */
static unsigned int push_fields(lua_State *L, int index)
{
	int kind = rp_lua_get_raw(L, index, "fields");
	lua_Unsigned count;

	if (kind == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
	} else if (kind != LUA_TTABLE) {
		luaL_error(L, "'fields' is a table, not a %s", luaL_typename(L, -1));
	}
	count = lua_rawlen(L, -1);
	if (count > RP_FIELDS_MAX)
		luaL_error(L, "an event has up to %d fields", (int)RP_FIELDS_MAX);
	return (unsigned int)count;
}

static struct lua_event *push_event(lua_State *L, unsigned int field_count)
{
	struct lua_event *event = lua_newuserdatauv(
		L, sizeof(*event) + field_count * sizeof(event->fields[0]), 0);

	event->source = NULL;
	event->event = NULL;
	event->field_count = field_count;
	luaL_setmetatable(L, LUA_EVENT_TYPE);
	return event;
}

struct lua_event *rp_lua_event_create(lua_State *L, struct lua_source *source, int index,
				      const char *name, uint8_t opcode, bool has_fields)
{
	static const struct rp_field duration = { .name = "duration_ns", .type = RP_TYPE_U64 };
	struct rp_event_decl decl = RP_EVENT_DECL_INIT;
	struct lua_event *event;
	unsigned int count = push_fields(L, index);
	int ret;

	event = push_event(L, has_fields ? count : 1);
	for (unsigned int i = 0; has_fields && i < count; i++) {
		lua_rawgeti(L, -2, (lua_Integer)i + 1);
		read_field(L, &event->fields[i], (lua_Integer)i + 1);
		lua_pop(L, 1);
	}
	if (!has_fields)
		event->fields[0] = duration;
	decl.name = name;
	decl.id = (uint32_t)rp_lua_get_integer(L, index, "id", RP_EVENT_ID_AUTO, 0,
					       RP_EVENT_ID_AUTO);
	/* As a declared span: the stop event has the next id, and no message. */
	if (opcode == RP_OPCODE_STOP && decl.id != RP_EVENT_ID_AUTO)
		decl.id++;
	decl.version = (uint8_t)rp_lua_get_integer(L, index, "version", 0, 0, UINT8_MAX);
	decl.level = rp_lua_get_level(L, index, RP_LEVEL_INFORMATIONAL);
	decl.keywords = (uint64_t)rp_lua_get_integer(L, index, "keywords", 0, LUA_MININTEGER,
						     LUA_MAXINTEGER);
	decl.message = opcode == RP_OPCODE_STOP ? NULL
						: rp_lua_get_string(L, index, "message", NULL);
	decl.opcode = opcode;
	decl.fields = event->fields;
	decl.field_count = (uint16_t)event->field_count;
	ret = rp_event_create(source->provider, &decl, &event->event);
	if (ret != 0) {
		event->event = NULL;
		rp_lua_raise(L, ret, name);
	}
	event->source = source;
	source->references++;
	for (unsigned int i = 0; i < event->field_count; i++)
		event->fields[i].name = NULL;
	lua_remove(L, -2);
	return event;
}

/* source:event { name = …, … } */
static int source_event(lua_State *L)
{
	struct lua_source *source = rp_lua_check_source(L, 1);
	const char *name;

	luaL_checktype(L, 2, LUA_TTABLE);
	name = rp_lua_get_string(L, 2, "name", NULL);
	luaL_argcheck(L, name, 2, "an event needs a 'name'");
	(void)rp_lua_event_create(L, source, 2, name, RP_OPCODE_INFO, true);
	return 1;
}

static void add_part(struct lua_payload *payload, const void *base, size_t size_bytes)
{
	payload->parts[payload->part_count].base = base;
	payload->parts[payload->part_count++].size_bytes = size_bytes;
}

static void add_scalar(struct lua_payload *payload, const void *bytes, size_t size_bytes)
{
	uint8_t *at = payload->scalars + payload->used;

	memcpy(at, bytes, size_bytes);
	payload->used += size_bytes;
	add_part(payload, at, size_bytes);
}

/* Store a number or a boolean. Return: whether the value fits the type. */
static bool store(lua_State *L, int index, const struct lua_field_type *type, void *to)
{
	int is_integer;
	lua_Integer value;

	if (type->type == RP_TYPE_BOOL) {
		*(uint8_t *)to = (uint8_t)lua_toboolean(L, index);
		return true;
	}
	/* Lua would convert strings of digits, too. */
	if (lua_type(L, index) != LUA_TNUMBER)
		return false;
	if (type->type == RP_TYPE_F32 || type->type == RP_TYPE_F64) {
		double number = lua_tonumber(L, index);
		float single = (float)number;

		memcpy(to, type->type == RP_TYPE_F64 ? (void *)&number : (void *)&single,
		       type->size_bytes);
		return true;
	}
	value = lua_tointegerx(L, index, &is_integer);
	if (!is_integer)
		return false;
	if (type->size_bytes < sizeof(value)) {
		unsigned int bits = type->size_bytes * CHAR_BIT - type->is_signed;

		if (value >> bits != 0 && !(type->is_signed && value >> bits == -1))
			return false;
	}
	/* The low bytes, on a little-endian machine as every machine of ringpipe is. */
	memcpy(to, &value, type->size_bytes);
	return true;
}

static bool add_array(lua_State *L, int index, const struct lua_field_type *type,
		      struct lua_payload *payload)
{
	lua_Unsigned elements = lua_istable(L, index) ? lua_rawlen(L, index) : 0;
	uint16_t count = (uint16_t)elements;
	uint8_t *buffer;

	if (!lua_istable(L, index) || elements > UINT16_MAX)
		return false;
	add_scalar(payload, &count, sizeof(count));
	if (count == 0)
		return true;
	/* It stays on the stack until the event is written. */
	buffer = lua_newuserdatauv(L, (size_t)count * type->size_bytes, 0);
	for (unsigned int i = 0; i < count; i++) {
		bool fits;

		lua_rawgeti(L, index, (lua_Integer)i + 1);
		fits = store(L, -1, type, buffer + (size_t)i * type->size_bytes);
		lua_pop(L, 1);
		if (!fits)
			return false;
	}
	add_part(payload, buffer, (size_t)count * type->size_bytes);
	return true;
}

static bool add_text(lua_State *L, int index, bool is_bytes, struct lua_payload *payload)
{
	uint16_t count;
	size_t length;
	const char *text;

	if (lua_type(L, index) != LUA_TSTRING)
		return false;
	text = lua_tolstring(L, index, &length);
	if (!is_bytes) {
		/* Lua's strings have a NUL after their end. */
		add_part(payload, text, strlen(text) + 1);
		return true;
	}
	if (length > UINT16_MAX)
		return false;
	count = (uint16_t)length;
	add_scalar(payload, &count, sizeof(count));
	add_part(payload, text, length);
	return true;
}

static bool add_value(lua_State *L, int index, const struct rp_field *field,
		      struct lua_payload *payload)
{
	const struct lua_field_type *type = type_of(field->type);
	uint64_t value = 0;

	if (field->type == RP_TYPE_STRING)
		return add_text(L, index, false, payload);
	if (field->type == RP_TYPE_ARRAY && field->element == RP_TYPE_U8)
		return add_text(L, index, true, payload);
	if (field->type == RP_TYPE_ARRAY)
		return add_array(L, index, type_of(field->element), payload);
	if (!store(L, index, type, &value))
		return false;
	add_scalar(payload, &value, type->size_bytes);
	return true;
}

void rp_lua_event_reserve(lua_State *L, const struct lua_event *event)
{
	/* Missing values become nil, and each array leaves its buffer on the stack. */
	luaL_checkstack(L, 2 * (int)event->field_count + LUA_MINSTACK, NULL);
}

int rp_lua_event_write(lua_State *L, const struct lua_event *event, int first)
{
	struct lua_payload payload;

	payload.used = 0;
	payload.part_count = 0;
	lua_settop(L, first - 1 + (int)event->field_count);
	for (unsigned int i = 0; i < event->field_count; i++) {
		int index = first + (int)i;

		if (add_value(L, index, &event->fields[i], &payload))
			continue;
		lua_pushfstring(L, "field %d does not hold this %s", (int)i + 1,
				luaL_typename(L, index));
		return -EINVAL;
	}
	return rp_lua_write_at_rest(L, event->event, payload.parts, payload.part_count);
}

static struct lua_event *check_event(lua_State *L)
{
	return luaL_checkudata(L, 1, LUA_EVENT_TYPE);
}

static int event_write(lua_State *L)
{
	const struct lua_event *event = check_event(L);
	int ret;

	if (!event->event || !rp_event_enabled(event->event)) {
		lua_pushboolean(L, 0);
		return 1;
	}
	rp_lua_event_reserve(L, event);
	ret = rp_lua_event_write(L, event, 2);
	if (ret != -EINVAL)
		return rp_lua_push_result(L, ret);
	lua_pushnil(L);
	lua_insert(L, -2);
	return 2;
}

static int event_enabled(lua_State *L)
{
	const struct lua_event *event = check_event(L);

	lua_pushboolean(L, event->event && rp_event_enabled(event->event));
	return 1;
}

static int event_collect(lua_State *L)
{
	struct lua_event *event = check_event(L);

	rp_event_destroy(event->event);
	event->event = NULL;
	rp_lua_source_release(event->source);
	event->source = NULL;
	return 0;
}

void rp_lua_open_events(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "write", event_write },
		{ "enabled", event_enabled },
		{ "__call", event_write },
		{ "__gc", event_collect },
		{ NULL, NULL },
	};

	rp_lua_type(L, LUA_EVENT_TYPE, methods);
	rp_lua_source_add_method(L, "event", source_event);
}
