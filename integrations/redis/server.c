/* SPDX-License-Identifier: MIT */
/* Events that the server reports by itself, of keys, clients and the like, and the counters. */
#include "tracing.h"

#include <string.h>
#include <time.h>

#include "events.h"

#define COUNTERS_INTERVAL_NS 1000000000u

const struct redis_api *redis;
struct tracing_stats tracing_stats;
static struct redis_context *own_context;
static bool is_watched;

static uint64_t field_of(struct redis_server_info *info, const char *name)
{
	int error;

	return redis->ServerInfoGetFieldUnsigned(info, name, &error);
}

static int on_expired(struct redis_context *context, int type, const char *event,
		      struct redis_string *name)
{
	struct key key = { .name = "" };
	uint32_t database;

	(void)type;
	(void)event;
	if (!redis_key_expired_enabled())
		return REDIS_OK;
	database = (uint32_t)redis->GetSelectedDb(context);
	key = key_of(name);
	redis_key_expired(database, key.hash, key.name, key.bytes);
	return REDIS_OK;
}

static int on_evicted(struct redis_context *context, int type, const char *event,
		      struct redis_string *name)
{
	struct key key = { .name = "" };
	uint32_t database;

	(void)type;
	(void)event;
	if (!redis_key_evicted_enabled())
		return REDIS_OK;
	database = (uint32_t)redis->GetSelectedDb(context);
	key = key_of(name);
	redis_key_evicted(database, key.hash, key.name, key.bytes);
	return REDIS_OK;
}

static void on_flush(uint64_t subevent, const void *data)
{
	const struct redis_flush_info *flush = data;

	if (subevent == 0 && flush)
		redis_flushed(flush->database, flush->is_synchronous != 0);
}

static void on_client(uint64_t subevent, const void *data)
{
	const struct redis_client_info *client = data;

	if (subevent == 0) {
		redis_client_connected(client->id, client->address, client->port);
		return;
	}
	client_trace_remove(client->id);
	redis_client_disconnected(client->id, client->address, client->port);
}

/* A save by the process itself. A child's copy of the module gets these events, too. */
static void on_persistence(uint64_t subevent)
{
	static const char *kind = "RDB";

	switch (subevent) {
	case REDIS_RDB_START:
	case REDIS_SYNC_RDB_START:
		kind = "RDB";
		redis_persistence(kind, "started", false);
		break;
	case REDIS_AOF_START:
	case REDIS_SYNC_AOF_START:
		kind = "AOF";
		redis_persistence(kind, "started", false);
		break;
	case REDIS_PERSISTENCE_ENDED:
		redis_persistence(kind, "ended", false);
		break;
	case REDIS_PERSISTENCE_FAILED:
		redis_persistence(kind, "failed", false);
		break;
	}
}

/* A child is born or died. The server allows one at a time. */
static void on_child(struct redis_context *context, uint64_t subevent)
{
	static const char *kind = "unknown", *status;
	struct redis_server_info *info = redis->GetServerInfo(context, "persistence");
	const char *last;

	if (!info)
		return;
	if (subevent == 0) {
		kind = "unknown";
		status = NULL;
		if (field_of(info, "rdb_bgsave_in_progress")) {
			kind = "RDB";
			status = "rdb_last_bgsave_status";
		} else if (field_of(info, "aof_rewrite_in_progress")) {
			kind = "AOF";
			status = "aof_last_bgrewrite_status";
		}
		redis_persistence(kind, "started", true);
	} else {
		last = status ? redis->ServerInfoGetFieldC(info, status) : NULL;
		redis_persistence(kind, last && strcmp(last, "ok") != 0 ? "failed" : "ended",
				  true);
	}
	redis->FreeServerInfo(context, info);
}

static void on_loading(uint64_t subevent)
{
	static const char *const kinds[] = { "RDB", "AOF", "from the master" };
	static const char *kind = "RDB";

	if (subevent < sizeof(kinds) / sizeof(kinds[0])) {
		kind = kinds[subevent];
		redis_loading(kind, "started");
	} else {
		redis_loading(kind, subevent == 3 ? "ended" : "failed");
	}
}

static void on_role(const void *data)
{
	const struct redis_replication_info *now = data;

	redis_role_changed(now->is_master ? "master" : "replica",
			   now->is_master ? NULL : now->master_host,
			   now->is_master ? 0 : now->master_port);
}

/* Adds what a total of the server has grown by. CONFIG RESETSTAT sets the totals to 0. */
static void add_growth(struct redis_server_info *info, const char *name,
		       struct rp_counter *counter, uint64_t *before)
{
	uint64_t now = field_of(info, name);

	rp_counter_add(counter, (int64_t)(now >= *before ? now - *before : now));
	*before = now;
}

static void read_clients(struct redis_context *context)
{
	struct redis_server_info *info = redis->GetServerInfo(context, "clients");
	static uint64_t blocked_before;
	uint64_t blocked;

	if (!info)
		return;
	redis_clients_set((double)field_of(info, "connected_clients"));
	blocked = field_of(info, "blocked_clients");
	redis_clients_waiting_set((double)blocked);
	if (blocked != blocked_before)
		redis_clients_blocked(blocked);
	blocked_before = blocked;
	redis->FreeServerInfo(context, info);
}

static void read_counters(struct redis_context *context)
{
	static uint64_t commands, expired, evicted, hits, misses, received, sent;
	struct redis_server_info *info = redis->GetServerInfo(context, "stats");

	if (info) {
		add_growth(info, "total_commands_processed", redis_commands_counter(), &commands);
		add_growth(info, "expired_keys", redis_keys_expired_counter(), &expired);
		add_growth(info, "evicted_keys", redis_keys_evicted_counter(), &evicted);
		add_growth(info, "keyspace_hits", redis_keyspace_hits_counter(), &hits);
		add_growth(info, "keyspace_misses", redis_keyspace_misses_counter(), &misses);
		add_growth(info, "total_net_input_bytes", redis_bytes_received_counter(),
			   &received);
		add_growth(info, "total_net_output_bytes", redis_bytes_sent_counter(), &sent);
		redis->FreeServerInfo(context, info);
	}
	info = redis->GetServerInfo(context, "memory");
	if (info) {
		redis_memory_set((double)field_of(info, "used_memory"));
		redis->FreeServerInfo(context, info);
	}
}

/* Some ten times a second. */
static void on_cron(struct redis_context *context)
{
	static uint64_t next_ns;
	struct timespec now;
	uint64_t now_ns;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (now_ns >= next_ns) {
		next_ns = now_ns + COUNTERS_INTERVAL_NS;
		read_counters(context);
		read_clients(context);
	} else if (redis_clients_blocked_enabled()) {
		read_clients(context);
	}
}

static void on_event(struct redis_context *context, struct redis_event event, uint64_t subevent,
		     void *data)
{
	switch (event.id) {
	case REDIS_EVENT_LOOP:
		if (subevent == 0) {
			command_end_all();
			slow_log_read(context);
		}
		break;
	case REDIS_CLIENT_CHANGE:
		on_client(subevent, data);
		break;
	case REDIS_FLUSH:
		on_flush(subevent, data);
		break;
	case REDIS_PERSISTENCE:
		on_persistence(subevent);
		break;
	case REDIS_FORK_CHILD:
		on_child(context, subevent);
		break;
	case REDIS_LOADING:
		on_loading(subevent);
		break;
	case REDIS_SHUTDOWN:
		redis_shutdown();
		break;
	case REDIS_ROLE_CHANGED:
		on_role(data);
		break;
	case REDIS_REPLICA_CHANGE:
		redis_replica(subevent == 0 ? "online" : "offline");
		break;
	case REDIS_MASTER_LINK:
		redis_master_link(subevent == 0 ? "up" : "down");
		break;
	}
}

/*
 * For each event, and twice in each round of the event loop, the server walks through the list of
 * all subscriptions. The module therefore has these only while they are wanted.
 */
static const uint64_t watched[] = {
	REDIS_EVENT_LOOP, REDIS_CLIENT_CHANGE, REDIS_FLUSH, REDIS_PERSISTENCE, REDIS_FORK_CHILD,
	REDIS_LOADING, REDIS_SHUTDOWN, REDIS_ROLE_CHANGED, REDIS_REPLICA_CHANGE, REDIS_MASTER_LINK,
};

static void subscribe(redis_event_callback callback)
{
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
		struct redis_event event = { watched[i], 1 };

		redis->SubscribeToServerEvent(own_context, event, callback);
	}
}

static bool is_wanted(void)
{
	return command_is_wanted() || redis_key_expired_enabled() || redis_key_evicted_enabled() ||
	       redis_flushed_enabled() || redis_client_connected_enabled() ||
	       redis_client_disconnected_enabled() || redis_clients_blocked_enabled() ||
	       redis_persistence_enabled() || redis_loading_enabled() ||
	       redis_shutdown_enabled() || redis_role_changed_enabled() ||
	       redis_replica_enabled() || redis_master_link_enabled() ||
	       tracing_stats.traced_clients;
}

void server_watch(void)
{
	if (!is_watched)
		subscribe(on_event);
	is_watched = true;
}

bool server_is_watched(void)
{
	if (!is_watched && is_wanted())
		server_watch();
	return is_watched;
}

static void leave(struct redis_context *context, void *data)
{
	(void)context;
	(void)data;
	if (!is_watched || is_wanted())
		return;
	command_end_all();
	is_watched = false;
	subscribe(NULL);
}

static void on_own_event(struct redis_context *context, struct redis_event event,
			 uint64_t subevent, void *data)
{
	(void)subevent;
	(void)data;
	if (event.id == REDIS_CONFIG) {
		slow_log_configure(context);
		return;
	}
	on_cron(context);
	/* The server is walking through the subscriptions now, so none may be removed. */
	if (server_is_watched() && !is_wanted())
		redis->CreateTimer(own_context, 0, leave, NULL);
}

static void add_info(struct redis_info *info)
{
	redis->InfoAddFieldULongLong(info, "spans", tracing_stats.spans);
	redis->InfoAddFieldULongLong(info, "slow_commands", tracing_stats.slow_commands);
	redis->InfoAddFieldULongLong(info, "traced_clients", tracing_stats.traced_clients);
}

int ringpipe_tracing_start(struct redis_context *context, const struct redis_api *api,
			   bool shows_keys, struct tracing *ret_tracing)
{
	static const struct redis_event cron = { REDIS_CRON, 1 }, config = { REDIS_CONFIG, 1 };

	redis = api;
	own_context = redis->GetDetachedThreadSafeContext(context);
	is_watched = false;
	key_init(shows_keys);
	if (redis->SubscribeToServerEvent(context, cron, on_own_event) != REDIS_OK ||
	    redis->SubscribeToServerEvent(context, config, on_own_event) != REDIS_OK)
		return REDIS_ERROR;
	/* The server may load its data next. */
	server_is_watched();
	if (redis->SubscribeToKeyspaceEvents(context, REDIS_NOTIFY_EXPIRED, on_expired) !=
	    REDIS_OK ||
	    redis->SubscribeToKeyspaceEvents(context, REDIS_NOTIFY_EVICTED, on_evicted) !=
	    REDIS_OK)
		return REDIS_ERROR;
	slow_log_configure(context);
	ret_tracing->begin_command = command_begin;
	ret_tracing->set_trace = client_trace_set;
	ret_tracing->add_info = add_info;
	return REDIS_OK;
}
