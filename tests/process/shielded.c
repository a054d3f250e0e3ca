/* SPDX-License-Identifier: MIT */
/*
 * usage: shielded list
 *        shielded pipes|limit|full|storm DIRECTORY PLUGIN
 *
 * Calls every public function on the main thread, which blocks no signal, in one of two conditions:
 * all outputs fail (pipes and sockets without a reader, RLIMIT_FSIZE 0, a full disk), or a timer
 * interrupts each system call. SIGPIPE and SIGXFSZ keep their default action. After each row no
 * signal is pending, the signal mask is unchanged, and the errors are those of the writes. `list`
 * prints the names.
 */
#include "self_client.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

RP_DIAGNOSTICS(RP_DIAGNOSTICS_POLL);
RP_PROVIDER(shielded, "Test-Shielded");
RP_EVENT(shielded, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(filling));
RP_LOG_EVENTS(shielded);
RP_COUNTER(shielded, sum, NULL, NULL);
RP_GAUGE(shielded, level, NULL, NULL);
RP_HISTOGRAM(shielded, spread, NULL, NULL);

#define STORM_NS 100000

enum hazard { PIPES, LIMIT, FULL, STORM };

static const char *const hazards[] = { "pipes", "limit", "full", "storm" };
static const int errors[] = { -EPIPE, -EFBIG, -ENOSPC, 0 };
static enum hazard hazard;
static const char *directory, *plugin;

static const struct rp_session_provider wanted = {
	.size = sizeof(wanted), .name = "Test-Shielded", .level = 5,
};
static char trace[1 << 16];	/* a complete trace from before the failures */
static size_t trace_bytes;
static unsigned int ticks;
static struct rp_session *keeper;	/* started before; writes definitions to a file */

static struct rp_session_options options_for(uint32_t flags)
{
	return (struct rp_session_options){
		.size = sizeof(struct rp_session_options), .providers = &wanted,
		.provider_count = 1, .flags = flags, .output_fd = -1,
		.buffer_bytes = flags & RP_SESSION_OVERWRITE ? RP_SESSION_OVERWRITE_MIN :
				RP_SESSION_BUFFER_MIN,
	};
}

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* Open an output that the hazard affects. `other` selects the second kind of output. */
static int bad_output(bool other)
{
	int fds[2];

	if (hazard != PIPES)
		return open(path_of(other ? "other" : "output"), O_WRONLY | O_CREAT | O_TRUNC,
			    0600);
	check(other ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 : pipe(fds) == 0);
	check(close(fds[0]) == 0);
	return fds[1];
}

static void write_some(void)
{
	static const char filling[5000];

	for (uint64_t i = 0; i < 20; i++)
		(void)shielded_mark(i, filling, i % 5 ? i : sizeof(filling));
}

/* The result is 0, for a complete file, only if the hazard lets no write fail. */
static void expect_error(int ret)
{
	if (ret != errors[hazard])
		fprintf(stderr, "%s: %d, not %d\n", hazards[hazard], ret, errors[hazard]);
	check(ret == errors[hazard]);
}

static void sessions(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	for (int other = 0; other < 2; other++) {
		struct rp_session_options options = options_for(0);
		struct rp_session *session;

		options.output_fd = bad_output(other);
		check(rp_session_start(&options, &session) == 0);
		write_some();
		(void)rp_sessions_flush(1000);
		check(rp_session_get_stats(session, &stats) == 0);
		expect_error(rp_session_stop(session, &stats));
	}
	check(rp_thread_set_blocking(0) == 1 && rp_thread_set_blocking(1) == 0);
	check(rp_loss_reason_name(RP_LOSS_SINK) != NULL);
}

/* The caller writes the header of the first file. */
static void rolled_sessions(void)
{
	struct rp_session_options options = options_for(0);
	struct rp_session *session = NULL;
	int ret;

	if (hazard == PIPES)
		return;
	options.output_path = path_of("rolled");
	options.roll_bytes = RP_SESSION_ROLL_MIN;
	ret = rp_session_start(&options, &session);
	expect_error(ret);
	if (ret == 0)
		check(rp_session_stop(session, NULL) == 0);
}

/* The caller creates the files of rings, and the creator of an event writes its definition. */
static void recoverable_sessions(void)
{
	struct rp_session_options options = options_for(0);
	char folder[4096];
	struct rp_session *session = NULL;
	int ret;

	if (hazard == PIPES)
		return;
	snprintf(folder, sizeof(folder), "%s", path_of("recovery"));
	options.output_path = "/dev/null";
	options.recover_path = folder;
	check(rp_session_start(&options, &session) == -EINVAL);
	options.output_path = path_of("recovered");
	ret = rp_session_start(&options, &session);
	expect_error(ret);
	if (ret == 0)
		check(rp_session_stop(session, NULL) == 0);
}

static void snapshots(void)
{
	struct rp_session_options options = options_for(RP_SESSION_OVERWRITE);
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	write_some();
	for (int other = 0; other < 2; other++) {
		int fd = bad_output(other);

		expect_error(rp_session_snapshot(session, NULL, fd, &info));
		check(close(fd) == 0);
	}
	if (hazard != PIPES)
		expect_error(rp_session_snapshot(session, path_of("snapshot"), -1, &info));
	check(rp_session_stop(session, NULL) == 0);
}

static void triggers(void)
{
	struct rp_session_options options = options_for(RP_SESSION_OVERWRITE);
	const struct rp_trigger_options trigger = {
		.size = sizeof(trigger), .triggers = "Test-Shielded:mark", .distance_ms = 1,
		.path = path_of("triggered"),
	};
	struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;
	struct rp_triggers *triggers_;
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	check(rp_triggers_start(session, &trigger, &triggers_) == 0);
	write_some();
	check(rp_triggers_get_stats(triggers_, &stats) == 0);
	check(rp_triggers_stop(triggers_, &stats) == 0);
	check(stats.error == (hazard == PIPES ? 0 : errors[hazard]));
	check(stats.snapshots + stats.failed > 0);
	check(rp_snapshot_on_signal(SIGUSR2, path_of("signalled")) == 0);
	check(raise(SIGUSR2) == 0);
	check(rp_session_stop(session, NULL) == 0);
}

static void take_event(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
}

static void listeners(void)
{
	struct rp_session_options options = options_for(0);
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener *listener, *pushed;
	struct rp_fields fields;
	struct rp_value value = RP_VALUE_INIT;
	char text[16];

	check(rp_listener_start(&options, take_event, NULL, &pushed) == 0 &&
	      rp_listener_start(&options, NULL, NULL, &listener) == 0);
	write_some();
	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	rp_listener_get_fields(&event, &fields);
	check(rp_fields_find(&fields, "serial", &value) == 0 &&
	      rp_value_get_text(&value, text, sizeof(text)) == 0 &&
	      rp_fields_next(&fields, &value) == 1);
	check(rp_listener_set_providers(listener, &wanted, 1) == 0 &&
	      rp_listener_get_stats(listener, &stats) == 0);
	check(rp_listener_drain(listener) == 0 && rp_listener_stop(listener, &stats) == 0);
	rp_listener_discard(pushed);
	check(rp_listener_stop(pushed, &stats) == 0);
}

static void on_state(struct rp_provider *of, const struct rp_provider_state *state, void *data)
{
	(void)of, (void)state, (void)data;
}

static int on_row(const struct rp_enabled *enabled, void *data)
{
	return (void)enabled, (void)data, 0;
}

static int on_traced(const struct rp_traced *traced, void *data)
{
	return (void)traced, (void)data, 0;
}

/* `keeper` enables the events that this function creates. */
static void providers(void)
{
	static const struct rp_field field = { "n", NULL, 0, RP_TYPE_U32, 0, 0, NULL };
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 7, .name = "made", .fields = &field, .field_count = 1,
	};
	const struct rp_part part = { "\0\0\0\0", 4 };
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_guid guid;
	void *library;

	check(rp_provider_create("Test-Shielded", on_state, NULL, &provider) == 0 &&
	      strcmp(rp_provider_name(provider), "Test-Shielded") == 0 &&
	      rp_provider_set_callback(provider, NULL, NULL) == 0);
	rp_guid_from_name("Test-Shielded", &guid);
	check(rp_event_create(provider, &decl, &event) == 0);
	check(rp_event_admit(event) && rp_event_write(event, &part, 1) <= 0);
	rp_event_destroy(event);
	check(rp_provider_destroy(provider) == 0);
	check(rp_enabled_list(on_row, NULL) == 0 && rp_traced_list(on_traced, NULL) == 0);
	check(rp_tracers_watch(1000) == 0);
	library = dlopen(plugin, RTLD_NOW);
	check(library && dlclose(library) == 0);
	check(rp_session_stop(keeper, NULL) == errors[hazard == PIPES ? STORM : hazard]);
	(void)rp_lttng_start();
}

static int observe_counter(struct rp_observation *observation, void *data)
{
	(void)data;
	return rp_observe(observation, 1.0, NULL, 0);
}

static void counters(void)
{
	const struct rp_counter_decl decl = {
		.size = sizeof(decl), .kind = RP_COUNTER_OBSERVED_SUM, .name = "observed",
		.observe = observe_counter,
	};
	const struct rp_counter_tag tag = { "key", "value" };
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	struct rp_counter_window *window;
	struct rp_counter *observed, *series;

	check(rp_counter_create(shielded_provider(), &decl, &observed) == 0);
	check(rp_counter_read(observed, &reading) == 0);
	check(rp_counter_window_open(observed, &window) == 0);
	check(rp_counter_window_read(window, &reading) == 0);
	rp_counter_window_close(window);
	check(rp_counter_destroy(observed) == 0);
	check(rp_counter_series(shielded_sum_counter(), &tag, 1, &series) == 0);
	check(rp_counter_add(series, 1) == 0 && rp_counter_set(shielded_level_counter(), 1) == 0);
	check(rp_counter_record(shielded_spread_counter(), 1) == 0);
	check(rp_counter_add_tagged(shielded_sum_counter(), 1, &tag, 1) == 0);
	check(rp_counter_record_tagged(shielded_spread_counter(), 1, &tag, 1) == 0);
}

static void activities(void)
{
	struct rp_activity activity, outer;
	struct rp_span span;
	char text[RP_TRACEPARENT_SIZE];
	struct rp_guid id;
	uint8_t flags;

	rp_activity_get(&activity);
	rp_activity_set(&activity);
	rp_activity_generate(&id);
	rp_activity_begin(&outer);
	rp_activity_end(&outer);
	rp_span_begin(&span, &outer);
	(void)rp_span_end(&span, &outer);
	RP_LOG(shielded, RP_LEVEL_ERROR, "text");
	rp_traceparent_generate(&activity, &flags);
	rp_traceparent_print(&activity, flags, text);
	check(rp_traceparent_parse(text, strlen(text), &activity, &flags) == 0);
}

static void parsers(void)
{
	struct rp_session_provider *list;
	size_t count;
	char *value;

	check(rp_providers_parse("A,B", &list, &count, NULL) == 0 && count == 2);
	free(list);
	check(rp_filter_data_get("k=v", "k", &value) == 0);
	free(value);
}

/* The caller owns the JSON stream and handles the signals that writing to it raises. */
static void readers(void)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_range range = RP_READER_RANGE_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	FILE *null = fopen("/dev/null", "w");
	char message[128], *key;
	struct rp_fields fields;
	struct rp_reader *reader;
	int fds[2];

	check(rp_reader_open_memory(trace, trace_bytes, &reader) == 0);
	check(!rp_reader_set_range(reader, &range) && !rp_reader_resume_after_damage(reader));
	check(rp_reader_next(reader, &event) && rp_reader_get_damage(reader, 0, NULL) == -EINVAL);
	rp_reader_get_fields(&event, &fields);
	check(!rp_reader_print_json(&event, null) && !rp_reader_get_info(reader, &info));
	check(rp_reader_get_key_value(reader, 0, (const char **)&key, NULL) == -ENOENT);
	check(!rp_reader_get_stats(reader, &stats) && !*rp_reader_error(reader));
	rp_reader_close(reader);
	check(rp_reader_open_explained(fileno(null), &reader, message, sizeof(message)) < 0);
	check(rp_reader_open("/dev/null", &reader) < 0 && pipe(fds) == 0 && close(fds[1]) == 0);
	check(rp_reader_open_fd(fds[0], &reader) < 0 && close(fds[0]) == 0 && fclose(null) == 0);
}

static int reply_to_command(const struct rp_host_command *command, struct rp_host_reply *reply,
			    void *data)
{
	(void)data;
	return rp_host_reply_put(reply, &command->id, sizeof(command->id));
}

/* Clients that disconnect before their reply, and a perf map that cannot be written. */
static void diagnostics(void)
{
	static const uint32_t map = 3;
	static const char code[64];
	struct rp_host host = RP_HOST_INIT;
	struct rp_host_range range;
	int fd;

	rp_diagnostics_wait();
	check(rp_diagnostics_fd() >= 0);
	rp_host_set_environment_callback(NULL, NULL);
	host.command_set = RP_HOST_COMMAND_SET_MIN;
	host.command = reply_to_command;
	check(rp_host_register(&host) == 0);
	check(rp_host_sample_now() == 0);
	serve(ask(RP_HOST_COMMAND_SET_MIN, 1, "", 0));
	check(rp_host_find_function((const void *)(uintptr_t)rp_code_add, &range) == 0);
	rp_host_unregister();
	for (int i = 0; i < 3; i++) {
		check(close(ask(4, 4, "", 0)) == 0);
		check(rp_diagnostics_dispatch() == 0);
	}
	fd = ask(4, 5, &map, sizeof(map));
	serve(fd);
	check(rp_code_add(code, sizeof(code), "code") == 0);
	check(rp_code_remove(code) == 0);
	serve(ask(4, 6, "", 0));
	serve(ask(4, 4, "", 0));
}

static int enter(const struct rp_component_host *host, struct rp_component *component)
{
	static struct rp_component_state state;

	return rp_component_init(&state, host, NULL, 0, component);
}

static void components(void)
{
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;
	struct rp_component_link *link;

	options.provider = shielded_provider();
	check(rp_component_attach(enter, &options, &link) == 0);
	check(rp_component_detach(link) == 0);
}

static int see_copy(const struct rp_host_copy *copy, void *data)
{
	return copy && !data ? 0 : -EINVAL;
}

static void preparation(void)
{
	check(rp_prepare(NULL) == 0 || rp_error_call() == NULL);
	check(rp_host_list_copies(see_copy, NULL) == 0);
	check(rp_process_context_publish(NULL) <= 0);
}

static const struct row {
	void (*call)(void);
	const char *names;
} rows[] = {
	{ sessions, "rp_session_start rp_session_stop rp_session_get_stats rp_thread_set_blocking "
	  "rp_loss_reason_name rp_event_write_regs rp_sessions_flush" },
	{ rolled_sessions, "rp_session_start" },
	{ recoverable_sessions, "rp_session_start" },
	{ snapshots, "rp_session_snapshot" },
	{ triggers, "rp_triggers_start rp_triggers_stop rp_triggers_get_stats "
	  "rp_snapshot_on_signal" },
	{ listeners, "rp_listener_start rp_listener_next rp_listener_get_fields "
	  "rp_listener_set_providers rp_listener_get_stats rp_listener_drain rp_listener_stop "
	  "rp_listener_discard rp_fields_find rp_fields_next rp_value_get_text" },
	{ providers, "rp_provider_create rp_provider_destroy rp_provider_name "
	  "rp_provider_set_callback rp_guid_from_name rp_event_create rp_event_admit "
	  "rp_event_write rp_event_destroy rp_enabled_list rp_traced_list rp_tracers_watch "
	  "rp_object_register rp_object_unregister rp_lttng_start" },
	{ counters, "rp_counter_create rp_counter_destroy rp_counter_read rp_counter_window_open "
	  "rp_counter_window_read rp_counter_window_close rp_counter_series rp_counter_add "
	  "rp_counter_set rp_counter_record rp_counter_add_tagged rp_counter_record_tagged "
	  "rp_observe" },
	{ activities, "rp_activity_get rp_activity_set rp_activity_generate rp_activity_begin "
	  "rp_activity_end rp_span_begin rp_span_end rp_log_format "
	  "rp_traceparent_generate rp_traceparent_print rp_traceparent_parse" },
	{ parsers, "rp_providers_parse rp_filter_data_get" },
	{ readers, "rp_reader_open rp_reader_open_fd rp_reader_open_memory rp_reader_next "
	  "rp_reader_get_fields rp_reader_print_json rp_reader_get_info rp_reader_get_stats "
	  "rp_reader_get_key_value rp_reader_error rp_reader_close rp_reader_open_explained "
	  "rp_reader_resume_after_damage rp_reader_set_range rp_reader_get_damage" },
	{ components, "rp_component_attach rp_component_detach" },
	{ preparation, "rp_prepare rp_error_call rp_host_list_copies "
	  "rp_process_context_publish" },
	{ diagnostics, "rp_diagnostics_wait rp_diagnostics_fd rp_diagnostics_dispatch "
	  "rp_host_set_environment_callback rp_code_add rp_code_remove rp_host_register "
	  "rp_host_unregister rp_host_sample_now rp_host_find_function rp_host_reply_put" },
};

static void check_signals(void)
{
	sigset_t mask, pending;

	check(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigpending(&pending) == 0);
	check(!sigismember(&mask, SIGPIPE) && !sigismember(&mask, SIGXFSZ));
	check(!sigismember(&pending, SIGPIPE) && !sigismember(&pending, SIGXFSZ));
}

/* A signal of the host is pending and blocked before the calls. It must stay pending. */
static void keep_what_is_pending(void)
{
	static const struct timespec at_once;
	sigset_t ours, pending;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	check(pthread_sigmask(SIG_BLOCK, &ours, NULL) == 0);
	check(raise(SIGPIPE) == 0 && raise(SIGXFSZ) == 0);
	snapshots();
	check(sigpending(&pending) == 0);
	check(sigismember(&pending, SIGPIPE) && sigismember(&pending, SIGXFSZ));
	check(sigtimedwait(&ours, NULL, &at_once) > 0 && sigtimedwait(&ours, NULL, &at_once) > 0);
	check(pthread_sigmask(SIG_UNBLOCK, &ours, NULL) == 0);
}

static void start_keeper(void)
{
	struct rp_session_options options = options_for(0);
	char folder[4096];

	/* Not on the full disk, where ring files that cannot be created would free space. */
	snprintf(folder, sizeof(folder), "%s/keeper", getenv("TMPDIR"));
	options.recover_path = folder;
	options.output_path = path_of("kept");
	check(rp_session_start(&options, &keeper) == 0);
}

static void write_trace(void)
{
	struct rp_session *session = session_to(path_of("whole"), "Test-Shielded",
						RP_SESSION_BUFFER_MIN);
	ssize_t got;
	int fd;

	check(shielded_mark(1, "x", 1) == 0);
	check(rp_session_stop(session, NULL) == 0);
	fd = open(path_of("whole"), O_RDONLY);
	got = read(fd, trace, sizeof(trace));
	check(got > 0 && close(fd) == 0);
	trace_bytes = (size_t)got;
}

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

/* Start a timer that interrupts this thread; its handler restarts no system call. */
static void begin_storm(void)
{
	struct sigaction action = { .sa_handler = on_tick };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	const struct itimerspec period = { { 0, STORM_NS }, { 0, STORM_NS } };
	timer_t timer;

	event._sigev_un._tid = getpid();
	check(sigaction(SIGUSR1, &action, NULL) == 0);
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	check(timer_settime(timer, 0, &period, NULL) == 0);
}

static void begin(void)
{
	const struct rlimit none = { 0, 0 };
	char block[4096] = "";
	int fd;

	if (hazard == PIPES) {
		check(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	} else if (hazard == LIMIT) {
		check(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
		check(setrlimit(RLIMIT_FSIZE, &none) == 0);
	} else if (hazard == FULL) {
		fd = open(path_of("filler"), O_WRONLY | O_CREAT, 0600);
		while (write(fd, block, sizeof(block)) > 0)
			;
		check(errno == ENOSPC && close(fd) == 0);
	} else {
		begin_storm();
	}
}

/* Mount the disk below the directory, so that the socket in the directory stays reachable. */
static void make_disk(void)
{
	directory = strdup(path_of("disk"));
	check(mkdir(directory, 0700) == 0);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", directory, "tmpfs", 0, "size=1m") != 0) {
		printf("no tmpfs of our own: %s\n", strerror(errno));
		exit(SKIPPED);
	}
}

int main(int argc, char **argv)
{
	const size_t count = sizeof(rows) / sizeof(*rows);

	if (argc == 2) {
		for (size_t i = 0; i < count; i++)
			puts(rows[i].names);
		return 0;
	}
	check(argc == 4);
	alarm(5 * PATIENCE_S);
	directory = argv[2];
	plugin = argv[3];
	while (strcmp(argv[1], hazards[hazard]) != 0)
		check(hazard++ < STORM);
	if (hazard == FULL)
		make_disk();
	write_trace();
	start_keeper();
	begin();
	for (size_t i = 0; i < count; i++) {
		printf("%s: %s\n", hazards[hazard], rows[i].names);
		fflush(stdout);
		rows[i].call();
		check_signals();
	}
	keep_what_is_pending();
	check(hazard != STORM || ticks > 0);
	return 0;
}
