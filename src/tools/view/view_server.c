/* SPDX-License-Identifier: MIT */
#include "tools/view/view_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <microhttpd.h>

#include "tools/cli/tool.h"
#include "tools/view/view_page.h"

#define TOKEN_BYTES 16
#define POLICY_BYTES 1024
#define CONNECTIONS 64u
#define THREADS 2u
#define IDLE_SECONDS 120u

#define POLICY_START "default-src 'none'"

struct rp_view_server {
	const struct rp_traces *view;
	struct MHD_Daemon *daemon;
	char token[2 * TOKEN_BYTES + 1];
	char hosts[2][32];		/* that a request may name */
	char policy[POLICY_BYTES];
	char url[128];
};

/* The page has its policy in an element <meta>, which cannot forbid frames. */
static void set_policy(struct rp_view_server *server)
{
	const char *page = (const char *)rp_view_page;
	const char *start = memmem(page, rp_view_page_bytes, POLICY_START, strlen(POLICY_START));
	const char *end = start ? memchr(start, '"', (size_t)(page + rp_view_page_bytes - start)) :
			  NULL;

	if (!end || (size_t)(end - start) > POLICY_BYTES - 64 ||
	    memchr(start, '\n', (size_t)(end - start))) {
		start = POLICY_START "; base-uri 'none'; form-action 'none'";
		end = start + strlen(start);
	}
	snprintf(server->policy, sizeof(server->policy), "%.*s; frame-ancestors 'none'",
		 (int)(end - start), start);
}

static enum MHD_Result send_bytes(const struct rp_view_server *server,
				  struct MHD_Connection *connection, unsigned int status,
				  const char *type, const void *bytes, size_t size,
				  enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(size, (void *)bytes, mode);
	const char *const headers[][2] = {
		{ "Content-Type", type },
		{ "Content-Security-Policy", server->policy },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Cache-Control", "no-store" },
	};
	enum MHD_Result result = MHD_YES;

	if (!response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free((void *)bytes);
		return MHD_NO;
	}
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		if (result == MHD_YES)
			result = MHD_add_response_header(response, headers[i][0], headers[i][1]);
	}
	if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		result = MHD_add_response_header(response, "Allow", "GET");
	if (result == MHD_YES)
		result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result send_error(const struct rp_view_server *server,
				  struct MHD_Connection *connection, unsigned int status,
				  const char *object)
{
	return send_bytes(server, connection, status, "application/json", object, strlen(object),
			  MHD_RESPMEM_PERSISTENT);
}

struct parameters {
	struct rp_view_query *query;
	bool is_wrong;
};

static enum MHD_Result take_parameter(void *data, enum MHD_ValueKind kind, const char *key,
				      const char *value)
{
	struct parameters *parameters = data;

	(void)kind;
	if (rp_view_query_set(parameters->query, key, value) < 0)
		parameters->is_wrong = true;
	return MHD_YES;
}

static enum MHD_Result send_answer(const struct rp_view_server *server,
				   struct MHD_Connection *connection, const char *what)
{
	struct rp_format_out out;
	struct rp_view_query query;
	struct parameters parameters = { .query = &query };
	enum rp_view_status status;
	char *bytes;

	rp_view_query_init(&query, what);
	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_parameter, &parameters);
	if (parameters.is_wrong)
		return send_error(server, connection, MHD_HTTP_BAD_REQUEST,
				  "{\"error\":\"A parameter is unknown, or its value is wrong.\"}");
	if (rp_out_init(&out, NULL) < 0)
		return MHD_NO;
	status = rp_view_answer(server->view, &query, &out);
	if (out.error) {
		rp_out_fini(&out);
		return send_error(server, connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
				  "{\"error\":\"There is no memory.\"}");
	}
	bytes = out.buffer;
	out.buffer = NULL;
	return send_bytes(server, connection, (unsigned int)status, "application/json", bytes,
			  out.used, MHD_RESPMEM_MUST_FREE);
}

static bool names_server(const struct rp_view_server *server, struct MHD_Connection *connection)
{
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						       MHD_HTTP_HEADER_HOST);

	return host && (!strcasecmp(host, server->hosts[0]) ||
			!strcasecmp(host, server->hosts[1]));
}

/* Compare in a time that does not depend on where the texts differ. */
static bool has_token(const struct rp_view_server *server, const char *path)
{
	const size_t length = sizeof(server->token) - 1;
	unsigned int difference = 0;

	if (strnlen(path, length + 2) < length + 2)
		return false;
	for (size_t i = 0; i < length; i++)
		difference |= (unsigned int)(path[i + 1] ^ server->token[i]);
	return *path == '/' && difference == 0 && path[length + 1] == '/';
}

static enum MHD_Result handle(void *data, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **state)
{
	static const char api[] = "api/";
	const struct rp_view_server *server = data;

	(void)version;
	(void)upload;
	/* A request that is refused may have a body, which is ignored. */
	if (!*state) {
		*state = (void *)server;
		if (!strcmp(method, MHD_HTTP_METHOD_GET))
			return MHD_YES;
	}
	*upload_bytes = 0;
	if (!names_server(server, connection))
		return send_error(server, connection, MHD_HTTP_FORBIDDEN,
				  "{\"error\":\"The Host header does not name this server.\"}");
	if (!has_token(server, path))
		return send_error(server, connection, MHD_HTTP_NOT_FOUND,
				  "{\"error\":\"There is no such page.\"}");
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return send_error(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				  "{\"error\":\"Only GET is possible.\"}");
	path += sizeof(server->token) + 1;
	if (!*path)
		return send_bytes(server, connection, MHD_HTTP_OK, "text/html; charset=utf-8",
				  rp_view_page, rp_view_page_bytes, MHD_RESPMEM_PERSISTENT);
	if (strncmp(path, api, strlen(api)) != 0)
		return send_error(server, connection, MHD_HTTP_NOT_FOUND,
				  "{\"error\":\"There is no such page.\"}");
	return send_answer(server, connection, path + strlen(api));
}

static int set_token(struct rp_view_server *server)
{
	uint8_t bytes[TOKEN_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(server->token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int start(struct rp_view_server *server, uint16_t port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const union MHD_DaemonInfo *info;
	unsigned int bound;
	int ret = set_token(server);

	if (ret)
		return ret;
	errno = 0;
	/*
	 * select(2): while the limit of connections is reached, libmicrohttpd 0.9.75 with epoll(7)
	 * misses that clients close connections, and with poll(2) it does not end.
	 */
	server->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, server,
		MHD_OPTION_SOCK_ADDR, (const struct sockaddr *)&address,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_THREAD_POOL_SIZE, THREADS,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_END);
	if (!server->daemon)
		return errno ? -errno : -EIO;
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
	bound = info ? info->port : port;
	snprintf(server->hosts[0], sizeof(server->hosts[0]), "127.0.0.1:%u", bound);
	snprintf(server->hosts[1], sizeof(server->hosts[1]), "localhost:%u", bound);
	snprintf(server->url, sizeof(server->url), "http://%s/%s/", server->hosts[0],
		 server->token);
	return 0;
}

int rp_view_server_start(const struct rp_traces *view, uint16_t port,
			 struct rp_view_server **ret_server)
{
	struct rp_view_server *server = calloc(1, sizeof(*server));
	int ret = -ENOMEM;

	if (server) {
		server->view = view;
		set_policy(server);
		ret = start(server, port);
	}
	if (ret) {
		rp_tool_error("view: cannot serve on port %u: %s", port, strerror(-ret));
		free(server);
		return ret;
	}
	*ret_server = server;
	return 0;
}

const char *rp_view_server_url(const struct rp_view_server *server)
{
	return server->url;
}

void rp_view_server_stop(struct rp_view_server *server)
{
	MHD_stop_daemon(server->daemon);
	free(server);
}
