/* SPDX-License-Identifier: MIT */
/*
 * ringpipe counters: records a session that requests only counters. The main thread writes the
 * stream into a pipe, and a reader thread decodes the pipe and shows the counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/ringpipe/counter_request.h"
#include "tools/ringpipe/counter_views.h"
#include "tools/client/exchange.h"
#include "tools/trace/output.h"
#include "tools/client/providers.h"
#include "tools/client/recording.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"

#define BUFFER_MB 16
#define HISTOGRAM_TOTALS 0x800000000000		/* ringpipe only; .NET ignores it */

enum view { MONITOR, COLLECT, SERVE };

/* A provider named on the command line. */
struct wanted {
	char *name;
	char **counters;	/* ends with NULL; empty: all */
	size_t counter_count;
};

struct counters {
	char *path;			/* of the output; NULL: it is not open */
	struct rp_output output;	/* of the table or the rows */
	int end_fd;			/* an eventfd: a signal has ended the recording */
	const struct rp_tool_options *options;
	enum view view;
	struct rp_target target;
	struct wanted *wanted;		/* NULL: all providers */
	size_t wanted_count;
	bool is_dotnet;
	char *interval;			/* the providers' arguments */
	char *metrics;
	struct rp_session_provider *providers;
	size_t provider_count;

	int pipe_fd;			/* the reader's end */
	struct rp_counter_board board;
	struct rp_counter_table *table;
	struct rp_counter_server *server;
	struct rp_counter_writer writer;
	int error;			/* of the reader */
	bool reported_full;
	pthread_mutex_t lock;
	bool is_over;			/* the recording has ended and reads no more signals */
};

static void free_wanted(struct counters *counters)
{
	for (size_t i = 0; i < counters->wanted_count; i++) {
		for (size_t j = 0; j < counters->wanted[i].counter_count; j++)
			free(counters->wanted[i].counters[j]);
		free(counters->wanted[i].counters);
		free(counters->wanted[i].name);
	}
	free(counters->wanted);
}

static int add_wanted(struct counters *counters, const char *name, size_t length)
{
	struct wanted *grown = realloc(counters->wanted,
				       (counters->wanted_count + 1) * sizeof(*grown));
	char *copy = strndup(name, length);

	if (grown)
		counters->wanted = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	grown[counters->wanted_count++] = (struct wanted){ .name = copy };
	return 0;
}

static int add_counter(struct wanted *wanted, const char *name, size_t length)
{
	char **grown = realloc(wanted->counters, (wanted->counter_count + 1) * sizeof(*grown));
	char *copy = strndup(name, length);

	if (grown)
		wanted->counters = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	grown[wanted->counter_count++] = copy;
	return 0;
}

/* Parses "Provider[counter,counter],Provider2". */
static int parse_wanted(struct counters *counters, const char *text)
{
	int ret = 0;

	while (ret == 0) {
		size_t length = strcspn(text, ",[");

		if (length == 0 || memchr(text, ']', length))
			return -EINVAL;
		ret = add_wanted(counters, text, length);
		text += length;
		if (*text == '[') {
			do {
				text++;
				length = strcspn(text, ",[]");
				if (length == 0)
					return -EINVAL;
				if (ret == 0)
					ret = add_counter(
						&counters->wanted[counters->wanted_count - 1], text,
						length);
				text += length;
			} while (*text == ',');
			if (*text++ != ']')
				return -EINVAL;
		}
		if (*text == '\0')
			return ret;
		if (*text++ != ',')
			return -EINVAL;
	}
	return ret;
}

static bool is_wanted(const struct counters *counters, const struct rp_counter_sample *sample)
{
	for (size_t i = 0; i < counters->wanted_count; i++) {
		const struct wanted *wanted = &counters->wanted[i];

		if (strcmp(wanted->name, sample->provider) != 0)
			continue;
		for (size_t j = 0; j < wanted->counter_count; j++) {
			if (strcmp(wanted->counters[j], sample->name) == 0)
				return true;
		}
		return wanted->counter_count == 0;
	}
	return counters->wanted_count == 0;
}

/* Writes the names of all providers of the process, separated by commas. */
static int name_all(struct counters *counters, FILE *names)
{
	struct rp_provider_names there;
	int ret = rp_provider_names_get(&counters->target, "ask", &there);
	const char *comma = "";

	counters->is_dotnet = ret == -EOPNOTSUPP;
	if (ret)
		return counters->is_dotnet ? 0 : ret;
	for (size_t i = 0; i < there.count; i++) {
		/* Skip a name that contains a separator of the list. */
		if (strpbrk(there.rows[i], ",;\\\""))
			continue;
		fprintf(names, "%s%s", comma, there.rows[i]);
		comma = ",";
	}
	rp_provider_names_fini(&there);
	return 0;
}

static int name_wanted(const struct counters *counters, FILE *names)
{
	const char *comma = "";

	for (size_t i = 0; i < counters->wanted_count; i++) {
		const struct wanted *wanted = &counters->wanted[i];

		if (wanted->counter_count == 0)
			fprintf(names, "%s%s", comma, wanted->name);
		for (size_t j = 0; j < wanted->counter_count; j++)
			fprintf(names, "%s%s\\%s", j ? "," : comma, wanted->name,
				wanted->counters[j]);
		comma = ",";
	}
	return 0;
}

/* Writes the meters as Metrics expects them: "name" or "name\instrument", separated by commas. */
static int name_meters(struct counters *counters, char **ret_names)
{
	char *text = NULL;
	size_t size;
	FILE *names = open_memstream(&text, &size);
	int ret;

	if (!names)
		return -ENOMEM;
	ret = counters->wanted_count ? name_wanted(counters, names) : name_all(counters, names);
	if (counters->is_dotnet)
		fputs("System.Runtime", names);
	if (fclose(names) != 0 && ret == 0)
		ret = -ENOMEM;
	if (ret != 0)
		free(text);
	else
		*ret_names = text;
	return ret;
}

static int format_arguments(struct counters *counters)
{
	double seconds = (double)counters->options->refresh_ms / 1000;
	char *meters;
	int ret = name_meters(counters, &meters);

	if (ret != 0)
		return ret;
	counters->interval = rp_counter_request_events(seconds);
	counters->metrics = rp_counter_request_metrics(meters, seconds);
	free(meters);
	return counters->interval && counters->metrics ? 0 : -ENOMEM;
}

/* Requests each provider's EventCounters, and the one provider that covers all meters. */
static int make_providers(struct counters *counters)
{
	size_t count = counters->wanted_count ? counters->wanted_count : 1;
	struct rp_session_provider *providers = calloc(count + 1, sizeof(*providers));
	int ret = format_arguments(counters);

	counters->providers = providers;
	if (!providers || ret == -ENOMEM)
		rp_tool_error("out of memory");
	if (!providers || ret != 0)
		return providers ? ret : -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		providers[i].size = sizeof(*providers);
		providers[i].level = 4;
		providers[i].name = counters->wanted_count ? counters->wanted[i].name :
				    counters->is_dotnet ? "System.Runtime" : "*";
		providers[i].filter_data = counters->interval;
	}
	providers[count] = (struct rp_session_provider){
		.size = sizeof(*providers),
		.level = 4,
		.name = RP_COUNTER_METRICS_PROVIDER,
		.keywords = RP_COUNTER_METRICS_KEYWORDS |
			    (counters->view == SERVE ? HISTOGRAM_TOTALS : 0),
		.filter_data = counters->metrics,
	};
	/* The library uses the first entry that matches a provider, so "*" is last. */
	if (!counters->wanted_count) {
		struct rp_session_provider first = providers[0];

		providers[0] = providers[1];
		providers[1] = first;
	}
	counters->provider_count = count + 1;
	return 0;
}

static void show(struct counters *counters, const struct rp_counter_sample *sample)
{
	if (!is_wanted(counters, sample) || !rp_counter_board_take(&counters->board, sample))
		return;
	if (counters->view == MONITOR)
		counters->writer.error = rp_counter_table_touch(counters->table);
	else if (counters->view == COLLECT && counters->writer.error == 0)
		rp_counter_writer_row(&counters->writer, sample);
}

static void read_all(struct counters *counters, struct rp_reader *reader)
{
	double interval_s = (double)counters->options->refresh_ms / 1000;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_counter_sample sample;
	enum rp_counter_word word;

	while ((counters->error = rp_reader_next(reader, &event)) == 1) {
		word = rp_counter_decode(&event, interval_s, &sample);
		switch (word) {
		case RP_COUNTER_SAMPLE:
			show(counters, &sample);
			if (counters->writer.error)
				return;
			break;
		case RP_COUNTER_INSTRUMENT:
		case RP_COUNTER_ENUMERATED:
			rp_counter_board_announce(&counters->board, word, &sample);
			break;
		case RP_COUNTER_ERROR:
			rp_tool_error("process %d: %s", counters->target.pid, sample.name);
			break;
		case RP_COUNTER_OTHER:
			break;
		}
		if (counters->board.is_full && !counters->reported_full)
			rp_tool_error("process %d has more than %u counters; the others are not "
				      "shown", counters->target.pid, RP_COUNTER_ROWS_MAX);
		counters->reported_full |= counters->board.is_full;
	}
}

/* Reads the pipe to its end even after an error, since the recording would otherwise block. */
static void *read_stream(void *data)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct counters *counters = data;
	struct rp_reader *reader;
	char rest[4096];

	counters->error = rp_reader_open_fd(counters->pipe_fd, &reader);
	if (counters->error == 0) {
		rp_reader_get_info(reader, &info);
		counters->writer.start_utc_ns = info.start_utc_ns;
		if (counters->view == COLLECT)
			rp_counter_writer_begin(&counters->writer, &counters->target);
		read_all(counters, reader);
		if (counters->view == COLLECT)
			rp_counter_writer_end(&counters->writer);
		if (counters->error == -EBADMSG)
			rp_tool_error("process %d sent an invalid trace: %s", counters->target.pid,
				      rp_reader_error(reader));
		rp_reader_close(reader);
	}
	/*
	 * Stop the recording by a signal, unless it has ended: then the signal would kill this
	 * process.
	 */
	pthread_mutex_lock(&counters->lock);
	if (!counters->is_over &&
	    ((counters->error < 0 && counters->error != -ENODATA) || counters->writer.error))
		kill(getpid(), SIGTERM);
	pthread_mutex_unlock(&counters->lock);
	while (read(counters->pipe_fd, rest, sizeof(rest)) > 0)
		;
	return NULL;
}

/*
 * Open the file or standard output. The reader thread may wait for a full pipe, and does so for a
 * limited time from when a signal ends the recording. Reports the cause on failure.
 */
static int open_output(struct counters *counters)
{
	const struct rp_tool_options *options = counters->options;
	const bool is_file = counters->view == COLLECT && options->output;
	struct rp_output *output = &counters->output;
	int ret;

	counters->path = rp_text_expand_pid(is_file ? options->output : "-", counters->target.pid);
	if (!counters->path) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	ret = rp_output_open(output, counters->path, options->given & RP_OPTION_FORCE);
	if (ret == 0)
		ret = rp_output_begin(output);
	if (ret < 0)
		return ret;
	counters->end_fd = eventfd(0, EFD_CLOEXEC);
	if (counters->end_fd >= 0)
		rp_output_make_interruptible(output, counters->end_fd, NULL, NULL);
	counters->writer.stream = rp_output_open_stream(output);
	return counters->writer.stream ? 0 : -ENOMEM;
}

/* Return: 0; -errno, after an error line. */
static int serve(struct counters *counters)
{
	const struct rp_tool_options *options = counters->options;
	const char *host = options->listen ? options->listen : "127.0.0.1";
	const bool is_ipv6 = strchr(host, ':');
	uint16_t port;
	int ret = rp_counter_server_start(&counters->board, host, options->port, &counters->server,
					  &port);

	if (ret == -ENOSYS)
		rp_tool_error("counters serve: built without libmicrohttpd");
	else if (ret == -EINVAL)
		rp_tool_error("counters serve: --listen requires an address in numbers, not '%s'",
			      host);
	else if (ret != 0)
		rp_tool_error("cannot listen on %s, port %d: %s", host, options->port,
			      strerror(-ret));
	else
		printf("http://%s%s%s:%d/metrics\n", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
		       port);
	fflush(stdout);
	return ret;
}

static int open_view(struct counters *counters)
{
	const struct rp_tool_options *options = counters->options;
	int ret;

	counters->writer.format = options->format;
	if (counters->view == SERVE)
		return serve(counters);
	ret = open_output(counters);
	if (ret == 0 && counters->view == MONITOR) {
		ret = rp_counter_table_start(&counters->board, &counters->target,
					     counters->writer.stream, &counters->table);
		if (ret != 0)
			rp_tool_error("cannot start a thread: %s", strerror(-ret));
	}
	return ret;
}

static int close_view(struct counters *counters)
{
	const int drawn = rp_counter_table_stop(counters->table);
	int ret = drawn ? drawn : counters->writer.error;

	rp_counter_server_stop(counters->server);
	if (counters->writer.stream) {
		const int flushed = fclose(counters->writer.stream) ? -errno : 0;
		const int closed = rp_output_close(&counters->output);

		ret = ret ? ret : flushed ? flushed : closed;
	}
	if (counters->end_fd >= 0)
		close(counters->end_fd);
	if (counters->output.is_cancelled)
		rp_tool_error("counters: stopped before all rows were written");
	else if (ret != 0 && counters->path)
		rp_tool_error("cannot write %s: %s", counters->output.path, strerror(-ret));
	free(counters->path);
	return ret;
}

/* Return: the exit status. */
static int finish(const struct counters *counters, const struct rp_recording_result *result)
{
	if (result->end == RP_RECORDING_GAVE_UP)
		return RP_EXIT_GAVE_UP;
	if (result->end == RP_RECORDING_FAILED || result->end == RP_RECORDING_OUTPUT_FAILED ||
	    result->end == RP_RECORDING_STREAM_FAILED)
		return RP_EXIT_FAILURE;
	if (counters->error < 0 && counters->error != -ENODATA)
		return RP_EXIT_FAILURE;
	if (result->end == RP_RECORDING_PEER_ENDED)
		fprintf(stderr, "Process %d ended.\n", counters->target.pid);
	else if (counters->board.row_count == 0)
		fprintf(stderr, "Process %d reported no counter.\n", counters->target.pid);
	return RP_EXIT_OK;
}

static int run_session(struct counters *counters)
{
	struct rp_recording_plan plan = {
		.target = &counters->target,
		.providers = counters->providers,
		.provider_count = counters->provider_count,
		.buffer_mb = BUFFER_MB,
		.duration_ms = counters->options->duration_ms,
	};
	struct rp_recording_result result = { .end = RP_RECORDING_FAILED };
	struct rp_output output = {
		.path = "the pipe to the reader",
		.filter_fd = -1,
		.status_fd = -1,
	};
	int ends[2], error;
	pthread_t reader;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		rp_tool_error("cannot make a pipe: %s", strerror(errno));
		return RP_EXIT_FAILURE;
	}
	output.fd = ends[1];
	counters->pipe_fd = ends[0];
	/* Block the signals before threads start, since a new thread inherits the mask. */
	plan.signal_fd = rp_signals_open();
	if (plan.signal_fd < 0)
		rp_tool_error("cannot receive signals: %s", strerror(-plan.signal_fd));
	error = plan.signal_fd < 0 || open_view(counters) ? EINVAL : 0;
	if (error == 0) {
		error = pthread_create(&reader, NULL, read_stream, counters);
		if (error != 0)
			rp_tool_error("cannot start a thread: %s", strerror(error));
	}
	if (error == 0)
		rp_recording_run(&plan, &output, &result);
	close(ends[1]);
	pthread_mutex_lock(&counters->lock);
	counters->is_over = true;
	pthread_mutex_unlock(&counters->lock);
	if (output.is_stopping && counters->end_fd >= 0)
		eventfd_write(counters->end_fd, 1);
	/*
	 * From here on a signal ends the process, even if a view blocks in writing to a stopped
	 * terminal.
	 */
	if (plan.signal_fd >= 0)
		rp_signals_close(plan.signal_fd);
	if (error == 0)
		pthread_join(reader, NULL);
	close(ends[0]);
	if (close_view(counters) != 0 || error != 0)
		return RP_EXIT_FAILURE;
	return finish(counters, &result);
}

static const char *wanted_name(size_t i, void *data)
{
	return ((const struct wanted *)data)[i].name;
}

static int check_wanted(const struct counters *counters)
{
	if (counters->options->given & RP_OPTION_MISSING)
		return 0;
	return rp_providers_check(&counters->target, wanted_name, counters->wanted_count,
				  counters->wanted);
}

static int run(const struct rp_tool_options *options, enum view view)
{
	struct counters counters = {
		.options = options, .view = view, .lock = PTHREAD_MUTEX_INITIALIZER,
		.end_fd = -1,
	};
	int status = RP_EXIT_USAGE;

	if (options->counters && parse_wanted(&counters, options->counters) != 0) {
		rp_tool_error("counters: cannot read '%s'; the form is Provider[counter,counter],"
			      "Provider", options->counters);
	} else if (rp_target_find(options->pid, options->name, &counters.target) != 0) {
		status = RP_EXIT_FAILURE;
	} else {
		status = RP_EXIT_FAILURE;
		rp_counter_board_init(&counters.board);
		if (check_wanted(&counters) == 0 && make_providers(&counters) == 0)
			status = run_session(&counters);
		rp_counter_board_fini(&counters.board);
		rp_target_fini(&counters.target);
	}
	free(counters.providers);
	free(counters.interval);
	free(counters.metrics);
	free_wanted(&counters);
	return status;
}

int rp_command_counters_monitor(const struct rp_tool_options *options)
{
	/* Only text is drawn as a table. */
	return run(options, options->format == RP_FORMAT_TEXT ? MONITOR : COLLECT);
}

int rp_command_counters_collect(const struct rp_tool_options *options)
{
	return run(options, COLLECT);
}

int rp_command_counters_serve(const struct rp_tool_options *options)
{
	return run(options, SERVE);
}
