/* SPDX-License-Identifier: MIT */
/* Events that the server reports by itself, of keys, clients and the like, and the counters. */
#include "tracing.h"

#include <string.h>

#include "events.h"

const struct redis_api *redis;
struct tracing_stats tracing_stats;
static struct redis_context *own_context;
static tracing_watch_commands watch_commands;
static bool has_keys, has_events, has_commands, has_session, has_slow_log, has_cron;

static bool are_events_wanted(void);

static uint64_t field_of(struct redis_server_info *info, const char *name)
{
	int error;

	return redis->ServerInfoGetFieldUnsigned(info, name, &error);
}

static int on_key(struct redis_context *context, int type, const char *event,
		  struct redis_string *name)
{
	bool is_expired = type & REDIS_NOTIFY_EXPIRED;
	uint32_t database;
	const char *text;
	struct key key;
	size_t bytes;

	(void)event;
	if (is_expired ? !redis_key_expired_enabled() : !redis_key_evicted_enabled())
		return REDIS_OK;
	database = (uint32_t)redis->GetSelectedDb(context);
	text = redis->StringPtrLen(name, &bytes);
	key = key_of(text, bytes);
	if (is_expired)
		redis_key_expired(database, key.hash, key.name, key.bytes);
	else
		redis_key_evicted(database, key.hash, key.name, key.bytes);
	return REDIS_OK;
}

static void on_client(uint64_t subevent, const void *data)
{
	const struct redis_client_info *client = data;

	if (subevent == 0) {
		redis_client_connected(client->id, client->address, client->port);
		return;
	}
	client_trace_remove(client->id);
	/* The server is walking through the subscriptions now, so none may be removed here. */
	if (has_events && !are_events_wanted())
		event_loop_update_soon();
	redis_client_disconnected(client->id, client->address, client->port);
}

/* A save by the process itself. A child's copy of the module gets these events, too. */
static void on_persistence(uint64_t subevent)
{
	static const char *kind = "RDB";
	const char *state = "started";

	if (subevent == REDIS_PERSISTENCE_ENDED || subevent == REDIS_PERSISTENCE_FAILED)
		state = subevent == REDIS_PERSISTENCE_ENDED ? "ended" : "failed";
	else
		kind = subevent == REDIS_RDB_START || subevent == REDIS_SYNC_RDB_START ? "RDB"
										      : "AOF";
	redis_persistence(kind, state, false);
}

/* A child is born or died. The server allows one at a time. */
static void on_child(struct redis_context *context, uint64_t subevent)
{
	static const char *kind = "unknown";
	static bool is_rdb, is_aof;
	struct redis_server_info *info = redis->GetServerInfo(context, "persistence");
	const char *last;

	if (!info)
		return;
	if (subevent == 0) {
		is_rdb = field_of(info, "rdb_bgsave_in_progress");
		is_aof = field_of(info, "aof_rewrite_in_progress");
		kind = is_rdb ? "RDB" : is_aof ? "AOF" : "unknown";
		redis_persistence(kind, "started", true);
	} else {
		last = redis->ServerInfoGetFieldC(info, is_rdb ? "rdb_last_bgsave_status"
							       : "aof_last_bgrewrite_status");
		redis_persistence(kind, (is_rdb || is_aof) && last && strcmp(last, "ok") != 0 ?
				  "failed" : "ended", true);
	}
	redis->FreeServerInfo(context, info);
}

static void on_loading(uint64_t subevent)
{
	static const char *const kinds[] = { "RDB", "AOF", "from the master" };
	static const char *kind = "RDB";

	if (subevent < 3)
		kind = kinds[subevent];
	redis_loading(kind, subevent < 3 ? "started" : subevent == 3 ? "ended" : "failed");
}

struct total {
	const char *name;
	struct rp_counter *(*counter)(void);
	uint64_t before;
};

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

/* Reads the totals, which grew also while no session ran. `added`: a session runs since then. */
static void read_counters(struct redis_context *context, bool added)
{
	static struct total totals[] = {
		{ "total_commands_processed", redis_commands_counter, 0 },
		{ "expired_keys", redis_keys_expired_counter, 0 },
		{ "evicted_keys", redis_keys_evicted_counter, 0 },
		{ "keyspace_hits", redis_keyspace_hits_counter, 0 },
		{ "keyspace_misses", redis_keyspace_misses_counter, 0 },
		{ "total_net_input_bytes", redis_bytes_received_counter, 0 },
		{ "total_net_output_bytes", redis_bytes_sent_counter, 0 },
	};
	struct redis_server_info *info = redis->GetServerInfo(context, "stats");

	for (size_t i = 0; info && i < sizeof(totals) / sizeof(totals[0]); i++) {
		uint64_t now = field_of(info, totals[i].name), before = totals[i].before;

		/* CONFIG RESETSTAT sets the totals to 0. */
		if (added)
			rp_counter_add(totals[i].counter(),
				       (int64_t)(now >= before ? now - before : now));
		totals[i].before = now;
	}
	if (info)
		redis->FreeServerInfo(context, info);
	info = redis->GetServerInfo(context, "memory");
	if (info) {
		redis_memory_set((double)field_of(info, "used_memory"));
		redis->FreeServerInfo(context, info);
	}
}

static void on_event(struct redis_context *context, struct redis_event event, uint64_t subevent,
		     void *data)
{
	const struct redis_flush_info *flush = data;
	const struct redis_replication_info *now = data;

	switch (event.id) {
	case REDIS_EVENT_LOOP:
		if (subevent == 0) {
			command_end_all();
			slow_log_read(context, false);
		}
		break;
	case REDIS_CRON:
		read_clients(context);
		break;
	case REDIS_CONFIG:
		slow_log_configure(context);
		break;
	case REDIS_CLIENT_CHANGE:
		on_client(subevent, data);
		break;
	case REDIS_FLUSH:
		if (subevent == 0 && flush)
			redis_flushed(flush->database, flush->is_synchronous != 0);
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
		redis_role_changed(now->is_master ? "master" : "replica",
				   now->is_master ? NULL : now->master_host,
				   now->is_master ? 0 : now->master_port);
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
	REDIS_CLIENT_CHANGE, REDIS_FLUSH, REDIS_PERSISTENCE, REDIS_FORK_CHILD, REDIS_LOADING,
	REDIS_SHUTDOWN, REDIS_ROLE_CHANGED, REDIS_REPLICA_CHANGE, REDIS_MASTER_LINK,
};

static void subscribe(uint64_t id, bool is_wanted)
{
	struct redis_event event = { id, 1 };

	redis->SubscribeToServerEvent(own_context, event, is_wanted ? on_event : NULL);
}

static bool are_events_wanted(void)
{
	return redis_flushed_enabled() || redis_client_connected_enabled() ||
	       redis_client_disconnected_enabled() || redis_persistence_enabled() ||
	       redis_loading_enabled() || redis_shutdown_enabled() ||
	       redis_role_changed_enabled() || redis_replica_enabled() ||
	       redis_master_link_enabled() || tracing_stats.traced_clients;
}

/* Return whether something begins or ends to be wanted. */
static bool has_changed(bool *has, bool is_wanted)
{
	bool had = *has;

	*has = is_wanted;
	return had != is_wanted;
}

void server_update(void)
{
	/* The server has no function that ends this subscription. */
	if (!has_keys && (redis_key_expired_enabled() || redis_key_evicted_enabled()))
		has_keys = !redis->SubscribeToKeyspaceEvents(
			own_context, REDIS_NOTIFY_EXPIRED | REDIS_NOTIFY_EVICTED, on_key);
	if (has_changed(&has_events, are_events_wanted()))
		for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
			subscribe(watched[i], has_events);
	if (has_changed(&has_commands, command_is_wanted())) {
		command_end_all();
		subscribe(REDIS_EVENT_LOOP, has_commands);
		subscribe(REDIS_CONFIG, has_commands);
		if (has_commands) {
			/* Modules may have added commands since the last session. */
			command_table_read(own_context);
			slow_log_configure(own_context);
		}
		watch_commands(has_commands);
	}
	if (has_changed(&has_slow_log, redis_slow_command_enabled()) && has_slow_log)
		slow_log_read(own_context, true);
	if (has_changed(&has_cron, redis_clients_blocked_enabled()))
		subscribe(REDIS_CRON, has_cron);
}

void server_tick(void)
{
	bool had_session = has_session;

	has_session = atomic_load(&event_loop_has_session);
	if (has_session) {
		read_counters(own_context, had_session);
		read_clients(own_context);
	}
	server_update();
}

static void add_info(struct redis_info *info)
{
	redis->InfoAddFieldULongLong(info, "session", has_session);
	redis->InfoAddFieldULongLong(info, "spans", tracing_stats.spans);
	redis->InfoAddFieldULongLong(info, "slow_commands", tracing_stats.slow_commands);
	redis->InfoAddFieldULongLong(info, "traced_clients", tracing_stats.traced_clients);
}

static void stop(void)
{
	event_loop_end();
	command_end_all();
	/* No event of a client's end comes until the module is loaded again. */
	client_trace_remove_all();
	redis = NULL;
}

int ringpipe_tracing_start(struct redis_context *context, const struct redis_api *api,
			   bool shows_keys, tracing_watch_commands watch,
			   struct tracing *ret_tracing)
{
	redis = api;
	own_context = redis->GetDetachedThreadSafeContext(context);
	watch_commands = watch;
	has_keys = has_events = has_commands = has_session = has_slow_log = has_cron = false;
	ret_tracing->begin_command = command_begin;
	ret_tracing->set_trace = client_trace_set;
	ret_tracing->add_info = add_info;
	ret_tracing->stop = stop;
	if (key_init(shows_keys) != REDIS_OK || event_loop_begin() != REDIS_OK)
		return REDIS_ERROR;
	/* The server may load its data next. */
	server_update();
	return REDIS_OK;
}
