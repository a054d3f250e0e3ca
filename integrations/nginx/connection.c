/* SPDX-License-Identifier: MIT */
/* Connections of clients and their TLS handshakes. */
#include "module.h"

#include "events.h"

struct connection {
	uint64_t number;
	struct rp_span span;
	struct rp_span handshake;
};

static void end_handshake(struct connection *connection, const char *protocol, const char *cipher,
			  bool is_resumed, bool failed)
{
	struct rp_activity before;
	uint64_t duration_ns;

	if (connection->handshake.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&connection->handshake, &before);
	nginx_tls_handshake_stop(connection->number, protocol, cipher, is_resumed, failed,
				 duration_ns);
	rp_activity_end(&before);
}

static void on_close(void *data)
{
	struct connection *connection = data;

	/* The client may leave within the handshake. */
	end_handshake(connection, "", "", false, true);
	nginx_connections_add(-1);
	nginx_connection_end(&connection->span);
}

static struct connection *find(const ngx_connection_t *c)
{
	for (ngx_pool_cleanup_t *cleanup = c->pool->cleanup; cleanup; cleanup = cleanup->next)
		if (cleanup->handler == on_close)
			return cleanup->data;
	return NULL;
}

/* Replaces ngx_http_init_connection(). */
static void on_accept(ngx_connection_t *c)
{
	ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(c->pool, sizeof(struct connection));

	if (cleanup) {
		struct connection *connection = cleanup->data;

		ngx_memzero(connection, sizeof(*connection));
		connection->number = c->number;
		cleanup->handler = on_close;
		nginx_connections_add(1);
		nginx_connection_begin(&connection->span, c->number,
				       (const char *)c->addr_text.data, c->addr_text.len);
	}
	ngx_http_init_connection(c);
}

void ringpipe_connection_init(ngx_cycle_t *cycle)
{
	ngx_listening_t *listening = cycle->listening.elts;

	for (ngx_uint_t i = 0; i < cycle->listening.nelts; i++)
		if (listening[i].handler == ngx_http_init_connection)
			listening[i].handler = on_accept;
}

extern ngx_module_t ngx_http_ssl_module;

/* The same for all of nginx's contexts. */
static void (*nginx_callback)(const SSL *ssl, int where, int ret);

static void begin_handshake(struct connection *connection)
{
	struct rp_activity before, inner;

	if (!nginx_tls_handshake_start_enabled() && !nginx_tls_handshake_stop_enabled())
		return;
	rp_activity_get(&before);
	if (connection->span.begun_ns)
		rp_activity_set(&connection->span.activity);
	rp_span_begin(&connection->handshake, &inner);
	nginx_tls_handshake_start(connection->number);
	rp_activity_set(&before);
}

static void on_tls(const SSL *ssl, int where, int ret)
{
	ngx_connection_t *c = ngx_ssl_get_connection((SSL *)ssl);
	struct connection *connection = c ? find(c) : NULL;

	/* After the handshake, such calls report tickets and renegotiation. */
	if (connection && c->ssl && !c->ssl->handshaked) {
		if ((where & SSL_CB_HANDSHAKE_START) && connection->handshake.begun_ns == 0)
			begin_handshake(connection);
		else if (where & SSL_CB_HANDSHAKE_DONE)
			end_handshake(connection, SSL_get_version(ssl), SSL_get_cipher_name(ssl),
				      SSL_session_reused(ssl), false);
		else if ((where & SSL_CB_ALERT) && (where & SSL_CB_WRITE))
			end_handshake(connection, SSL_get_version(ssl), SSL_get_cipher_name(ssl),
				      false, true);
	}
	if (nginx_callback)
		nginx_callback(ssl, where, ret);
}

void ringpipe_tls_init(ngx_conf_t *cf)
{
	ngx_http_core_main_conf_t *core =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
	ngx_http_core_srv_conf_t **servers = core->servers.elts;

	for (ngx_uint_t i = 0; i < core->servers.nelts; i++) {
		ngx_http_ssl_srv_conf_t *tls =
			servers[i]->ctx->srv_conf[ngx_http_ssl_module.ctx_index];

		if (!tls || !tls->ssl.ctx || SSL_CTX_get_info_callback(tls->ssl.ctx) == on_tls)
			continue;
		nginx_callback = SSL_CTX_get_info_callback(tls->ssl.ctx);
		SSL_CTX_set_info_callback(tls->ssl.ctx, on_tls);
	}
}
