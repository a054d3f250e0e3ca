/* SPDX-License-Identifier: MIT */
/*
 * An application server: GET /order/N answers from redis, or else from PostgreSQL. It passes the
 * trace of the request to redis by the command of ringpipe's module, and to PostgreSQL by a comment
 * in the statement.
 *
 * usage: stack-app REDIS_SOCKET POSTGRESQL_OPTIONS
 *
 * It prints its address, and ends when its input ends.
 */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <postgresql/libpq-fe.h>
#include <ringpipe/ringpipe.h>

#define THREADS 4u
#define CACHED_SECONDS 60

RP_PROVIDER(stack_app, "Stack-App");
RP_EVENT_EX(stack_app, request_start, (RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{0}")),
	    RP_STRING(path));
RP_EVENT_EX(stack_app, request_stop, (RP_OPCODE(RP_OPCODE_STOP),
	    RP_MESSAGE("{0} in {2} ns, cached: {1}")), RP_U16(status), RP_BOOL(is_cached),
	    RP_U64(duration_ns));
RP_SPAN(stack_app, cache, RP_STRING(command));
RP_SPAN(stack_app, query, RP_STRING(customer));
RP_COUNTER(stack_app, requests, "requests", "Requests");

/* A request in progress. One thread serves it from its start to its end. */
struct stack_request {
	struct rp_activity activity;
	char traceparent[RP_TRACEPARENT_SIZE];
	const char *customer;
	bool is_cached;
};

static const char *redis_path, *postgresql_options;

/* Each thread has connections of its own. */
static _Thread_local redisContext *redis;
static _Thread_local PGconn *postgresql;
static _Thread_local bool has_no_module;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool connect_redis(void)
{
	if (redis && !redis->err)
		return true;
	if (redis)
		redisFree(redis);
	redis = redisConnectUnix(redis_path);
	return redis && !redis->err;
}

/* Run a command of redis, in the trace of the request if redis has the module. */
static redisReply *run_redis(const struct stack_request *request, int count, const char **words)
{
	const char *traced[8] = { "ringpipe.trace", request->traceparent };
	redisReply *reply;

	if (!connect_redis())
		return NULL;
	if (has_no_module)
		return redisCommandArgv(redis, count, words, NULL);
	for (int i = 0; i < count; i++)
		traced[2 + i] = words[i];
	reply = redisCommandArgv(redis, 2 + count, traced, NULL);
	if (!reply || reply->type != REDIS_REPLY_ERROR || !strstr(reply->str, "unknown command"))
		return reply;
	freeReplyObject(reply);
	has_no_module = true;
	return redisCommandArgv(redis, count, words, NULL);
}

static char *read_cache(struct stack_request *request)
{
	const char *words[] = { "get", request->customer };
	redisReply *reply;
	char *text = NULL;

	RP_SPAN_SCOPE(stack_app, cache, "get");
	reply = run_redis(request, 2, words);
	if (reply && reply->type == REDIS_REPLY_STRING)
		text = strdup(reply->str);
	if (reply)
		freeReplyObject(reply);
	return text;
}

static void write_cache(struct stack_request *request, const char *text)
{
	char seconds[16];
	const char *words[] = { "set", request->customer, text, "ex", seconds };
	redisReply *reply;

	snprintf(seconds, sizeof(seconds), "%d", CACHED_SECONDS);
	RP_SPAN_SCOPE(stack_app, cache, "set");
	reply = run_redis(request, 5, words);
	if (reply)
		freeReplyObject(reply);
}

static char *read_database(const struct stack_request *request)
{
	char statement[256], *text = NULL;
	const char *values[] = { request->customer };
	PGresult *result;

	RP_SPAN_SCOPE(stack_app, query, request->customer);
	if (!postgresql)
		postgresql = PQconnectdb(postgresql_options);
	else if (PQstatus(postgresql) != CONNECTION_OK)
		PQreset(postgresql);
	snprintf(statement, sizeof(statement),
		 "SELECT count(*), coalesce(sum(total), 0) FROM orders WHERE customer = $1::int "
		 "/*traceparent='%s'*/", request->traceparent);
	result = PQexecParams(postgresql, statement, 1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(result) == PGRES_TUPLES_OK &&
	    asprintf(&text, "{\"orders\":%s,\"total\":%s}\n", PQgetvalue(result, 0, 0),
		     PQgetvalue(result, 0, 1)) < 0)
		text = NULL;
	if (!text)
		fprintf(stderr, "stack-app: %s", PQerrorMessage(postgresql));
	PQclear(result);
	return text;
}

static char *find(struct stack_request *request)
{
	char *text = read_cache(request);

	request->is_cached = text != NULL;
	if (text)
		return text;
	text = read_database(request);
	if (text)
		write_cache(request, text);
	return text;
}

static void begin_trace(struct MHD_Connection *connection, struct stack_request *request)
{
	const char *caller = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 "traceparent");
	uint8_t flags;

	if (!caller ||
	    rp_traceparent_parse(caller, strlen(caller), &request->activity, &flags) < 0)
		rp_traceparent_generate(&request->activity, &flags);
	rp_traceparent_print(&request->activity, flags, request->traceparent);
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned int status,
				 const char *text)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result = MHD_queue_response(connection, status, response);

	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result serve(void *data, struct MHD_Connection *connection, const char *path,
			     const char *method, const char *version, const char *body,
			     size_t *body_bytes, void **ret_request)
{
	static const char prefix[] = "/order/";
	struct stack_request request = { .is_cached = false };
	uint64_t begun_ns = now_ns();
	struct rp_activity before;
	enum MHD_Result result;
	unsigned int status;
	char *text = NULL;

	(void)data, (void)method, (void)version, (void)body, (void)ret_request;
	if (*body_bytes != 0) {
		*body_bytes = 0;
		return MHD_YES;
	}
	begin_trace(connection, &request);
	rp_activity_get(&before);
	rp_activity_set(&request.activity);
	stack_app_request_start(path);
	stack_app_requests_add(1);
	status = MHD_HTTP_NOT_FOUND;
	if (strncmp(path, prefix, sizeof(prefix) - 1) == 0) {
		request.customer = path + sizeof(prefix) - 1;
		text = find(&request);
		status = text ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
	}
	result = send_text(connection, status, text ? text : "{}\n");
	stack_app_request_stop((uint16_t)status, request.is_cached, now_ns() - begun_ns);
	rp_activity_set(&before);
	free(text);
	return result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct MHD_Daemon *daemon;
	char byte;

	if (argc != 3) {
		fprintf(stderr, "usage: stack-app REDIS_SOCKET POSTGRESQL_OPTIONS\n");
		return 2;
	}
	redis_path = argv[1];
	postgresql_options = argv[2];
	daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL,
				  serve, NULL, MHD_OPTION_SOCK_ADDR, &address,
				  MHD_OPTION_THREAD_POOL_SIZE, THREADS, MHD_OPTION_END);
	if (!daemon) {
		perror("stack-app");
		return 1;
	}
	printf("http://127.0.0.1:%u\n",
	       MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	MHD_stop_daemon(daemon);
	return 0;
}
