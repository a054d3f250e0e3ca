/* SPDX-License-Identifier: MIT */
/*
 * Serves counters as Prometheus scrapes them. Source of the text format: "Exposition formats" in
 * the documentation of Prometheus, version 0.0.4. A name is provider_counter_unit in lower case. A
 * counter that only increases ends in _total, and a histogram becomes a summary. Units follow
 * OpenTelemetry's rules for Prometheus.
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

#include "tools/ringpipe/counter_views.h"

#define NAME_BYTES 640

/* The lines of one row in the page. */
struct series {
	size_t row;			/* the row's index on the board */
	enum rp_counter_form form;
	char *name;			/* the name of the metric family */
	char *labels;
	char *heading;
	char *samples;
	bool is_taken;			/* another family has samples of this name */
};

struct page {
	struct series *series;
	size_t count;
	bool failed;
};

/* Replaces each run of invalid characters by one underscore. */
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

/* Return: the Prometheus word for a UCUM or .NET unit; any other unit is returned unchanged. */
static const char *unit_word(const char *unit)
{
	static const struct {
		const char *unit, *word;
	} words[] = {
		{ "1", "" }, { "%", "percent" }, { "d", "days" }, { "h", "hours" },
		{ "min", "minutes" }, { "s", "seconds" }, { "ms", "milliseconds" },
		{ "us", "microseconds" }, { "ns", "nanoseconds" }, { "By", "bytes" },
		{ "B", "bytes" }, { "KiBy", "kibibytes" }, { "MiBy", "mebibytes" },
		{ "GiBy", "gibibytes" }, { "kBy", "kilobytes" }, { "MBy", "megabytes" },
		{ "GBy", "gigabytes" }, { "KB", "kilobytes" }, { "MB", "megabytes" },
		{ "GB", "gigabytes" }, { "m", "meters" }, { "g", "grams" }, { "kg", "kilograms" },
		{ "V", "volts" }, { "A", "amperes" }, { "J", "joules" }, { "W", "watts" },
		{ "Hz", "hertz" }, { "Cel", "celsius" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(unit, words[i].unit) == 0)
			return words[i].word;
	}
	return unit;
}

/* Whether `word` is the last word of the name. */
static bool ends_with(const char *name, const char *word)
{
	const size_t length = strlen(name), part = strlen(word);

	return part == length ? strcmp(name, word) == 0 :
	       part < length && strcmp(name + length - part, word) == 0 &&
	       name[length - part - 1] == '_';
}

/*
 * Appends the unit: "By/s" becomes bytes_per_second. UCUM annotations such as {request} are
 * omitted.
 */
static void put_unit(char *name, const char *unit)
{
	char whole[64], suffix[NAME_BYTES] = "", *per;
	const char *word;

	snprintf(whole, sizeof(whole), "%s", unit);
	per = strchr(whole, '/');
	if (per)
		*per++ = '\0';
	word = *whole == '{' ? "" : unit_word(whole);
	put_name(suffix, word);
	if (per && *per && *per != '{') {
		word = unit_word(per);
		put_name(suffix, *suffix ? "_per_" : "per_");
		put_name(suffix, word);
		/* The word after "per" is singular: bytes per second. */
		if (word != per && suffix[strlen(suffix) - 1] == 's')
			suffix[strlen(suffix) - 1] = '\0';
	}
	if (!*suffix || ends_with(name, suffix))
		return;
	put_name(name, "_");
	put_name(name, suffix);
}

/* Characters in `escaped` get a backslash: the backslash itself and, in a label, quotes. */
static void put_escaped(FILE *stream, const char *text, size_t length, const char *escaped)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n')
			fputs("\\n", stream);
		else if (strchr(escaped, text[i]))
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

/* Writes key=value,… as labels. If two keys become equal as label names, only one is written. */
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
		/* Summaries use the label `quantile` themselves. */
		snprintf(seen[count], sizeof(seen[count]), "%s%.50s",
			 strcmp(name, "quantile") ? "" : "exported_", name);
		for (size_t i = 0; i < count; i++)
			is_known |= strcmp(seen[i], seen[count]) == 0;
		if (!is_known && *name && key_length < length) {
			fprintf(stream, "%s%s=\"", mark, seen[count++]);
			put_escaped(stream, tags + key_length + 1, length - key_length - 1,
				    "\\\"");
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

static void put_heading(FILE *stream, const char *name, const struct rp_counter_sample *sample)
{
	static const char *const types[] = { "counter", "gauge", "summary" };

	const char *help = *sample->display ? sample->display : sample->name;

	fprintf(stream, "# HELP %s ", name);
	put_escaped(stream, help, strlen(help), "\\");
	fprintf(stream, "\n# TYPE %s %s\n", name, types[sample->form]);
}

static void put_samples(FILE *stream, const char *name, const struct rp_counter_row *row,
			const char *labels)
{
	const struct rp_counter_sample *sample = &row->last;

	if (sample->form != RP_COUNTER_SPREAD) {
		fprintf(stream, "%s%s", name, labels);
		put_number(stream, sample->form == RP_COUNTER_RATE ? row->total : sample->value);
		return;
	}
	for (uint32_t i = 0; i < sample->quantile_count; i++) {
		fputs(name, stream);
		put_labels(stream, sample->tags, &sample->quantiles[i].at);
		put_number(stream, sample->quantiles[i].value);
	}
	fprintf(stream, "%s_sum%s", name, labels);
	put_number(stream, row->total);
	fprintf(stream, "%s_count%s %" PRIu64 "\n", name, labels, row->total_count);
}

static bool render(struct series *series, const char *name, const struct rp_counter_row *row)
{
	char **const texts[] = { &series->labels, &series->heading, &series->samples };
	bool failed = false;

	series->name = strdup(name);
	for (size_t i = 0; i < 3 && !failed; i++) {
		size_t size;
		FILE *stream = open_memstream(texts[i], &size);

		if (!stream)
			return false;
		if (i == 0)
			put_labels(stream, row->last.tags, NULL);
		else if (i == 1)
			put_heading(stream, name, &row->last);
		else
			put_samples(stream, name, row, series->labels);
		failed = fclose(stream) != 0;
	}
	return series->name && !failed;
}

static void add_row(const struct rp_counter_row *row, void *data)
{
	char name[NAME_BYTES] = "";
	struct page *page = data;
	struct series *grown;

	if (page->failed)
		return;
	put_name(name, row->last.provider);
	put_name(name, "_");
	put_name(name, row->last.name);
	put_unit(name, row->last.unit);
	if (row->last.form == RP_COUNTER_RATE)
		strcat(name, "_total");
	/* Double the capacity whenever the count is a power of two. */
	if ((page->count & (page->count - 1)) == 0) {
		grown = realloc(page->series, (page->count ? 2 * page->count : 1) * sizeof(*grown));
		page->failed = !grown;
		if (!grown)
			return;
		page->series = grown;
	}
	page->series[page->count] = (struct series){ .row = page->count, .form = row->last.form };
	page->failed = !render(&page->series[page->count++], name, row);
}

static int compare_series(const void *a, const void *b)
{
	const struct series *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (order == 0)
		order = (int)left->form - (int)right->form;
	if (order == 0)
		order = strcmp(left->labels, right->labels);
	return order ? order : (left->row > right->row) - (left->row < right->row);
}

/* A summary also has samples named with a suffix; later families may not use those names. */
static void take_name(struct page *page, const char *name, const char *suffix)
{
	char full[NAME_BYTES + 8];

	snprintf(full, sizeof(full), "%s%s", name, suffix);
	for (size_t low = 0, high = page->count; low < high;) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(page->series[middle].name, full);

		if (order < 0)
			low = middle + 1;
		else if (order > 0)
			high = middle;
		else {
			while (middle > 0 && !strcmp(page->series[middle - 1].name, full))
				middle--;
			for (; middle < page->count && !strcmp(page->series[middle].name, full);
			     middle++)
				page->series[middle].is_taken = true;
			return;
		}
	}
}

/*
 * Prometheus rejects a page in which a series occurs twice or a family is split. So if two names
 * become equal, only the first in order is written.
 */
static void put_series(struct page *page, FILE *stream)
{
	const struct series *last = NULL;

	qsort(page->series, page->count, sizeof(*page->series), compare_series);
	for (size_t i = 0; i < page->count; i++) {
		const struct series *series = &page->series[i];
		bool is_new = !last || strcmp(last->name, series->name) != 0;

		if (series->is_taken || (!is_new && (last->form != series->form ||
						     !strcmp(last->labels, series->labels))))
			continue;
		if (is_new)
			fputs(series->heading, stream);
		if (is_new && series->form == RP_COUNTER_SPREAD) {
			take_name(page, series->name, "_sum");
			take_name(page, series->name, "_count");
		}
		fputs(series->samples, stream);
		last = series;
	}
}

/* Format the board as the page of metrics. Return: the text, for free(), or NULL without memory. */
static char *format_page(struct rp_counter_board *board, size_t *ret_size)
{
	struct page page = { 0 };
	char *text = NULL;
	FILE *stream;

	rp_counter_board_walk(board, add_row, &page);
	stream = page.failed ? NULL : open_memstream(&text, ret_size);
	if (stream) {
		if (page.count > 0)
			put_series(&page, stream);
		if (fclose(stream) != 0) {
			free(text);
			text = NULL;
		}
	}
	for (size_t i = 0; i < page.count; i++) {
		free(page.series[i].name);
		free(page.series[i].labels);
		free(page.series[i].heading);
		free(page.series[i].samples);
	}
	free(page.series);
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
	text = format_page(server->board, &size);
	if (!text)
		return MHD_NO;
	return reply(connection, MHD_HTTP_OK, text, size, MHD_RESPMEM_MUST_FREE,
		     "text/plain; version=0.0.4; charset=utf-8");
}

/* Parses a numeric address. Return: 0; -EINVAL if `host` is no numeric address. */
static int read_address(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret_address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_address;

	memset(ret_address, 0, sizeof(*ret_address));
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1)
		return -EINVAL;
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	return 0;
}

int rp_counter_server_start(struct rp_counter_board *board, const char *host, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port)
{
	unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD;
	struct sockaddr_storage address;
	struct rp_counter_server *server = calloc(1, sizeof(*server));
	const union MHD_DaemonInfo *info;

	if (!server)
		return -ENOMEM;
	if (read_address(host, port, &address)) {
		free(server);
		return -EINVAL;
	}
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	server->board = board;
	errno = 0;
	server->daemon = MHD_start_daemon(flags, port, NULL, NULL,
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

int rp_counter_server_start(struct rp_counter_board *board, const char *host, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port)
{
	(void)board;
	(void)host;
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
