/* SPDX-License-Identifier: MIT */
/*
 * Counters as Prometheus scrapes them. Source of the text: "Exposition formats" in its
 * documentation, version 0.0.4. A name is provider_counter in lower case, what goes up ends in
 * _total, a histogram is a summary.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef RP_HAVE_MICROHTTPD
#include <microhttpd.h>
#endif

#include "tool/counter_views.h"

#define NAME_BYTES 640

struct page {
	FILE *stream;
	char family[NAME_BYTES];	/* the one whose heading was written last */
};

/* What no name may have becomes one underscore. */
static void put_name(char *name, const char *text)
{
	size_t length = strlen(name);

	for (; *text && length < NAME_BYTES - 16; text++) {
		char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 'a' - 'A') : *text;

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && length > 0))
			name[length++] = c;
		else if (length == 0 || name[length - 1] != '_')
			name[length++] = '_';
	}
	name[length] = '\0';
}

static void put_escaped(FILE *stream, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n')
			fputs("\\n", stream);
		else if (text[i] == '\\' || text[i] == '"')
			fprintf(stream, "\\%c", text[i]);
		else
			putc(text[i], stream);
	}
}

static void put_number(FILE *stream, double number)
{
	if (isnan(number))
		fputs(" NaN\n", stream);
	else if (isinf(number))
		fputs(number > 0 ? " +Inf\n" : " -Inf\n", stream);
	else
		fprintf(stream, " %.17g\n", number);
}

/* key=value,… as labels; what is there twice once names are made fit comes once. */
static void put_labels(FILE *stream, const char *tags, const double *quantile)
{
	char seen[32][64];
	size_t count = 0;
	const char *mark = "{";

	while (*tags && count < 32) {
		size_t length = strcspn(tags, ","), key_length = strcspn(tags, "=,");
		char key[64], name[NAME_BYTES] = "";
		bool is_known = false;

		snprintf(key, sizeof(key), "%.*s", (int)key_length, tags);
		put_name(name, key);
		snprintf(seen[count], sizeof(seen[count]), "%.63s", name);
		for (size_t i = 0; i < count; i++)
			is_known |= strcmp(seen[i], seen[count]) == 0;
		if (!is_known && key_length < length) {
			fprintf(stream, "%s%s=\"", mark, seen[count++]);
			put_escaped(stream, tags + key_length + 1, length - key_length - 1);
			putc('"', stream);
			mark = ",";
		}
		tags += length + (tags[length] == ',');
	}
	if (quantile) {
		fprintf(stream, "%squantile=\"%g\"", mark, *quantile);
		mark = ",";
	}
	if (*mark == ',')
		putc('}', stream);
}

static void put_heading(struct page *page, const char *name, const struct rp_counter_sample *sample)
{
	static const char *const types[] = { "counter", "gauge", "summary" };

	if (strcmp(page->family, name) == 0)
		return;
	snprintf(page->family, sizeof(page->family), "%s", name);
	fprintf(page->stream, "# HELP %s ", name);
	put_escaped(page->stream, sample->name, strlen(sample->name));
	fputs(" of ", page->stream);
	put_escaped(page->stream, sample->provider, strlen(sample->provider));
	if (*sample->unit) {
		fputs(" in ", page->stream);
		put_escaped(page->stream, sample->unit, strlen(sample->unit));
	}
	fprintf(page->stream, "\n# TYPE %s %s\n", name, types[sample->form]);
}

static void put_row(const struct rp_counter_row *row, void *data)
{
	const struct rp_counter_sample *sample = &row->last;
	char name[NAME_BYTES] = "";
	struct page *page = data;

	put_name(name, sample->provider);
	put_name(name, "_");
	put_name(name, sample->name);
	if (sample->form == RP_COUNTER_RATE)
		strcat(name, "_total");
	put_heading(page, name, sample);
	if (sample->form != RP_COUNTER_SPREAD) {
		fputs(name, page->stream);
		put_labels(page->stream, sample->tags, NULL);
		put_number(page->stream,
			   sample->form == RP_COUNTER_RATE ? row->total : sample->value);
		return;
	}
	for (uint32_t i = 0; i < sample->quantile_count; i++) {
		fputs(name, page->stream);
		put_labels(page->stream, sample->tags, &sample->quantiles[i].at);
		put_number(page->stream, sample->quantiles[i].value);
	}
	fprintf(page->stream, "%s_sum", name);
	put_labels(page->stream, sample->tags, NULL);
	put_number(page->stream, row->total);
	fprintf(page->stream, "%s_count", name);
	put_labels(page->stream, sample->tags, NULL);
	fprintf(page->stream, " %" PRIu64 "\n", row->total_count);
}

char *rp_counter_page(struct rp_counter_board *board, size_t *ret_size)
{
	struct page page = { 0 };
	char *text = NULL;

	page.stream = open_memstream(&text, ret_size);
	if (!page.stream)
		return NULL;
	rp_counter_board_walk(board, put_row, &page);
	if (fclose(page.stream) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

#ifdef RP_HAVE_MICROHTTPD

struct rp_counter_server {
	struct rp_counter_board *board;
	struct MHD_Daemon *daemon;
};

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned int status, char *text,
			     size_t size, enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(size, text, mode);
	enum MHD_Result result = MHD_NO;

	if (response) {
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
		result = MHD_queue_response(connection, status, response);
		MHD_destroy_response(response);
	}
	return result;
}

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	static char missing[] = "The counters are at /metrics.\n";
	struct rp_counter_server *server = data;
	char *text;
	size_t size;

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, missing, sizeof(missing) - 1,
			     MHD_RESPMEM_PERSISTENT, "text/plain");
	if (strcmp(url, "/metrics") != 0)
		return reply(connection, MHD_HTTP_NOT_FOUND, missing, sizeof(missing) - 1,
			     MHD_RESPMEM_PERSISTENT, "text/plain");
	text = rp_counter_page(server->board, &size);
	if (!text)
		return MHD_NO;
	return reply(connection, MHD_HTTP_OK, text, size, MHD_RESPMEM_MUST_FREE,
		     "text/plain; version=0.0.4; charset=utf-8");
}

int rp_counter_server_start(struct rp_counter_board *board, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rp_counter_server *server = calloc(1, sizeof(*server));
	const union MHD_DaemonInfo *info;

	if (!server)
		return -ENOMEM;
	server->board = board;
	errno = 0;
	server->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, port, NULL, NULL,
					  answer, server, MHD_OPTION_SOCK_ADDR, &address,
					  MHD_OPTION_CONNECTION_TIMEOUT, 10u,
					  MHD_OPTION_CONNECTION_LIMIT, 32u, MHD_OPTION_END);
	if (!server->daemon) {
		free(server);
		return errno ? -errno : -EADDRINUSE;
	}
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
	*ret_port = info ? info->port : port;
	*ret_server = server;
	return 0;
}

void rp_counter_server_stop(struct rp_counter_server *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->daemon);
	free(server);
}

#else

int rp_counter_server_start(struct rp_counter_board *board, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port)
{
	(void)board;
	(void)port;
	(void)ret_server;
	(void)ret_port;
	return -ENOSYS;
}

void rp_counter_server_stop(struct rp_counter_server *server)
{
	(void)server;
}

#endif
