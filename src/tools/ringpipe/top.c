/* SPDX-License-Identifier: MIT */
/*
 * ringpipe top: a session with events, samples and counters. The main thread passes its stream
 * through a pipe to a reader thread, which fills the board. A third thread shows the board at
 * intervals. If the reader is too slow, the pipe is full, the stream stops, and the traced process
 * drops and counts events. It never waits.
 */
#include "tools/ringpipe/top.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nettrace/reader_parts.h"
#include "tools/cli/signals.h"
#include "tools/client/providers.h"
#include "tools/client/recording.h"
#include "tools/ringpipe/counter_request.h"
#include "tools/ringpipe/machine_sessions.h"
#include "tools/ringpipe/top_methods.h"
#include "tools/trace/input.h"

#define SAMPLER "Microsoft-DotNETCore-SampleProfiler"
#define DEFAULT_PROVIDERS "*:ffffffffffffffff:4"
/* .NET has no name for all providers. These have spans and counters. */
#define DOTNET_PROVIDERS \
	"System.Runtime:ffffffffffffffff:4,Microsoft-AspNetCore-Hosting:ffffffffffffffff:4"
#define ALL_METERS "*"
/* Until a blocked output is given up after the end of the session. */
#define SHOW_TIMEOUT_S 2
#define DEFAULT_ROWS 20u

struct top {
	const struct rp_tool_options *options;
	struct rp_top_screen *screen;	/* NULL: blocks on standard output */
	struct rp_shared_output *output;	/* of several processes' blocks; or NULL */
	int signal_fd;
	const struct rp_target *target;
	struct rp_provider_search *search;	/* of several processes; or NULL */
	struct rp_expression *where;	/* NULL: all events */
	struct rp_session_provider *parsed;	/* of --providers, with the texts */
	size_t parsed_count;
	struct rp_session_provider *providers;
	size_t provider_count;
	char *interval, *metrics;	/* the providers' arguments */
	bool is_dotnet;			/* the target is a .NET runtime */
	struct rp_session_provider runtime;	/* what the user asks the runtime for, or zeroes */

	struct rp_top_board board;
	struct rp_top_names *names;
	struct rp_top_methods *methods;	/* NULL: the target is not a .NET runtime */
	struct rp_top_cost cost;
	struct rp_reader *reader;	/* of the reader thread */
	int pipe_fd;
	int wake_fd;			/* an eventfd: the session has begun or ended */
	int read_error;			/* of the reader thread, after its end */
	char read_message[512];
	pthread_mutex_t lock;		/* of the members below */
	bool has_begun;
	bool is_over;			/* the recording has ended and reads no more signals */
	bool has_asked;			/* for the end of the session */
	bool is_read;			/* the reader thread has read all */
	enum rp_top_wish wish;		/* of the thread that shows */
	int show_error;			/* likewise */
};

static void wake(const struct top *top)
{
	const uint64_t one = 1;

	if (write(top->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* Stop the recording by a signal, unless it has ended: then it would kill this process. */
static void stop_session(struct top *top)
{
	pthread_mutex_lock(&top->lock);
	if (!top->is_over && !top->has_asked)
		kill(getpid(), SIGTERM);
	top->has_asked = true;
	pthread_mutex_unlock(&top->lock);
}

static ssize_t read_stream(void *data, void *buffer, size_t size)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct top *top = data;
	ssize_t got;

	if (top->reader && rp_reader_get_stats(top->reader, &stats) == 0)
		rp_top_board_set_lost(&top->board, stats.lost);
	do
		got = read(top->pipe_fd, buffer, size);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static void begin(struct top *top)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;

	rp_reader_get_info(top->reader, &info);
	top->board.pointer_bytes = info.pointer_bytes;
	pthread_mutex_lock(&top->lock);
	top->has_begun = true;
	pthread_mutex_unlock(&top->lock);
	wake(top);
}

static int read_events(struct top *top)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	int ret;

	while ((ret = rp_reader_next(top->reader, &event)) == 1) {
		ret = rp_top_methods_take(top->methods, &event);
		if (ret == 0 && !(top->is_dotnet &&
				  rp_top_methods_is_added(&top->runtime, event.type)))
			ret = rp_top_board_take(&top->board, &event);
		if (ret < 0)
			break;
	}
	if (rp_reader_get_stats(top->reader, &stats) == 0)
		rp_top_board_set_lost(&top->board, stats.lost);
	return ret;
}

/* Reads the pipe to its end even after an error, since the recording would otherwise block. */
static void *read_session(void *data)
{
	struct top *top = data;
	struct rp_byte_source source;
	char rest[4096];

	rp_byte_source_init_read(&source, read_stream, top);
	top->read_error = rp_reader_open_source(&source, &top->reader, top->read_message,
						sizeof(top->read_message));
	if (top->read_error == 0) {
		begin(top);
		top->read_error = read_events(top);
		rp_input_explain(top->reader, top->read_error, top->read_message,
				 sizeof(top->read_message));
	}
	if (top->read_error < 0 && top->read_error != -ENODATA)
		stop_session(top);
	while (read(top->pipe_fd, rest, sizeof(rest)) > 0)
		;
	pthread_mutex_lock(&top->lock);
	top->is_read = true;
	pthread_mutex_unlock(&top->lock);
	wake(top);
	return NULL;
}

/* Complete the view of an interval of `interval_s` seconds. Return: 0; -ENOMEM. */
static int make_view(struct top *top, double interval_s, struct rp_top_view *view)
{
	int ret = rp_top_board_cut(&top->board, &view->cut);
	struct timespec now;

	if (ret == 0)
		ret = rp_top_names_group(top->names, view->cut.addresses, view->cut.address_count,
					 &view->functions, &view->function_count);
	if (ret == 0)
		ret = rp_counter_board_copy(&top->board.counters, &view->counters,
					    &view->counter_count);
	rp_top_cost_read(&top->cost, interval_s);
	view->target = top->target;
	view->interval_s = interval_s;
	clock_gettime(CLOCK_REALTIME, &now);
	view->utc_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	view->process_percent = top->cost.process_percent;
	view->command_percent = top->cost.command_percent;
	rp_top_view_sort(view);
	return ret;
}

static size_t row_limit(const struct top *top)
{
	if (top->options->given & RP_OPTION_TOP)
		return (size_t)top->options->top;
	return top->options->format == RP_FORMAT_TEXT ? DEFAULT_ROWS : SIZE_MAX;
}

static int print(const struct top *top, const struct rp_top_view *view)
{
	int ret;

	if (!top->output)
		return rp_top_view_print(view, top->options->format, row_limit(top));
	rp_shared_output_lock(top->output);
	ret = rp_top_view_print(view, top->options->format, row_limit(top));
	if (ret == -EPIPE)
		top->output->reader_left = true;
	rp_shared_output_unlock(top->output);
	return ret;
}

/* Return: 0; -errno, after which nothing more is shown. */
static int show(struct top *top, int64_t since_ms, bool on_screen)
{
	struct rp_top_view view = { 0 };
	int ret = make_view(top, (double)(rp_now_ms() - since_ms) / 1000, &view);

	if (ret == 0 && on_screen)
		rp_top_screen_show(top->screen, &view);
	else if (ret == 0)
		ret = print(top, &view);
	rp_top_view_fini(&view);
	return ret;
}

/* Wait until `deadline_ms`, or for a wake or a wish. */
static void wait_until(struct top *top, int64_t deadline_ms)
{
	const int64_t left_ms = deadline_ms - rp_now_ms();
	const int timeout_ms = left_ms <= 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
	struct pollfd wait = { .fd = top->wake_fd, .events = POLLIN };
	enum rp_top_wish wish = RP_TOP_GO_ON;
	uint64_t count;

	if (top->screen)
		wish = rp_top_screen_wait(top->screen, top->wake_fd, timeout_ms);
	else
		poll(&wait, 1, timeout_ms);
	if (wish != RP_TOP_GO_ON)
		top->wish = wish;
	if (read(top->wake_fd, &count, sizeof(count)) < 0)
		return;
}

static void get_state(struct top *top, bool *ret_has_begun, bool *ret_is_read)
{
	pthread_mutex_lock(&top->lock);
	*ret_has_begun = top->has_begun;
	*ret_is_read = top->is_read;
	pthread_mutex_unlock(&top->lock);
}

/* A view at each interval, and one of the rest. */
static void *show_session(void *data)
{
	struct top *top = data;
	const int64_t refresh_ms = (int64_t)top->options->refresh_ms;
	bool has_begun = false, was_begun = false, is_read = false;
	int64_t since_ms = rp_now_ms();

	while (!is_read && !top->show_error) {
		wait_until(top, since_ms + refresh_ms);
		get_state(top, &has_begun, &is_read);
		if (top->wish != RP_TOP_GO_ON)
			stop_session(top);
		if (!was_begun && has_begun) {
			since_ms = rp_now_ms();
			rp_top_cost_read(&top->cost, 0);
			was_begun = true;
		}
		if (is_read || rp_now_ms() < since_ms + refresh_ms)
			continue;
		if (was_begun)
			top->show_error = show(top, since_ms, top->screen);
		since_ms = rp_now_ms();
	}
	if (top->show_error)
		stop_session(top);
	else if (was_begun && !top->screen)
		top->show_error = show(top, since_ms, false);
	return NULL;
}

/* The output may be a pipe that nothing reads, or a terminal that is stopped. */
static void join_shower(const struct top *top, pthread_t shower)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SHOW_TIMEOUT_S;
	if (pthread_timedjoin_np(shower, NULL, &until) == 0)
		return;
	rp_top_screen_abandon(top->screen);
	rp_tool_error("top: stopped before all was printed");
	if (top->output)
		top->output->is_cut = true;
	_exit(RP_EXIT_FAILURE);
}

static int run_threads(struct top *top, const struct rp_recording_plan *plan, int write_fd,
		       struct rp_recording_result *result)
{
	struct rp_output output = {
		.path = "the pipe to the reader", .fd = write_fd, .filter_fd = -1,
		.status_fd = -1,
	};
	pthread_t reader, shower;
	int error = pthread_create(&reader, NULL, read_session, top);

	if (error) {
		close(write_fd);
		return -error;
	}
	error = pthread_create(&shower, NULL, show_session, top);
	if (error == 0)
		rp_recording_run(plan, &output, result);
	close(write_fd);
	pthread_mutex_lock(&top->lock);
	top->is_over = true;
	pthread_mutex_unlock(&top->lock);
	pthread_join(reader, NULL);
	if (error == 0)
		join_shower(top, shower);
	return -error;
}

/* Return: the exit status. */
static int finish(const struct top *top, const struct rp_recording_result *result)
{
	if (result->end == RP_RECORDING_GAVE_UP)
		return RP_EXIT_GAVE_UP;
	/* The reader of standard output has left, as head(1) does. */
	if (top->show_error == -EPIPE) {
		__fpurge(stdout);
		clearerr(stdout);
		return RP_EXIT_OK;
	}
	if (top->show_error) {
		rp_tool_error("top: cannot write the output: %s", strerror(-top->show_error));
		return RP_EXIT_FAILURE;
	}
	if (result->end == RP_RECORDING_FAILED || result->end == RP_RECORDING_OUTPUT_FAILED ||
	    result->end == RP_RECORDING_STREAM_FAILED)
		return RP_EXIT_FAILURE;
	if (top->read_error < 0 && top->read_error != -ENODATA) {
		rp_tool_error("top: process %d: %s", top->target->pid, top->read_message);
		return RP_EXIT_FAILURE;
	}
	if (result->end == RP_RECORDING_PEER_ENDED && !(top->options->given & RP_OPTION_QUIET))
		fprintf(stderr, "Process %d ended the session.\n", top->target->pid);
	return RP_EXIT_OK;
}

static int run_session(struct top *top)
{
	const struct rp_recording_plan plan = {
		.target = top->target, .signal_fd = top->signal_fd, .providers = top->providers,
		.provider_count = top->provider_count, .buffer_mb = top->options->buffer_mb,
		.format = top->is_dotnet ? 4 : 6,
		.duration_ms = top->output ? 0 : top->options->duration_ms,
		.search = top->search,
	};
	struct rp_recording_result result = { .end = RP_RECORDING_FAILED };
	int pipe_fds[2], ret;

	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return -errno;
	top->pipe_fd = pipe_fds[0];
	ret = run_threads(top, &plan, pipe_fds[1], &result);
	close(pipe_fds[0]);
	if (top->where)
		rp_expression_forget(top->where);
	rp_reader_close(top->reader);
	return ret ? ret : finish(top, &result);
}

static void free_providers(struct top *top)
{
	free(top->interval);
	free(top->metrics);
	free(top->providers);
	free(top->parsed);
}

/* Return: the exit status, after an error line if the list has an error. */
static int parse_providers(struct top *top, const char *list)
{
	free(top->parsed);
	top->parsed = NULL;
	return rp_recording_providers_parse(list, "top", &top->parsed, &top->parsed_count) ?
		       RP_EXIT_USAGE : RP_EXIT_OK;
}

/* Prepare what the providers of all targets have in common. Return: the exit status. */
static int init_providers(struct top *top)
{
	const double interval_s = (double)top->options->refresh_ms / 1000;

	if (top->options->providers && parse_providers(top, top->options->providers))
		return RP_EXIT_USAGE;
	top->interval = rp_counter_request_events(interval_s);
	top->metrics = rp_counter_request_metrics(ALL_METERS, interval_s);
	if (top->interval && top->metrics)
		return RP_EXIT_OK;
	rp_tool_error("out of memory");
	return RP_EXIT_FAILURE;
}

/*
 * List the providers for the target. The sampler is first, because the library uses the first entry
 * that matches a provider. .NET is also asked for its meters; libringpipe's counters are
 * EventCounters. Return: the exit status.
 */
static int make_providers(struct top *top)
{
	struct rp_session_provider added = {
		.size = sizeof(added), .level = 4, .name = SAMPLER, .keywords = ~0ull,
	};

	if (!top->options->providers &&
	    parse_providers(top, top->is_dotnet ? DOTNET_PROVIDERS : DEFAULT_PROVIDERS))
		return RP_EXIT_FAILURE;
	free(top->providers);
	top->runtime = (struct rp_session_provider){ 0 };
	top->providers = calloc(top->parsed_count + 3, sizeof(*top->providers));
	if (!top->providers) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	top->providers[0] = added;
	for (size_t i = 0; i < top->parsed_count; i++) {
		top->providers[i + 1] = top->parsed[i];
		if (!top->parsed[i].filter_data)
			top->providers[i + 1].filter_data = top->interval;
		if (!top->is_dotnet || !rp_top_methods_is_runtime(top->parsed[i].name))
			continue;
		/* A session enables a provider once. */
		top->runtime = top->parsed[i];
		top->providers[i + 1] = rp_top_methods_provider(&top->providers[i + 1]);
	}
	added.name = RP_COUNTER_METRICS_PROVIDER;
	added.keywords = RP_COUNTER_METRICS_KEYWORDS;
	added.filter_data = top->metrics;
	top->provider_count = top->parsed_count + 1;
	if (top->is_dotnet) {
		top->providers[top->provider_count++] = added;
		if (!top->runtime.name)
			top->providers[top->provider_count++] =
				rp_top_methods_provider(&top->runtime);
	}
	return RP_EXIT_OK;
}

/* Return: the exit status. */
static int show_target(struct top *top, const struct rp_target *target, enum rp_top_wish *ret_wish)
{
	int ret;

	top->target = target;
	top->reader = NULL;
	top->has_begun = top->is_over = top->has_asked = top->is_read = false;
	top->wish = *ret_wish = RP_TOP_GO_ON;
	top->show_error = 0;
	top->cost = (struct rp_top_cost){ .pid = target->pid };
	top->is_dotnet = rp_providers_choose_format(target) == 4;
	if (make_providers(top))
		return RP_EXIT_FAILURE;
	if (!top->output && rp_recording_check_providers(top->options, target, top->parsed,
							 top->parsed_count))
		return RP_EXIT_FAILURE;
	ret = rp_top_board_init(&top->board, (double)top->options->refresh_ms / 1000,
				top->is_dotnet, top->where);
	if (ret == 0) {
		if (top->is_dotnet)
			ret = rp_top_methods_create(target, &top->methods);
		if (ret == 0)
			ret = rp_top_names_create(target->pid, top->methods, &top->names);
		if (ret == 0)
			ret = run_session(top);
		rp_top_names_destroy(top->names);
		rp_top_methods_destroy(top->methods);
		top->names = NULL;
		top->methods = NULL;
		rp_top_board_fini(&top->board);
	}
	*ret_wish = top->wish;
	if (ret >= 0)
		return ret;
	rp_tool_error("top: %s", strerror(-ret));
	return RP_EXIT_FAILURE;
}

/* Show a process in a process of its own. */
static int run_member(void *data, const struct rp_target *target)
{
	struct top *top = data;
	enum rp_top_wish wish;

	top->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (top->wake_fd >= 0)
		return show_target(top, target, &wish);
	rp_tool_error("top: %s", strerror(errno));
	return RP_EXIT_FAILURE;
}

/* Show all processes, also those that start later, until a signal. Return: the exit status. */
static int show_machine(struct top *top)
{
	int status;

	top->output = mmap(NULL, sizeof(*top->output), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (top->output == MAP_FAILED) {
		rp_tool_error("top: %s", strerror(errno));
		return RP_EXIT_FAILURE;
	}
	rp_shared_output_init(top->output);
	status = RP_EXIT_FAILURE;
	if (!rp_recording_search_providers(top->options, "top", top->parsed, top->parsed_count,
					   &top->search))
		status = rp_machine_sessions_run(&(struct rp_machine_sessions){
			.command = "top", .signal_fd = top->signal_fd,
			.duration_ms = top->options->duration_ms, .output = top->output,
			.search = top->search, .run = run_member, .data = top,
		});
	rp_provider_search_destroy(top->search);
	munmap(top->output, sizeof(*top->output));
	return status;
}

/* Return: the exit status. */
static int show_targets(struct top *top)
{
	const char *name = top->options->name;
	enum rp_top_wish wish = RP_TOP_CHOOSE;
	pid_t pid = top->options->pid;
	int status = RP_EXIT_OK;

	while (wish == RP_TOP_CHOOSE) {
		struct rp_target target;

		if (!pid && !name && top->screen)
			pid = rp_top_screen_choose(top->screen, top->signal_fd);
		else if (!pid && !name)
			return show_machine(top);
		if (!pid && !name)
			return RP_EXIT_OK;
		if (rp_target_find(pid, name, &target))
			return RP_EXIT_FAILURE;
		status = show_target(top, &target, &wish);
		rp_target_fini(&target);
		pid = 0;
		name = NULL;
	}
	return status;
}

static int run(struct top *top)
{
	int ret = top->signal_fd = rp_signals_open(), status;

	if (ret >= 0)
		ret = top->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ret >= 0 && top->options->format == RP_FORMAT_TEXT) {
		ret = rp_top_screen_open(&top->screen);
		if (ret == -ENOTTY || ret == -ENOSYS)
			ret = 0;
	}
	if (ret < 0) {
		rp_tool_error("top: %s", strerror(-ret));
		return RP_EXIT_FAILURE;
	}
	if (!top->screen)
		rp_top_view_begin(top->options->format);
	status = show_targets(top);
	rp_top_screen_close(top->screen);
	close(top->wake_fd);
	rp_signals_close(top->signal_fd);
	return status;
}

int rp_command_top(const struct rp_tool_options *options)
{
	struct top top = { .options = options, .lock = PTHREAD_MUTEX_INITIALIZER };
	int status;

	if (options->format == RP_FORMAT_CSV && !options->pid && !options->name) {
		rp_tool_error("top: CSV has no column for the process; choose one by -p or -n, or "
			      "use --format json");
		return RP_EXIT_USAGE;
	}
	if (options->where && rp_expression_take("top: --where", options->where, &top.where))
		return RP_EXIT_USAGE;
	status = init_providers(&top);
	if (status == RP_EXIT_OK) {
		signal(SIGPIPE, SIG_IGN);
		status = run(&top);
	}
	free_providers(&top);
	rp_expression_destroy(top.where);
	return status;
}
