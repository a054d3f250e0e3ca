/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accounts.h"
#include "clock.h"
#include "events.h"
#include "listener.h"
#include "orders.h"
#include "slow.h"
#include "storage.h"
#include "supplier.h"

/*
 * A request in progress. While it waits, its thread serves other requests, so the activity is
 * stored here and not in the thread.
 */
struct request {
	struct rp_activity activity;	/* its id is the trace's, so every event has it */
	char traceparent[RP_TRACEPARENT_SIZE];	/* for the next service of the trace */
	struct MHD_PostProcessor *form;
	uint64_t start_ns;
	uint64_t bytes;
	uint16_t status;
	const char *path;		/* in `text`, after the method */
	struct shop_slow slow;
	char customer[SHOP_CUSTOMER_MAX + 2];	/* holds one byte too many, to reject it */
	char total[64];
	char text[];
};

/* Its threads may answer before shop_http_start() stores it. */
static struct MHD_Daemon *_Atomic daemon_;

static struct rp_counter *connections;

static struct request *request_begin(const char *method, const char *path)
{
	size_t method_bytes = strlen(method) + 1, path_bytes = strlen(path) + 1;
	struct request *request = calloc(1, sizeof(*request) + method_bytes + path_bytes);

	if (!request)
		return NULL;
	memcpy(request->text, method, method_bytes);
	request->path = memcpy(request->text + method_bytes, path, path_bytes);
	request->start_ns = shop_clock_ns();
	return request;
}

/* `request` may be NULL. */
static enum MHD_Result queue(struct MHD_Connection *connection, const struct request *request,
			     unsigned int status, const char *type, char *body, size_t size)
{
	struct MHD_Response *response;
	enum MHD_Result ret;

	response = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (request)
		MHD_add_response_header(response, "traceparent", request->traceparent);
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

/* Takes ownership of `body`; NULL ends the connection. */
static enum MHD_Result answer(struct MHD_Connection *connection, struct request *request,
			      unsigned int status, char *body)
{
	if (!body)
		return MHD_NO;
	request->status = (uint16_t)status;
	request->bytes = strlen(body);
	return queue(connection, request, status, "application/json", body, request->bytes);
}

__attribute__((format(printf, 4, 5)))
static enum MHD_Result answer_text(struct MHD_Connection *connection, struct request *request,
				   unsigned int status, const char *format, ...)
{
	va_list arguments;
	char *body;
	int size;

	va_start(arguments, format);
	size = vasprintf(&body, format, arguments);
	va_end(arguments);
	return answer(connection, request, status, size < 0 ? NULL : body);
}

static enum MHD_Result answer_error(struct MHD_Connection *connection, struct request *request,
				    unsigned int status, const char *error)
{
	return answer_text(connection, request, status, "{\"error\":\"%s\"}\n", error);
}

static enum MHD_Result serve_front(struct MHD_Connection *connection, struct request *request)
{
	uint64_t latest = 0;

	if (shop_storage_latest(&latest) < 0)
		return answer_error(connection, request, 500, "storage failed");
	return answer_text(connection, request, 200, "{\"latest_order\":%" PRIu64 "}\n", latest);
}

static enum MHD_Result serve_order(struct MHD_Connection *connection, struct request *request,
				   const char *number)
{
	uint64_t order_id;
	char *end, *json;
	int ret;

	errno = 0;
	order_id = strtoull(number, &end, 10);
	if (*number < '0' || *number > '9' || *end || errno || order_id > INT64_MAX)
		return answer_error(connection, request, 400, "the order number is not a number");
	ret = shop_storage_find(order_id, &json);
	if (ret == -ENOENT)
		return answer_error(connection, request, 404, "no such order");
	if (ret < 0)
		return answer_error(connection, request, 500, "storage failed");
	return answer(connection, request, 200, json);
}

static enum MHD_Result place(struct MHD_Connection *connection, struct request *request,
			     const char *customer, const char *total)
{
	const char *reason;
	uint64_t order_id;
	int ret;

	ret = shop_order_place(customer, total, &order_id, &reason);
	if (ret == -EINVAL)
		return answer_error(connection, request, 422, reason);
	if (ret < 0)
		return answer_error(connection, request, 500, "storage failed");
	return answer_text(connection, request, 201, "{\"order_id\":%" PRIu64 "}\n", order_id);
}

/* Places an order by GET, for load generators without POST. */
static enum MHD_Result serve_buy(struct MHD_Connection *connection, struct request *request)
{
	const char *customer, *total;

	customer = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "customer");
	total = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "total");
	return place(connection, request, customer ? customer : "Zoë", total ? total : "9.99");
}

static void keep(char *to, size_t space, uint64_t offset, const char *data, size_t size)
{
	if (offset >= space - 1)
		return;
	if (size > space - 1 - offset)
		size = space - 1 - offset;
	memcpy(to + offset, data, size);
	to[offset + size] = 0;
}

static enum MHD_Result on_form_value(void *cls, enum MHD_ValueKind kind, const char *key,
				     const char *filename, const char *content_type,
				     const char *transfer_encoding, const char *data,
				     uint64_t offset, size_t size)
{
	struct request *request = cls;

	(void)kind, (void)filename, (void)content_type, (void)transfer_encoding;
	if (strcmp(key, "customer") == 0)
		keep(request->customer, sizeof(request->customer), offset, data, size);
	else if (strcmp(key, "total") == 0)
		keep(request->total, sizeof(request->total), offset, data, size);
	return MHD_YES;
}

static enum MHD_Result serve(struct MHD_Connection *connection, struct request *request)
{
	const char *path = request->path;

	if (strcmp(request->text, "POST") == 0 && strcmp(path, "/order") == 0) {
		if (!request->form)
			return answer_error(connection, request, 415, "send a form");
		return place(connection, request, request->customer, request->total);
	}
	if (strcmp(request->text, "GET") != 0)
		return answer_error(connection, request, 405, "only GET, and POST /order");
	if (strcmp(path, "/") == 0)
		return serve_front(connection, request);
	if (strcmp(path, "/buy") == 0)
		return serve_buy(connection, request);
	if (strncmp(path, "/order/", 7) == 0)
		return serve_order(connection, request, path + 7);
	return answer_error(connection, request, 404, "no such page");
}

static unsigned int count_connections(void)
{
	struct MHD_Daemon *daemon = atomic_load(&daemon_);
	const union MHD_DaemonInfo *info = NULL;

	if (daemon)
		info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
	return info ? info->num_connections : 0;
}

/* Runs while a client observes the counters. */
static int observe_connections(struct rp_observation *observation, void *data)
{
	(void)data;
	return rp_observe(observation, count_connections(), NULL, 0);
}

/* Writes no event, so that a request for the counts does not change them. */
static enum MHD_Result serve_stats(struct MHD_Connection *connection)
{
	FILE *stream;
	char *body;
	size_t size;

	stream = open_memstream(&body, &size);
	if (!stream)
		return MHD_NO;
	fprintf(stream, "{\"process_id\":%d,\"connections\":%u,\"supplier_is_traced\":%s,",
		getpid(), count_connections(), shop_supplier_is_traced() ? "true" : "false");
	shop_print_books(stream);
	fputc(',', stream);
	shop_listener_print(stream);
	fputs("}\n", stream);
	if (fclose(stream) != 0)
		return MHD_NO;
	return queue(connection, NULL, 200, "application/json", body, size);
}

/* Joins the sender's trace, or begins one. */
static void join_trace(struct MHD_Connection *connection, struct request *request)
{
	const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 "traceparent");
	uint8_t flags;

	if (!header ||
	    rp_traceparent_parse(header, strlen(header), &request->activity, &flags) < 0)
		rp_traceparent_generate(&request->activity, &flags);
	rp_traceparent_print(&request->activity, flags, request->traceparent);
}

static enum MHD_Result request_start(struct MHD_Connection *connection, const char *method,
				     const char *path, struct request **ret_request)
{
	struct request *request = request_begin(method, path);
	struct rp_activity outer;

	if (!request)
		return MHD_NO;
	if (strcmp(method, "POST") == 0)
		request->form = MHD_create_post_processor(connection, 1024, on_form_value, request);
	join_trace(connection, request);
	rp_activity_get(&outer);
	rp_activity_set(&request->activity);
	shop_book(SHOP_REQUEST_START,
		  shop_http_request_start(shop_serial(SHOP_REQUEST_START), method, path));
	rp_activity_set(&outer);
	*ret_request = request;
	return MHD_YES;
}

/* libmicrohttpd calls it after the header, for each piece of body, and at the end. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **request_at)
{
	struct request *request = *request_at;
	struct rp_activity outer;
	enum MHD_Result ret;

	(void)cls, (void)version;
	if (!request && strcmp(path, "/stats") == 0)
		return serve_stats(connection);
	if (!request)
		return request_start(connection, method, path, (struct request **)request_at);
	if (*upload_size) {
		if (request->form)
			MHD_post_process(request->form, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	rp_activity_get(&outer);
	rp_activity_set(&request->activity);
	shop_slow_down(&request->slow, MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
								   "slow-by"),
		       &request->activity);
	ret = serve(connection, request);
	rp_activity_set(&outer);
	return ret;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_at,
			 enum MHD_RequestTerminationCode code)
{
	struct request *request = *request_at;
	struct rp_activity outer;
	uint64_t duration_ns;

	(void)cls, (void)connection, (void)code;
	if (!request)
		return;
	duration_ns = shop_clock_ns() - request->start_ns;
	rp_activity_get(&outer);
	rp_activity_set(&request->activity);
	shop_book(SHOP_REQUEST_STOP,
		  shop_http_request_stop(shop_serial(SHOP_REQUEST_STOP), request->text,
					 request->path, request->status, request->bytes,
					 duration_ns));
	rp_activity_set(&outer);
	shop_slow_record(&request->slow, &request->activity, duration_ns);
	shop_http_requests_add(1);
	shop_http_request_time_record((double)duration_ns / 1e6);
	if (request->form)
		MHD_destroy_post_processor(request->form);
	free(request);
	*request_at = NULL;
}

static int listen_on(uint16_t port, int *ret_socket, uint16_t *ret_port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	int sock, one = 1, ret;

	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(sock, (struct sockaddr *)&address, size) < 0 || listen(sock, 511) < 0 ||
	    getsockname(sock, (struct sockaddr *)&address, &size) < 0) {
		ret = -errno;
		close(sock);
		return ret;
	}
	*ret_socket = sock;
	*ret_port = ntohs(address.sin_port);
	return 0;
}

static int start_connections_counter(void)
{
	static const struct rp_counter_decl decl = {
		.size = sizeof(decl),
		.kind = RP_COUNTER_OBSERVED_UPDOWN,
		.name = "connections",
		.unit = "connections",
		.display_name = "Connections that are open",
		.observe = observe_connections,
	};

	return rp_counter_create(shop_http_provider(), &decl, &connections);
}

int shop_http_start(uint16_t port, unsigned int threads, uint16_t *ret_port)
{
	struct MHD_OptionItem pool[] = {
		{ MHD_OPTION_THREAD_POOL_SIZE, threads, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_Daemon *daemon;
	int sock = -1, ret;

	/* libmicrohttpd refuses a pool of one thread, which is the default without a pool. */
	if (threads < 2)
		pool[0].option = MHD_OPTION_END;
	ret = listen_on(port, &sock, ret_port);
	if (ret < 0)
		return ret;
	daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL,
				  MHD_OPTION_LISTEN_SOCKET, sock,
				  MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
				  MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
	if (!daemon) {
		close(sock);
		return -ENOMEM;
	}
	atomic_store(&daemon_, daemon);
	ret = start_connections_counter();
	if (ret < 0)
		shop_http_stop();
	return ret;
}

void shop_http_stop(void)
{
	rp_counter_destroy(connections);
	connections = NULL;
	MHD_stop_daemon(daemon_);
	daemon_ = NULL;
}
