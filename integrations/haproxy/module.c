/* SPDX-License-Identifier: MIT */
/*
 * A module for Debian's HAProxy. HAProxy has no modules of its own, but its Lua loads C libraries,
 * and HAProxy exports its functions to them. ringpipe.lua loads this library while HAProxy reads
 * its configuration. After that, no Lua runs.
 *
 * The library depends on the layout of HAProxy's structs, so it refuses a HAProxy of another
 * version or with other features.
 */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include <haproxy/connection.h>
#include <haproxy/global.h>
#include <haproxy/init.h>
#include <haproxy/pool.h>
#include <haproxy/session.h>
#include <haproxy/stream.h>
#include <haproxy/version.h>

#include <ringpipe/ringpipe.h>

struct haproxy_options haproxy_options = { .sample = 1, .trace_context = true };

/* The pools of HAProxy state the sizes of its structs. */
static bool has_size(const struct pool_head *pool, size_t bytes)
{
	return pool->size >= bytes && pool->size < bytes + 64;
}

static const char *mismatch(void)
{
	size_t digits = strcspn(CONFIG_HAPROXY_VERSION, "-");

	if (strncmp(haproxy_version, CONFIG_HAPROXY_VERSION, digits) != 0 ||
	    (haproxy_version[digits] != 0 && haproxy_version[digits] != '-'))
		return "the module was built for HAProxy " CONFIG_HAPROXY_VERSION;
	if (strcmp(build_features, RINGPIPE_HAPROXY_FEATURES) != 0)
		return "the module was built for a HAProxy with other features";
	if (!has_size(pool_head_stream, sizeof(struct stream)) ||
	    !has_size(pool_head_session, sizeof(struct session)) ||
	    !has_size(pool_head_connection, sizeof(struct connection)))
		return "the module was built for a HAProxy with other structs";
	return NULL;
}

/* Read the variables that the configuration sets with `setenv`. Return: NULL, or what is wrong. */
static const char *read_options(void)
{
	const char *sample = getenv("RINGPIPE_HAPROXY_SAMPLE");
	const char *context = getenv("RINGPIPE_HAPROXY_TRACE_CONTEXT");
	char *end;

	if (sample) {
		errno = 0;
		haproxy_options.sample = strtoull(sample, &end, 10);
		if (*sample < '0' || *sample > '9' || *end || errno || haproxy_options.sample == 0)
			return "RINGPIPE_HAPROXY_SAMPLE is not a number above 0";
	}
	if (context) {
		if (strcmp(context, "on") != 0 && strcmp(context, "off") != 0)
			return "RINGPIPE_HAPROXY_TRACE_CONTEXT is neither on nor off";
		haproxy_options.trace_context = strcmp(context, "on") == 0;
	}
	return NULL;
}

static bool is_serving;

static int on_thread_init(void)
{
	is_serving = true;
	return 1;
}

/* Threads end before HAProxy frees the proxies, which the counters read. */
static void on_thread_deinit(void)
{
	static bool is_done;

	if (!__atomic_exchange_n(&is_done, true, __ATOMIC_SEQ_CST))
		haproxy_counters_destroy();
}

/*
 * A worker changes its root directory soon after its fork, and its socket has to be open before. A
 * process that already serves forks for external checks, which need no socket.
 */
static void on_fork_child(void)
{
	struct rp_prepare_options options = RP_PREPARE_OPTIONS_INIT;

	options.what = RP_PREPARE_SESSIONS | RP_PREPARE_COUNTERS;
	if (global.chroot && !is_serving)
		rp_prepare(&options);
}

/* A wrong option is an error of the configuration, and an unsuitable HAProxy only a warning. */
int luaopen_ringpipe_haproxy(lua_State *L)
{
	const char *text = mismatch();

	if (text) {
		lua_pushnil(L);
		lua_pushstring(L, text);
		return 2;
	}
	text = read_options();
	if (text)
		return luaL_error(L, "%s", text);
	if (haproxy_counters_create() < 0) {
		haproxy_counters_destroy();
		lua_pushnil(L);
		lua_pushliteral(L, "no memory for counters");
		return 2;
	}
	hap_register_post_check(haproxy_filter_add);
	hap_register_per_thread_init(on_thread_init);
	hap_register_per_thread_deinit(on_thread_deinit);
	pthread_atfork(NULL, NULL, on_fork_child);
	lua_pushboolean(L, 1);
	return 1;
}
