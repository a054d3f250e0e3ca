/* SPDX-License-Identifier: MIT */
/*
 * Library initialisation: runs when the library is loaded, when the process forks, and when it
 * ends. This is the only file that uses all folders.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "base/failure.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/warn.h"
#include "core/activity_slots.h"
#include "core/core.h"
#include "core/fork.h"
#include "core/keys.h"
#include "core/missing.h"
#include "core/provider_table.h"
#include "core/session_setup.h"
#include "counter/counters.h"
#include "diag/diag.h"
#include "export/lttng.h"
#include "export/tracers.h"
#include "export/user_events.h"
#include "host/copies.h"
#include "host/identity.h"
#include "host/mappings.h"
#include "host/runtime.h"
#include "host/symbols.h"
#include "otel/otel.h"
#include "sample/sample.h"
#include "sink/snapshot_signal.h"

/* A child that execs within this time creates no socket. */
#define CHILD_DELAY_MS 100u

/* Time after which a start-up that waits for a tool reports this. */
#define REPORT_AFTER_MS 5000u

static struct rp_session *environment_session;
static struct rp_triggers *environment_triggers;
static bool has_server;
/* The process that owns this state. Fork handlers may not run, as in a dlmopen(3) copy. */
static pid_t owner;
/* The process has a .NET runtime, which uses .NET's variables and the usual socket name. */
static bool beside_dotnet;

/* The program may define this. */
extern const uint32_t rp_diagnostics_flags __attribute__((weak));

static uint32_t flags(void)
{
	return &rp_diagnostics_flags ? rp_diagnostics_flags : 0;
}

static const char *setting(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

/* A setting of the .NET runtime, which also accepts its old prefix, COMPlus_. */
static const char *shared_setting(const char *name)
{
	const char *value = setting(name);
	char old[64];

	if (value)
		return value;
	snprintf(old, sizeof(old), "COMPlus_%s", name + strlen("DOTNET_"));
	return setting(old);
}

static const char *dotnet_setting(const char *name)
{
	return beside_dotnet ? NULL : shared_setting(name);
}

static bool is_one(const char *value)
{
	return value && strcmp(value, "1") == 0;
}

static bool is_zero(const char *value)
{
	return value && strcmp(value, "0") == 0;
}

static bool wants_server(void)
{
	return !is_zero(setting("RINGPIPE_DIAGNOSTICS")) &&
	       !is_zero(shared_setting("DOTNET_EnableDiagnostics")) &&
	       !is_zero(shared_setting("DOTNET_EnableDiagnostics_IPC"));
}

struct environment {
	const char *config;
	const char *output;
	const char *megabytes;		/* or NULL */
	const char *roll_megabytes;	/* or NULL */
	const char *recover;		/* or NULL */
	int base;			/* number base of `megabytes` */
	const char *block_ms;		/* or NULL */
	const char *format;		/* or NULL */
	bool is_ours;			/* from RINGPIPE_CONFIG */
	bool overwrites;		/* flight recorder: no default output */
	bool blocks;			/* with the default time limit */
	bool stacks, coarse;
	bool rundown;
};

/*
 * Read ringpipe's variables, or else those of the .NET runtime, with its defaults. Stacks differ:
 * in native code a stack costs more than its event, so they are off unless a variable enables them.
 */
static bool read_environment(struct environment *ret_environment)
{
	*ret_environment = (struct environment){ .base = 10, .rundown = true };
	ret_environment->megabytes = setting("RINGPIPE_BUFFER_MB");
	ret_environment->roll_megabytes = setting("RINGPIPE_ROLL_MB");
	ret_environment->block_ms = setting("RINGPIPE_BLOCK_MS");
	ret_environment->format = setting("RINGPIPE_FORMAT");
	ret_environment->config = setting("RINGPIPE_CONFIG");
	ret_environment->output = setting("RINGPIPE_OUTPUT");
	ret_environment->stacks = is_one(setting("RINGPIPE_STACKS"));
	ret_environment->coarse = is_one(setting("RINGPIPE_COARSE"));
	ret_environment->recover = setting("RINGPIPE_RECOVER");
	ret_environment->overwrites = is_one(setting("RINGPIPE_RECORDER"));
	ret_environment->is_ours = ret_environment->config != NULL;
	if (!ret_environment->is_ours) {
		if (!is_one(dotnet_setting("DOTNET_EnableEventPipe")))
			return false;
		*ret_environment = (struct environment){ .base = 16 };	/* as CoreCLR's numbers */
		ret_environment->config = dotnet_setting("DOTNET_EventPipeConfig");
		ret_environment->output = dotnet_setting("DOTNET_EventPipeOutputPath");
		ret_environment->megabytes = dotnet_setting("DOTNET_EventPipeCircularMB");
		ret_environment->stacks = is_one(dotnet_setting("DOTNET_EventPipeEnableStackwalk"));
		ret_environment->rundown = !is_zero(dotnet_setting("DOTNET_EventPipeRundown"));
		ret_environment->blocks = is_one(dotnet_setting("DOTNET_EventPipeBufferingMode"));
	}
	if (!ret_environment->config)
		ret_environment->config = "*";
	if (!ret_environment->output && !ret_environment->overwrites)
		ret_environment->output = ret_environment->is_ours ? "trace-{pid}.nettrace" :
					  "trace.nettrace";
	return true;
}

/* Report a setting that failed, since no return value can. */
static void warn_about(const char *what, const char *value, int error)
{
	const char *call = rp_failed_call_for(error);

	rp_warn("ringpipe: %s \"%s\": %s%s%s\n", what, value, rp_text_error(error),
		call ? " from " : "", call ? call : "");
}

/* No text means 0 bytes, the default. The text "0" is invalid. */
static int read_megabytes(const char *what, const char *text, int base, size_t *ret_bytes)
{
	uint64_t megabytes = 0;
	int ret = text ? rp_text_number(text, base, SIZE_MAX >> 20, &megabytes) : 0;

	if (text && megabytes == 0)
		ret = -EINVAL;
	if (ret != 0)
		warn_about(what, text, -ret);
	*ret_bytes = (size_t)megabytes << 20;
	return ret;
}

/* The version of nettrace: no text is 0, the default. */
static int read_format(const char *text, uint32_t *ret_format)
{
	*ret_format = text ? (uint32_t)atoi(text) : 0;
	if (!text || strcmp(text, "4") == 0 || strcmp(text, "6") == 0)
		return 0;
	warn_about("RINGPIPE_FORMAT is neither 4 nor 6 but", text, EINVAL);
	return -EINVAL;
}

static int read_numbers(const struct environment *environment, struct rp_session_options *options)
{
	uint64_t block_ms = options->block_ms;
	int ret = read_megabytes("cannot read the megabytes of the buffer", environment->megabytes,
				 environment->base, &options->buffer_bytes);

	if (ret == 0)
		ret = read_megabytes("cannot read the megabytes of rolling files",
				     environment->roll_megabytes, 10, &options->roll_bytes);
	if (ret == 0)
		ret = read_format(environment->format, &options->format);
	if (ret != 0 || !environment->block_ms)
		return ret;
	ret = rp_text_number(environment->block_ms, 10, UINT32_MAX, &block_ms);
	if (ret != 0)
		warn_about("cannot read the milliseconds that writers wait", environment->block_ms,
			   -ret);
	options->block_ms = (uint32_t)block_ms;
	return ret;
}

static void warn_of_missing(const char *provider, const char *existing)
{
	rp_process_warn("ringpipe: this process has no provider \"%s\"; it has %s\n", provider,
			*existing ? existing : "none");
}

static int start_from(const struct environment *environment, const char *path)
{
	struct rp_session_options options = {
		.size = sizeof(options),
		.name = "environment",
		.flags = (environment->stacks ? RP_SESSION_STACKS : 0u) |
			 (environment->coarse ? RP_SESSION_COARSE : 0u) |
			 (environment->rundown ? 0u : RP_SESSION_NO_RUNDOWN) |
			 (environment->overwrites ? RP_SESSION_OVERWRITE : 0u),
		.output_path = path,
		.recover_path = is_zero(environment->recover) ? NULL :
				is_one(environment->recover) ? "" : environment->recover,
		.block_ms = environment->blocks ? RP_BLOCK_MS : 0,
	};
	struct rp_session_provider *providers;
	size_t count, at;
	int ret = read_numbers(environment, &options);

	if (ret != 0)
		return ret;
	ret = rp_providers_parse(environment->config, &providers, &count, &at);
	if (ret != 0) {
		warn_about("cannot read the providers (a name has up to 255 bytes) from here on",
			   environment->config + (ret == -EINVAL ? at : 0), -ret);
		return ret;
	}
	options.providers = providers;
	options.provider_count = count;
	ret = rp_session_start(&options, &environment_session);
	free(providers);
	/* Ignore -ENOMEM: there is no warning then. .NET's variables also name .NET's providers. */
	if (ret == 0 && environment->is_ours)
		(void)rp_session_watch_missing(environment_session, warn_of_missing);
	if (ret != 0 && !path)
		warn_about(options.recover_path ?
			   "cannot start a flight recorder with RINGPIPE_RECOVER of" :
			   "cannot start a flight recorder of", environment->config, -ret);
	else if (ret != 0)
		warn_about(ret == -EBUSY ? "another process writes to" : options.recover_path ?
			   "cannot start a session with RINGPIPE_RECOVER to" : options.roll_bytes ?
			   "cannot start a session with RINGPIPE_ROLL_MB to" :
			   "cannot start a session to", path, -ret);
	return ret;
}

/* Warn of values other than 0 and 1, such as "yes", which have no effect. */
static void check_switches(void)
{
	static const char *const names[] = {
		"RINGPIPE_STACKS", "RINGPIPE_COARSE", "RINGPIPE_RECORDER", "RINGPIPE_LTTNG",
		"RINGPIPE_STATIC_KEYS", "RINGPIPE_USER_EVENTS", "RINGPIPE_DIAGNOSTICS",
		"RINGPIPE_PROCESS_CONTEXT",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = setting(names[i]);

		if (value && !is_one(value) && !is_zero(value))
			rp_warn("ringpipe: %s is 0 or 1, not \"%s\"\n", names[i], value);
	}
}

static void start_environment_session(void)
{
	struct environment environment;
	char *path;

	if (!read_environment(&environment))
		return;
	path = environment.output ? rp_text_expand_pid(environment.output, getpid()) : NULL;
	if (path || !environment.output)
		(void)start_from(&environment, path);
	else
		warn_about("cannot start a session to", environment.output, ENOMEM);
	free(path);
	/* Child processes would overwrite this process's file. */
	if (environment.is_ours && environment.output && !strstr(environment.output, "{pid}"))
		unsetenv("RINGPIPE_CONFIG");
}

/* Start snapshots on a signal, and the triggers of the environment's session. */
static void start_environment_snapshots(void)
{
	const char *list = setting("RINGPIPE_TRIGGERS"), *output = setting("RINGPIPE_SNAPSHOTS");
	const char *name = setting("RINGPIPE_SNAPSHOT_SIGNAL");
	char *path = rp_text_expand_pid(output ? output : "snapshot-{pid}.nettrace",
					getpid());
	const struct rp_trigger_options options = {
		.size = sizeof(options), .triggers = list, .path = path,
	};
	int ret;

	if (list && environment_session) {
		ret = rp_triggers_start(environment_session, &options, &environment_triggers);
		if (ret != 0)
			warn_about("a flight recorder cannot watch for", list, -ret);
	}
	ret = name ? rp_snapshot_signal_start_named(name, path, warn_about) : 0;
	if (ret != 0)
		warn_about("cannot take snapshots at the signal", name, -ret);
	free(path);
}

static void add_port(const char *text, size_t length)
{
	struct rp_port port;
	int r = rp_port_parse(text, length, &port);
	char *copy;

	if (r == 0)
		r = rp_diag_add_port(&port);
	if (r == 0)
		return;
	copy = strndup(text, length);
	warn_about(rp_port_problem(r), copy ? copy : text, -r);
	free(copy);
}

/*
 * Every program has the default port, and few users miss it. So its failure is reported only if the
 * environment requests the port; other users see the error in their tool.
 */
static bool default_port_is_asked_for(void)
{
	return is_one(setting("RINGPIPE_DIAGNOSTICS")) ||
	       is_one(dotnet_setting("DOTNET_DefaultDiagnosticPortSuspend"));
}

static void report_of_default_port(void)
{
	const struct rp_port *port = &rp_diag_ports()->slots[0];
	const char *directory = setting("TMPDIR");
	const char *path = *port->path ? port->path : directory ? directory : "/tmp";

	if (port->error != 0)
		warn_about(rp_port_problem(port->error), path, -port->error);
}

/*
 * Only the process that got these variables waits. Its child processes would wait for a tool that
 * does not know them.
 */
static void forget_suspension(void)
{
	unsetenv("RINGPIPE_PORTS");
	unsetenv("DOTNET_DiagnosticPorts");
	unsetenv("COMPlus_DiagnosticPorts");
	unsetenv("DOTNET_DefaultDiagnosticPortSuspend");
	unsetenv("COMPlus_DefaultDiagnosticPortSuspend");
}

static void read_ports(void)
{
	const char *text = setting("RINGPIPE_PORTS"), *end;

	if (!text)
		text = dotnet_setting("DOTNET_DiagnosticPorts");
	for (; text && *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, ';');
		if (end != text)
			add_port(text, (size_t)(end - text));
	}
	if (is_one(dotnet_setting("DOTNET_DefaultDiagnosticPortSuspend")))
		rp_diag_suspend_default();
	if (rp_ports_suspended(rp_diag_ports()))
		forget_suspension();
}

static void report_what_is_waited_for(void)
{
	const struct rp_ports *ports = rp_diag_ports();

	for (size_t i = 0; i < ports->count; i++) {
		const struct rp_port *port = &ports->slots[i];

		if (rp_port_suspends(port))
			rp_warn("ringpipe: process %d waits at its start for a tool %s %s "
				"to resume it\n",
				(int)getpid(), port->listens ? "that connects to" :
				"that listens at", port->path);
	}
}

RP_PUBLIC void rp_diagnostics_wait(void)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	if (rp_diag_wait(REPORT_AFTER_MS) == 0)
		return;
	report_what_is_waited_for();
	while (rp_diag_wait(REPORT_AFTER_MS) != 0)
		;
}

RP_PUBLIC int rp_diagnostics_fd(void)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return rp_diag_fd();
}

RP_PUBLIC int rp_diagnostics_dispatch(void)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return rp_diag_dispatch(0);
}

RP_PUBLIC int rp_lttng_start(void)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	char reason[256];

	return rp_lttng_load(reason, sizeof(reason));
}

/* Errors are reported only if LTTng was requested, since it may not be installed. */
static void start_lttng(void)
{
	const char *wish = setting("RINGPIPE_LTTNG");
	char reason[256];

	if (is_zero(wish) || (!is_one(wish) && !rp_lttng_has_daemon()))
		return;
	if (rp_lttng_load(reason, sizeof(reason)) != 0 && is_one(wish))
		rp_warn("ringpipe: cannot hand events to LTTng: %s\n", reason);
}

RP_PUBLIC int rp_tracers_watch(uint32_t interval_ms)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return rp_tracers_start(interval_ms);
}

static void start_tracers(void)
{
	const char *text = setting("RINGPIPE_TRACERS_MS");
	uint64_t interval_ms = 0;
	int ret = text ? rp_text_number(text, 10, UINT32_MAX, &interval_ms) : 0;

	if (text && ret == 0)
		ret = rp_tracers_start((uint32_t)interval_ms);
	if (ret != 0)
		warn_about("cannot look for tracers at the interval (ms)", text, -ret);
}

static void start_user_events(void)
{
	int ret = is_one(setting("RINGPIPE_USER_EVENTS")) ? rp_user_events_open_all() : 0;

	if (ret != 0)
		rp_warn("ringpipe: cannot hand events to the kernel's user_events: %s\n",
			rp_text_error(-ret));
}

static void fork_prepare(void)
{
	rp_sample_fork_prepare();
	rp_counters_fork_prepare();
	rp_exporters_fork_prepare();
	rp_core_fork_prepare();
	rp_mappings_fork_prepare();
	rp_symbols_fork_prepare();
}

static void fork_parent(void)
{
	rp_symbols_fork_parent();
	rp_mappings_fork_parent();
	rp_core_fork_parent();
	rp_exporters_fork_parent();
	rp_counters_fork_parent();
	rp_sample_fork_parent();
}

static void fork_child(void)
{
	rp_symbols_fork_child();
	rp_mappings_fork_child();
	rp_core_fork_child();
	rp_keys_fork_child();
	rp_exporters_fork_child();
	rp_counters_fork_child();
	rp_sample_fork_child();
	rp_snapshot_signal_forget();
	rp_activity_init();
	rp_process_context_forget();
	owner = rp_copies_enter();
	environment_session = NULL;
	environment_triggers = NULL;
	if (!has_server)
		return;
	rp_diag_forget();
	has_server = rp_diag_start(CHILD_DELAY_MS) == 0;
}

static void start_server(void)
{
	bool asked = default_port_is_asked_for();

	if (beside_dotnet)
		rp_diag_use_own_name();
	read_ports();
	has_server = rp_diag_start(0) == 0;
	if (asked)
		report_of_default_port();
}

__attribute__((constructor)) static void library_init(void)
{
	static bool open;

	if (open)
		return;
	open = true;
	owner = rp_copies_enter();
	check_switches();
	beside_dotnet = rp_runtime_is_dotnet();
	if (rp_core_init() != 0) {
		start_environment_session();	/* reports that no session can start */
		return;
	}
	rp_counters_init();
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	(void)rp_sample_init();
	start_environment_session();
	start_environment_snapshots();
	start_lttng();
	start_tracers();
	start_user_events();
	rp_process_context_start();
	if (flags() & RP_DIAGNOSTICS_POLL)
		rp_diag_poll();
	else if (flags() & RP_DIAGNOSTICS_ON_DEMAND)
		rp_diag_start_on_demand();
	if (!wants_server())
		return;
	start_server();
	if (!(flags() & RP_DIAGNOSTICS_WAIT))
		rp_diagnostics_wait();
}

/* At exit: complete the sessions' output, then remove the socket. */
__attribute__((destructor)) static void on_exit_of_process(void)
{
	int ret;

	if (getpid() != owner)
		return;
	(void)rp_triggers_stop(environment_triggers, NULL);
	if (environment_session) {
		ret = rp_session_stop(environment_session, NULL);
		if (ret != 0)
			warn_about("the session ended early",
				   "RINGPIPE_OUTPUT or DOTNET_EventPipeOutputPath", -ret);
	}
	if (has_server)
		rp_diag_stop();
	rp_sessions_finish_all();
}

RP_PUBLIC void rp_object_register(struct rp_object *object)
{
	const char *keys = setting("RINGPIPE_STATIC_KEYS");
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	/* In a static build a constructor of the program may run before the library's. */
	library_init();
	rp_core_register(object);
	if (!is_zero(keys))
		rp_keys_register(object, is_one(keys) ? warn_about : NULL);
	rp_counters_register(object);
}

RP_PUBLIC void rp_object_unregister(struct rp_object *object)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	/* The object is about to be unmapped; stacks without symbols yet may refer to it. */
	rp_mappings_refresh();
	rp_counters_unregister(object);
	rp_keys_unregister(object);
	rp_core_unregister(object);
}
