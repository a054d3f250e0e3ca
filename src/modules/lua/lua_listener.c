/* SPDX-License-Identifier: MIT */
/*
 * Listeners: sessions whose events a Lua function gets. Events wait in the session until the
 * program calls ringpipe.poll() or listener:poll(), so the function runs in Lua's own thread, where
 * the program expects it. An error in the function does not end the listener.
 */
#include "modules/lua/lua_module.h"

#include <errno.h>
#include <stdio.h>

#include <ringpipe/listener.h>

#define PROVIDERS_MAX 64
/* The key of the registry's table of listeners: listener -> its function, weak by listener. */
static const char listeners_key;

struct lua_listener {
	struct rp_listener *listener;	/* NULL: stopped */
	bool is_delivering;		/* inside its function, which must not free the listener */
	bool is_stopping;		/* stop when the function has returned */
};

static void push_guid(lua_State *L, const struct rp_guid *guid)
{
	const uint8_t *b = guid->bytes;
	char text[37];

	snprintf(text, sizeof(text),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
	lua_pushstring(L, text);
}

static void push_text(lua_State *L, const struct rp_value *value)
{
	size_t bytes = rp_value_get_text(value, NULL, 0);
	luaL_Buffer buffer;
	char *text = luaL_buffinitsize(L, &buffer, bytes + 1);

	rp_value_get_text(value, text, bytes + 1);
	luaL_pushresultsize(&buffer, bytes);
}

/* Push the value of a field. */
static void push_value(lua_State *L, const struct rp_value *value);

/* Push a table of elements by number, or of members by name. */
static void push_inner(lua_State *L, const struct rp_value *value)
{
	struct rp_fields inner = value->inner;
	struct rp_value item = RP_VALUE_INIT;
	lua_Integer number = 0;

	luaL_checkstack(L, LUA_MINSTACK, "an event has too many nested structs");
	lua_newtable(L);
	while (rp_fields_next(&inner, &item) == 1) {
		push_value(L, &item);
		if (value->type == RP_TYPE_ARRAY)
			lua_seti(L, -2, ++number);
		else
			lua_setfield(L, -2, item.name);
	}
}

static void push_value(lua_State *L, const struct rp_value *value)
{
	switch (value->type) {
	case RP_TYPE_BOOL:
		lua_pushboolean(L, value->u64 != 0);
		break;
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		lua_pushnumber(L, value->f64);
		break;
	case RP_TYPE_GUID:
		push_guid(L, &value->guid);
		break;
	case RP_TYPE_CHAR:
	case RP_TYPE_STRING:
	case RP_TYPE_STRING16:
		push_text(L, value);
		break;
	case RP_TYPE_ARRAY:
		if (value->element == RP_TYPE_U8)
			lua_pushlstring(L, value->bytes, value->size_bytes);
		else
			push_inner(L, value);
		break;
	case RP_TYPE_STRUCT:
		push_inner(L, value);
		break;
	case RP_TYPE_NONE:
		lua_pushlstring(L, value->bytes, value->size_bytes);
		break;
	default:
		lua_pushinteger(L, value->i64);
	}
}

static void set_integer(lua_State *L, const char *key, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, key);
}

static void set_activity(lua_State *L, const char *key, const struct rp_guid *guid)
{
	static const struct rp_guid none;

	for (size_t i = 0; i < sizeof(none); i++) {
		if (guid->bytes[i]) {
			push_guid(L, guid);
			lua_setfield(L, -2, key);
			return;
		}
	}
}

static void push_event(lua_State *L, const struct rp_listener_event *event)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	lua_createtable(L, 0, 12);
	lua_pushstring(L, event->provider);
	lua_setfield(L, -2, "provider");
	lua_pushstring(L, event->name);
	lua_setfield(L, -2, "name");
	set_integer(L, "id", event->id);
	set_integer(L, "version", event->version);
	set_integer(L, "level", event->level);
	set_integer(L, "opcode", event->opcode);
	set_integer(L, "keywords", event->keywords);
	set_integer(L, "time_ns", event->time_ns);
	set_integer(L, "thread", event->thread);
	set_integer(L, "processor", event->processor);
	set_activity(L, "activity", &event->activity);
	set_activity(L, "related_activity", &event->related_activity);
	lua_newtable(L);
	rp_listener_get_fields(event, &fields);
	while (rp_fields_next(&fields, &value) == 1) {
		push_value(L, &value);
		lua_setfield(L, -2, value.name);
	}
	lua_setfield(L, -2, "fields");
}

/* Call the function of a listener with an event. The arguments are both. */
static int deliver(lua_State *L)
{
	push_event(L, lua_touserdata(L, 2));
	lua_remove(L, 2);
	lua_call(L, 1, 0);
	return 0;
}

static void stop(struct lua_listener *listener)
{
	struct rp_listener *stopped = listener->listener;

	listener->listener = NULL;
	if (stopped)
		(void)rp_listener_stop(stopped, NULL);
}

/*
 * Deliver what waits, up to the first event that was written meanwhile: the function may write
 * events that the listener gets. The function is at the top of the stack, and the call pops it.
 * `deliver` runs in protected mode, so no error leaves the loop.
 * Return: the number of events; with an error, its message is pushed, and *ret_failed is set.
 */
static lua_Integer deliver_all(lua_State *L, struct lua_listener *listener, int timeout_ms,
			       bool *ret_failed)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	int function = lua_gettop(L);
	lua_Integer count = 0;
	uint64_t begun_ns = 0;

	if (listener->is_delivering || !listener->listener) {
		lua_pop(L, 1);
		return 0;
	}
	listener->is_delivering = true;
	while (!listener->is_stopping && event.time_ns <= begun_ns &&
	       rp_listener_next(listener->listener, &event, count ? 0 : timeout_ms) == 1) {
		if (count++ == 0)
			begun_ns = rp_lua_now_ns();
		lua_settop(L, function + *ret_failed);
		lua_pushcfunction(L, deliver);
		lua_pushvalue(L, function);
		lua_pushlightuserdata(L, &event);
		if (lua_pcall(L, 2, 0, 0) == LUA_OK)
			continue;
		/* The message of the last error is what remains. */
		if (*ret_failed)
			lua_replace(L, -2);
		*ret_failed = true;
	}
	listener->is_delivering = false;
	if (listener->is_stopping)
		stop(listener);
	lua_remove(L, function);
	return count;
}

static struct lua_listener *check_listener(lua_State *L)
{
	return luaL_checkudata(L, 1, LUA_LISTENER_TYPE);
}

static int read_timeout(lua_State *L, int index)
{
	lua_Number seconds = luaL_optnumber(L, index, 0);

	if (seconds != seconds)
		return 0;	/* not a number */
	return seconds < 0 ? -1 : seconds > 86400 ? 86400 * 1000 : (int)(seconds * 1000);
}

/* listener:poll([seconds]): the number of events, and the message of the last error. */
static int listener_poll(lua_State *L)
{
	struct lua_listener *listener = check_listener(L);
	int timeout_ms = read_timeout(L, 2);
	bool failed = false;
	lua_Integer count;

	lua_settop(L, 1);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &listeners_key);
	lua_pushvalue(L, 1);
	lua_rawget(L, -2);
	lua_remove(L, 2);
	count = deliver_all(L, listener, timeout_ms, &failed);
	lua_pushinteger(L, count);
	lua_insert(L, 2);
	return failed ? 2 : 1;
}

/* ringpipe.poll(): the same for all listeners. */
int rp_lua_poll(lua_State *L)
{
	lua_Integer count = 0;
	bool failed = false;
	lua_Unsigned listeners = 0;

	lua_settop(L, 0);
	/* A function may create and drop listeners, so the table of them is copied first. */
	lua_newtable(L);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &listeners_key);
	lua_pushnil(L);
	while (lua_next(L, 2)) {
		lua_pop(L, 1);
		lua_pushvalue(L, -1);
		lua_rawseti(L, 1, (lua_Integer)++listeners);
	}
	for (lua_Unsigned i = 1; i <= listeners; i++) {
		bool this_failed = false;

		lua_rawgeti(L, 1, (lua_Integer)i);
		lua_pushvalue(L, -1);
		lua_rawget(L, 2);
		count += deliver_all(L, lua_touserdata(L, -2), 0, &this_failed);
		if (this_failed) {
			lua_replace(L, 3);
			failed = true;
		}
		lua_settop(L, failed ? 3 : 2);
	}
	lua_pushinteger(L, count);
	if (!failed)
		return 1;
	lua_insert(L, -2);
	return 2;
}

/* Read { name, level = …, keywords = … } at the top of the stack. */
static void read_provider(lua_State *L, struct rp_session_provider *ret_provider)
{
	int index = lua_gettop(L);

	*ret_provider = (struct rp_session_provider)RP_SESSION_PROVIDER_INIT;
	if (lua_type(L, -1) == LUA_TSTRING) {
		ret_provider->name = rp_lua_to_text(L, -1);
		if (!ret_provider->name)
			luaL_error(L, "the name of a provider contains a NUL");
		return;
	}
	if (!lua_istable(L, -1))
		luaL_error(L, "a provider is a name, or a table with 'name'");
	ret_provider->name = rp_lua_get_string(L, index, "name", NULL);
	ret_provider->level = rp_lua_get_level(L, index, 0);
	ret_provider->keywords = (uint64_t)rp_lua_get_integer(L, index, "keywords", 0,
							      LUA_MININTEGER, LUA_MAXINTEGER);
	ret_provider->filter_data = rp_lua_get_string(L, index, "arguments", NULL);
	if (!ret_provider->name)
		luaL_error(L, "a provider needs a 'name'");
}

/* ringpipe.listen({ provider, … }, function) */
int rp_lua_listen(lua_State *L)
{
	struct rp_session_provider providers[PROVIDERS_MAX];
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct lua_listener *listener;
	lua_Unsigned count;
	int ret;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checktype(L, 2, LUA_TFUNCTION);
	count = lua_rawlen(L, 1);
	luaL_argcheck(L, count >= 1 && count <= PROVIDERS_MAX, 1, "a list of 1 to 64 providers");
	for (lua_Unsigned i = 0; i < count; i++) {
		lua_rawgeti(L, 1, (lua_Integer)i + 1);
		read_provider(L, &providers[i]);
		lua_pop(L, 1);		/* the table of arguments keeps the strings */
	}
	listener = lua_newuserdatauv(L, sizeof(*listener), 0);
	*listener = (struct lua_listener){ .listener = NULL };
	luaL_setmetatable(L, LUA_LISTENER_TYPE);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &listeners_key);
	lua_pushvalue(L, -2);
	lua_pushvalue(L, 2);
	lua_rawset(L, -3);
	lua_pop(L, 1);
	options.providers = providers;
	options.provider_count = (size_t)count;
	ret = rp_listener_start(&options, NULL, NULL, &listener->listener);
	if (ret == 0)
		return 1;
	listener->listener = NULL;
	return rp_lua_raise(L, ret, "the listener does not start");
}

static int listener_stop(lua_State *L)
{
	struct lua_listener *listener = check_listener(L);

	if (listener->is_delivering)
		listener->is_stopping = true;
	else
		stop(listener);
	return 0;
}

static int listener_lost(lua_State *L)
{
	struct lua_listener *listener = check_listener(L);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	if (listener->listener)
		(void)rp_listener_get_stats(listener->listener, &stats);
	lua_pushinteger(L, (lua_Integer)stats.lost);
	return 1;
}

void rp_lua_open_listeners(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "poll", listener_poll },
		{ "stop", listener_stop },
		{ "lost", listener_lost },
		{ "__gc", listener_stop },
		{ "__close", listener_stop },
		{ NULL, NULL },
	};

	rp_lua_type(L, LUA_LISTENER_TYPE, methods);
	rp_lua_create_weak_table(L, &listeners_key);
}
