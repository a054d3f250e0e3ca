/* SPDX-License-Identifier: MIT */
/*
 * Requests to upstream servers: one span for each server that is tried. The module stands between
 * nginx and the functions that choose the server of a request (struct ngx_peer_connection_s). nginx
 * offers a place for them in each upstream of the configuration, but none for a name that contains
 * variables and is no such upstream. There, the module looks for the server after nginx has chosen
 * it, so a server that refuses the connection immediately has no span.
 */
#include "module.h"

#include "events.h"

/* The counts of the upstreams of a name. They stay, because another thread reads them. */
struct upstream_total {
	struct upstream_total *next;
	uint64_t requests;
	struct rp_counter *time;
	char name[];	/* "": of all that follow, because a counter has a limit of series */
};

static struct upstream_total *totals;

/* nginx uses the lower bits of an upstream's flags. The upper ones are its index in our table. */
#define INDEX_SHIFT 16

/* An upstream of the configuration. */
struct upstream {
	ngx_http_upstream_init_peer_pt init_peer;
	struct upstream_total *total;
};

/* The functions by which a request chooses its servers, and the server that it uses. */
struct peer {
	ngx_http_request_t *r;
	const ngx_str_t *host;
	struct rp_counter *time;	/* NULL: not counted */
	void *data;
	ngx_event_get_peer_pt get;
	ngx_event_free_peer_pt free;
	ngx_event_notify_peer_pt notify;
	ngx_event_set_peer_session_pt set_session;
	ngx_event_save_peer_session_pt save_session;
	uint64_t begun_ns;
	struct rp_span span;
};

static inline bool is_traced(void)
{
	return nginx_upstream_start_enabled() | nginx_upstream_stop_enabled();
}

static void begin(const ngx_peer_connection_t *connection, struct peer *peer)
{
	const struct ringpipe_request *request = ringpipe_request_of(peer->r->main);
	struct rp_activity before, inner;

	peer->begun_ns = peer->time ? ringpipe_now_ns() : 0;
	if (!request || !(request->spans & RINGPIPE_SPANS_UPSTREAM) || !is_traced())
		return;
	rp_activity_get(&before);
	rp_activity_set(&request->activity);
	rp_span_begin(&peer->span, &inner);
	nginx_upstream_start((const char *)peer->host->data, peer->host->len,
			     (const char *)connection->name->data, connection->name->len);
	rp_activity_set(&before);
}

static ngx_int_t get_peer(ngx_peer_connection_t *connection, void *data)
{
	struct peer *peer = data;
	ngx_int_t ret = peer->get(connection, peer->data);

	if (ret == NGX_OK || ret == NGX_DONE || ret == NGX_AGAIN)
		begin(connection, peer);
	return ret;
}

static void free_peer(ngx_peer_connection_t *connection, void *data, ngx_uint_t result)
{
	struct peer *peer = data;
	const ngx_http_upstream_state_t *state = peer->r->upstream->state;
	const ngx_str_t *name = connection->name;
	struct rp_activity before;
	uint64_t duration_ns;

	if (peer->begun_ns)
		rp_counter_record(peer->time, (double)(ringpipe_now_ns() - peer->begun_ns) / 1e6);
	peer->begun_ns = 0;
	if (peer->span.begun_ns) {
		duration_ns = rp_span_end(&peer->span, &before);
		nginx_upstream_stop((const char *)peer->host->data, peer->host->len,
				    name ? (const char *)name->data : "", name ? name->len : 0,
				    (uint16_t)(state ? state->status : 0),
				    state ? (uint64_t)state->bytes_received : 0,
				    state ? (int64_t)(ngx_msec_int_t)state->connect_time : -1,
				    (result & NGX_PEER_FAILED) != 0, duration_ns);
		rp_activity_end(&before);
	}
	peer->free(connection, peer->data, result);
}

static void notify_peer(ngx_peer_connection_t *connection, void *data, ngx_uint_t type)
{
	struct peer *peer = data;

	peer->notify(connection, peer->data, type);
}

static ngx_int_t set_session(ngx_peer_connection_t *connection, void *data)
{
	struct peer *peer = data;

	return peer->set_session(connection, peer->data);
}

static void save_session(ngx_peer_connection_t *connection, void *data)
{
	struct peer *peer = data;

	peer->save_session(connection, peer->data);
}

/* Puts the module between nginx and the functions of a request. */
static struct peer *add_peer(ngx_http_request_t *r, const ngx_str_t *host, struct rp_counter *time)
{
	ngx_peer_connection_t *connection = &r->upstream->peer;
	struct peer *peer = ngx_pcalloc(r->pool, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->r = r;
	peer->host = host;
	peer->time = time;
	peer->data = connection->data;
	peer->get = connection->get;
	peer->free = connection->free;
	connection->data = peer;
	connection->get = get_peer;
	connection->free = free_peer;
	peer->notify = connection->notify;
	if (connection->notify)
		connection->notify = notify_peer;
	peer->set_session = connection->set_session;
	if (connection->set_session)
		connection->set_session = set_session;
	peer->save_session = connection->save_session;
	if (connection->save_session)
		connection->save_session = save_session;
	return peer;
}

static __attribute__((noinline)) ngx_int_t init_observed_peer(ngx_http_request_t *r,
							      ngx_http_upstream_srv_conf_t *nginx,
							      const struct upstream *upstream)
{
	return upstream->init_peer(r, nginx) == NGX_OK &&
		add_peer(r, &nginx->host, ringpipe_load(&ringpipe_is_observed) ?
			 upstream->total->time : NULL) ? NGX_OK : NGX_ERROR;
}

static ngx_int_t init_peer(ngx_http_request_t *r, ngx_http_upstream_srv_conf_t *nginx)
{
	const struct ringpipe_main *ours =
		ngx_http_get_module_main_conf(r, ngx_http_ringpipe_module);
	const struct upstream *upstream = &ours->upstreams[nginx->flags >> INDEX_SHIFT];

	ringpipe_add(&upstream->total->requests, 1);
	if (is_traced() | (ringpipe_load(&ringpipe_is_observed) != 0))
		return init_observed_peer(r, nginx, upstream);
	return upstream->init_peer(r, nginx);
}

static ngx_resolver_handler_pt nginx_on_resolved;	/* the same for all requests */

static void on_resolved(ngx_resolver_ctx_t *resolved)
{
	ngx_http_request_t *r = resolved->data;
	struct ringpipe_watch watch;

	ringpipe_watch_begin(&watch, r);
	nginx_on_resolved(resolved);
	ringpipe_watch_end(&watch, r);
}

static void on_body(ngx_http_request_t *r)
{
	struct ringpipe_watch watch;

	ringpipe_watch_begin(&watch, r);
	ngx_http_upstream_init(r);
	ringpipe_watch_end(&watch, r);
}

/* Finds the server of a request that nginx has begun, or waits until nginx can choose one. */
void ringpipe_upstream_follow(ngx_http_request_t *r)
{
	ngx_http_upstream_t *u = r->upstream;
	struct peer *peer;

	if (!u || !u->resolved || u->peer.get == get_peer)
		return;
	if (u->peer.get && u->peer.connection && u->peer.name) {
		/* Names that clients choose are no tags of counters, because they have no limit. */
		peer = add_peer(r, &u->resolved->host, NULL);
		if (peer)
			begin(&u->peer, peer);
	} else if (u->resolved->ctx && u->resolved->ctx->handler != on_resolved) {
		nginx_on_resolved = u->resolved->ctx->handler;
		u->resolved->ctx->handler = on_resolved;
	} else if (r->request_body && r->request_body->post_handler == ngx_http_upstream_init) {
		r->request_body->post_handler = on_body;
	}
}

int ringpipe_observe_upstreams(struct rp_observation *observation, void *data)
{
	const struct upstream_total *total = __atomic_load_n(&totals, __ATOMIC_ACQUIRE);
	int ret = 0;

	(void)data;
	for (; total && ret == 0; total = __atomic_load_n(&total->next, __ATOMIC_ACQUIRE)) {
		struct rp_counter_tag tag = { "upstream", total->name };

		ret = rp_observe(observation, (double)ringpipe_load(&total->requests), &tag,
				 total->name[0] != 0);
	}
	return ret;
}

/* Finds the counts of a name, also those of a former configuration, or creates them. */
static struct upstream_total *find_or_create_total(const ngx_str_t *name)
{
	struct rp_counter_tag tag = { .key = "upstream" };
	struct upstream_total *total, **at = &totals;
	int ret;

	for (; *at; at = &(*at)->next)
		if ((*at)->name[0] == 0 || (strlen((*at)->name) == name->len &&
					    ngx_memcmp((*at)->name, name->data, name->len) == 0))
			return *at;
	total = calloc(1, sizeof(*total) + name->len + 1);
	if (!total)
		return NULL;
	tag.value = memcpy(total->name, name->data, name->len);
	ret = rp_counter_series(nginx_upstream_time_counter(), &tag, 1, &total->time);
	if (ret < 0)
		total->time = nginx_upstream_time_counter();
	if (ret == -ENOSPC)
		total->name[0] = 0;
	__atomic_store_n(at, total, __ATOMIC_RELEASE);
	return total;
}

ngx_int_t ringpipe_upstream_init(ngx_conf_t *cf)
{
	ngx_http_upstream_main_conf_t *main =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);
	ngx_http_upstream_srv_conf_t **nginx = main->upstreams.elts;
	struct ringpipe_main *ours =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_ringpipe_module);

	ours->upstreams = ngx_pcalloc(cf->pool, main->upstreams.nelts * sizeof(*ours->upstreams));
	if (!ours->upstreams)
		return NGX_ERROR;
	for (ngx_uint_t i = 0; i < main->upstreams.nelts; i++) {
		struct upstream *upstream = &ours->upstreams[i];

		if (!nginx[i]->peer.init || nginx[i]->peer.init == init_peer)
			continue;
		upstream->init_peer = nginx[i]->peer.init;
		upstream->total = find_or_create_total(&nginx[i]->host);
		if (!upstream->total)
			return NGX_ERROR;
		nginx[i]->flags |= i << INDEX_SHIFT;
		nginx[i]->peer.init = init_peer;
	}
	return NGX_OK;
}
