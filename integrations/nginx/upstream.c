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

/* An upstream of the configuration. */
struct upstream {
	ngx_http_upstream_srv_conf_t *nginx;
	ngx_http_upstream_init_peer_pt init_peer;
	struct rp_counter *requests;
	struct rp_counter *time;
};

/* The functions by which a request chooses its servers, and the server that it uses. */
struct peer {
	ngx_http_request_t *r;
	const ngx_str_t *host;
	struct rp_counter *requests, *time;
	void *data;
	ngx_event_get_peer_pt get;
	ngx_event_free_peer_pt free;
	ngx_event_notify_peer_pt notify;
#if (NGX_SSL || NGX_COMPAT)
	ngx_event_set_peer_session_pt set_session;
	ngx_event_save_peer_session_pt save_session;
#endif
	uint64_t begun_ns;
	struct rp_span span;
};

static void begin(const ngx_peer_connection_t *connection, struct peer *peer)
{
	const struct ringpipe_request *request = ringpipe_request_of(peer->r->main);
	struct rp_activity before, inner;

	peer->begun_ns = ringpipe_now_ns();
	if (!request || request->begun_ns == 0 || !(request->spans & RINGPIPE_SPANS_UPSTREAM) ||
	    !(nginx_upstream_start_enabled() || nginx_upstream_stop_enabled()))
		return;
	rp_activity_get(&before);
	rp_activity_set(&request->activity);
	rp_span_begin(&peer->span, &inner);
	nginx_upstream_start((const char *)peer->host->data, peer->host->len,
			     (const char *)connection->name->data, connection->name->len);
	rp_activity_set(&before);
}

static void end(const ngx_peer_connection_t *connection, struct peer *peer, ngx_uint_t result)
{
	const ngx_http_upstream_state_t *state = peer->r->upstream->state;
	const ngx_str_t *name = connection->name;
	struct rp_activity before;
	uint64_t duration_ns;

	if (peer->begun_ns == 0)
		return;
	rp_counter_add(peer->requests, 1);
	rp_counter_record(peer->time, (double)(ringpipe_now_ns() - peer->begun_ns) / 1e6);
	peer->begun_ns = 0;
	if (peer->span.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&peer->span, &before);
	nginx_upstream_stop((const char *)peer->host->data, peer->host->len,
			    name ? (const char *)name->data : "", name ? name->len : 0,
			    (uint16_t)(state ? state->status : 0),
			    state ? (uint64_t)state->bytes_received : 0,
			    state ? (int64_t)(ngx_msec_int_t)state->connect_time : -1,
			    (result & NGX_PEER_FAILED) != 0, duration_ns);
	rp_activity_end(&before);
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

	end(connection, peer, result);
	peer->free(connection, peer->data, result);
}

static void notify_peer(ngx_peer_connection_t *connection, void *data, ngx_uint_t type)
{
	struct peer *peer = data;

	peer->notify(connection, peer->data, type);
}

#if (NGX_SSL || NGX_COMPAT)

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

#endif

static int compare(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct upstream *)a)->nginx;
	uintptr_t y = (uintptr_t)((const struct upstream *)b)->nginx;

	return (x > y) - (x < y);
}

/* Puts the module between nginx and the functions of a request. */
static struct peer *add_peer(ngx_http_request_t *r, const ngx_str_t *host,
			     struct rp_counter *requests, struct rp_counter *time)
{
	ngx_peer_connection_t *connection = &r->upstream->peer;
	struct peer *peer = ngx_pcalloc(r->pool, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->r = r;
	peer->host = host;
	peer->requests = requests;
	peer->time = time;
	peer->data = connection->data;
	peer->get = connection->get;
	peer->free = connection->free;
	connection->data = peer;
	connection->get = get_peer;
	connection->free = free_peer;
	if (connection->notify) {
		peer->notify = connection->notify;
		connection->notify = notify_peer;
	}
#if (NGX_SSL || NGX_COMPAT)
	if (connection->set_session) {
		peer->set_session = connection->set_session;
		connection->set_session = set_session;
	}
	if (connection->save_session) {
		peer->save_session = connection->save_session;
		connection->save_session = save_session;
	}
#endif
	return peer;
}

static ngx_int_t init_peer(ngx_http_request_t *r, ngx_http_upstream_srv_conf_t *nginx)
{
	const struct upstream key = { .nginx = nginx };
	const struct ringpipe_main *ours =
		ngx_http_get_module_main_conf(r, ngx_http_ringpipe_module);
	const struct upstream *upstream =
		bsearch(&key, ours->upstreams, ours->upstream_count, sizeof(key), compare);

	if (!upstream || upstream->init_peer(r, nginx) != NGX_OK)
		return NGX_ERROR;
	return add_peer(r, &nginx->host, upstream->requests, upstream->time) ? NGX_OK : NGX_ERROR;
}

static ngx_resolver_handler_pt nginx_on_resolved;	/* the same for all requests */

static void on_resolved(ngx_resolver_ctx_t *resolved)
{
	ngx_http_request_t *r = resolved->data;
	struct ringpipe_watch watch;

	ringpipe_watch_begin(&watch, r);
	nginx_on_resolved(resolved);
	if (ringpipe_watch_end(&watch))
		ringpipe_upstream_follow(r);
}

static void on_body(ngx_http_request_t *r)
{
	struct ringpipe_watch watch;

	ringpipe_watch_begin(&watch, r);
	ngx_http_upstream_init(r);
	if (ringpipe_watch_end(&watch))
		ringpipe_upstream_follow(r);
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
		peer = add_peer(r, &u->resolved->host, nginx_upstream_requests_counter(),
				nginx_upstream_time_counter());
		if (peer)
			begin(&u->peer, peer);
	} else if (u->resolved->ctx && u->resolved->ctx->handler != on_resolved) {
		nginx_on_resolved = u->resolved->ctx->handler;
		u->resolved->ctx->handler = on_resolved;
	} else if (r->request_body && r->request_body->post_handler == ngx_http_upstream_init) {
		r->request_body->post_handler = on_body;
	}
}

static ngx_int_t count(ngx_pool_t *pool, struct upstream *upstream)
{
	struct rp_counter_tag tag = { .key = "upstream" };
	const ngx_str_t *host = &upstream->nginx->host;
	char *name = ngx_pnalloc(pool, host->len + 1);

	if (!name)
		return NGX_ERROR;
	ngx_memcpy(name, host->data, host->len);
	name[host->len] = 0;
	tag.value = name;
	if (rp_counter_series(nginx_upstream_requests_counter(), &tag, 1, &upstream->requests) < 0)
		upstream->requests = nginx_upstream_requests_counter();
	if (rp_counter_series(nginx_upstream_time_counter(), &tag, 1, &upstream->time) < 0)
		upstream->time = nginx_upstream_time_counter();
	return NGX_OK;
}

ngx_int_t ringpipe_upstream_init(ngx_conf_t *cf)
{
	ngx_http_upstream_main_conf_t *main =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);
	ngx_http_upstream_srv_conf_t **nginx = main->upstreams.elts;
	struct ringpipe_main *ours =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_ringpipe_module);

	ours->upstreams = ngx_pcalloc(cf->pool,
				      main->upstreams.nelts * sizeof(*ours->upstreams) + 1);
	if (!ours->upstreams)
		return NGX_ERROR;
	for (ngx_uint_t i = 0; i < main->upstreams.nelts; i++) {
		struct upstream *upstream = &ours->upstreams[ours->upstream_count];

		if (!nginx[i]->peer.init || nginx[i]->peer.init == init_peer)
			continue;
		upstream->nginx = nginx[i];
		upstream->init_peer = nginx[i]->peer.init;
		if (count(cf->pool, upstream) != NGX_OK)
			return NGX_ERROR;
		nginx[i]->peer.init = init_peer;
		ours->upstream_count++;
	}
	qsort(ours->upstreams, ours->upstream_count, sizeof(*ours->upstreams), compare);
	return NGX_OK;
}
