/* SPDX-License-Identifier: MIT */
/*
 * Counters of a source. The observed kinds are missing: their callbacks run in a thread of
 * ringpipe, where no Lua function may run.
 */
#include "modules/lua/lua_module.h"

#include <errno.h>
#include <string.h>

#include <ringpipe/counter.h>

#define TAGS_MAX 32

struct lua_counter {
	struct lua_source *source;	/* NULL: not created */
	struct rp_counter *counter;
	uint8_t kind;			/* enum rp_counter_kind */
};

static struct lua_counter *check_counter(lua_State *L)
{
	struct lua_counter *counter = luaL_checkudata(L, 1, LUA_COUNTER_TYPE);

	luaL_argcheck(L, counter->counter, 1, "the counter is closed");
	return counter;
}

static uint8_t kind_of(lua_State *L, const char *name)
{
	static const char *const names[] = { "sum", "updown", "gauge", "histogram" };

	for (uint8_t i = 0; i < 4; i++) {
		if (strcmp(names[i], name) == 0)
			return (uint8_t)(RP_COUNTER_SUM + i);
	}
	return (uint8_t)luaL_error(L, "'kind' has no value '%s'", name);
}

/* source:counter { name = …, kind = …, unit = …, display = … } */
static int source_counter(lua_State *L)
{
	struct lua_source *source = rp_lua_check_source(L, 1);
	struct rp_counter_decl decl = RP_COUNTER_DECL_INIT;
	struct lua_counter *counter;
	int ret;

	luaL_checktype(L, 2, LUA_TTABLE);
	decl.name = rp_lua_get_string(L, 2, "name", NULL);
	luaL_argcheck(L, decl.name, 2, "a counter needs a 'name'");
	decl.kind = kind_of(L, rp_lua_get_string(L, 2, "kind", "sum"));
	decl.unit = rp_lua_get_string(L, 2, "unit", NULL);
	decl.display_name = rp_lua_get_string(L, 2, "display", NULL);
	counter = lua_newuserdatauv(L, sizeof(*counter), 0);
	counter->source = NULL;
	counter->counter = NULL;
	counter->kind = decl.kind;
	luaL_setmetatable(L, LUA_COUNTER_TYPE);
	ret = rp_counter_create(source->provider, &decl, &counter->counter);
	if (ret != 0) {
		counter->counter = NULL;
		return rp_lua_raise(L, ret, decl.name);
	}
	counter->source = source;
	source->references++;
	return 1;
}

/* Read { key = value, … } at an index. Return: their number; -EINVAL: not a table of strings. */
static int read_tags(lua_State *L, int index, struct rp_counter_tag *tags)
{
	int count = 0;

	lua_pushnil(L);
	while (lua_next(L, index)) {
		/* The table keeps both texts. */
		const char *key = rp_lua_to_text(L, -2), *value = rp_lua_to_text(L, -1);

		if (count == TAGS_MAX || !key || !value) {
			lua_pop(L, 2);
			return -EINVAL;
		}
		tags[count++] = (struct rp_counter_tag){ .key = key, .value = value };
		lua_pop(L, 1);
	}
	return count;
}

/* Find the series of the tags in argument 3, or the counter without tags. */
static int find_series(lua_State *L, struct rp_counter *counter, struct rp_counter **ret_series)
{
	struct rp_counter_tag tags[TAGS_MAX];
	int count = 0;

	if (lua_istable(L, 3))
		count = read_tags(L, 3, tags);
	else if (!lua_isnoneornil(L, 3))
		count = -EINVAL;
	*ret_series = counter;
	if (count <= 0)
		return count;
	return rp_counter_series(counter, tags, (size_t)count, ret_series);
}

static int counter_add(lua_State *L)
{
	struct lua_counter *counter = check_counter(L);
	struct rp_counter *series;
	int is_integer, ret;
	lua_Integer by = 1;

	is_integer = lua_isnoneornil(L, 2) || lua_type(L, 2) == LUA_TNUMBER;
	if (is_integer && !lua_isnoneornil(L, 2))
		by = lua_tointegerx(L, 2, &is_integer);
	/* A SUM that shrinks is none; the library leaves that to its callers. */
	if (!is_integer || (by < 0 && counter->kind == RP_COUNTER_SUM))
		return rp_lua_push_result(L, -EINVAL);
	ret = find_series(L, counter->counter, &series);
	return rp_lua_push_result(L, ret == 0 ? rp_counter_add(series, by) : ret);
}

/* Set a gauge, or record a value, by a function of ringpipe. */
static int give_value(lua_State *L, int (*give)(struct rp_counter *counter, double value))
{
	struct lua_counter *counter = check_counter(L);
	struct rp_counter *series;
	int ret;

	if (lua_type(L, 2) != LUA_TNUMBER)
		return rp_lua_push_result(L, -EINVAL);
	ret = find_series(L, counter->counter, &series);
	return rp_lua_push_result(L, ret == 0 ? give(series, lua_tonumber(L, 2)) : ret);
}

static int counter_set(lua_State *L)
{
	return give_value(L, rp_counter_set);
}

static int counter_record(lua_State *L)
{
	return give_value(L, rp_counter_record);
}

static void set_number(lua_State *L, const char *key, double value)
{
	lua_pushnumber(L, value);
	lua_setfield(L, -2, key);
}

static int counter_read(lua_State *L)
{
	struct lua_counter *counter = check_counter(L);
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	int ret = rp_counter_read(counter->counter, &reading);

	if (ret != 0)
		return rp_lua_push_result(L, ret);
	lua_newtable(L);
	set_number(L, "value", reading.value);
	set_number(L, "sum", reading.sum);
	set_number(L, "mean", reading.mean);
	set_number(L, "min", reading.min);
	set_number(L, "max", reading.max);
	set_number(L, "p50", reading.p50);
	set_number(L, "p95", reading.p95);
	set_number(L, "p99", reading.p99);
	lua_pushinteger(L, (lua_Integer)reading.count);
	lua_setfield(L, -2, "count");
	return 1;
}

static int counter_collect(lua_State *L)
{
	struct lua_counter *counter = luaL_checkudata(L, 1, LUA_COUNTER_TYPE);

	(void)rp_counter_destroy(counter->counter);
	counter->counter = NULL;
	rp_lua_source_release(counter->source);
	counter->source = NULL;
	return 0;
}

void rp_lua_open_counters(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "add", counter_add },
		{ "set", counter_set },
		{ "record", counter_record },
		{ "read", counter_read },
		{ "__gc", counter_collect },
		{ NULL, NULL },
	};

	rp_lua_type(L, LUA_COUNTER_TYPE, methods);
	rp_lua_source_add_method(L, "counter", source_counter);
}
