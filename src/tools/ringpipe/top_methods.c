/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/top_methods.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/signals.h"
#include "tools/client/recording.h"
#include "tools/trace/dotnet_method.h"
#include "tools/trace/trace_symbols.h"

#define RUNTIME "Microsoft-Windows-DotNETRuntime"
#define JIT_KEYWORD 0x10u
#define VERBOSE 5u
#define BUFFER_MB 64u

struct rp_top_methods {
	pid_t child;			/* that runs the session; 0: none, or it was read */
	int fd;				/* of the child's trace */
	pthread_mutex_t lock;		/* of the members below */
	struct rp_symbols symbols;
	size_t sorted;			/* functions that a lookup can find */
	uint64_t process;		/* whose methods these are, as the trace names it */
};

struct rp_session_provider rp_top_methods_provider(const struct rp_session_provider *asked)
{
	struct rp_session_provider provider = *asked;

	provider.size = sizeof(provider);
	if (!asked->name || asked->keywords)
		provider.keywords |= JIT_KEYWORD;
	if (!asked->name || asked->level)
		provider.level = VERBOSE;
	provider.name = RUNTIME;
	return provider;
}

bool rp_top_methods_is_runtime(const char *provider)
{
	return !strcmp(provider, RUNTIME);
}

bool rp_top_methods_is_added(const struct rp_session_provider *asked,
			     const struct rp_reader_type *type)
{
	if (!rp_top_methods_is_runtime(type->provider))
		return false;
	return !asked->name || (asked->level && type->level > asked->level) ||
	       (asked->keywords && type->keywords && !(asked->keywords & type->keywords));
}

/* A short session, at whose end the runtime reports all methods. */
static void run_session(const struct rp_target *target, int fd, pid_t parent)
{
	const struct rp_session_provider none = { 0 };
	const struct rp_session_provider provider = rp_top_methods_provider(&none);
	struct rp_output output = {
		.path = "a file in memory", .fd = fd, .filter_fd = -1, .status_fd = -1,
	};
	const struct rp_recording_plan plan = {
		.target = target, .providers = &provider, .provider_count = 1,
		.buffer_mb = BUFFER_MB, .format = 4, .rundown = true, .duration_ms = 1,
	};
	struct rp_recording_result result;
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* Ctrl-C on a terminal is for the parent alone. */
	setpgid(0, 0);
	rp_signals_end_with(parent);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	rp_recording_run(&plan, &output, &result);
	_exit(result.end == RP_RECORDING_STOPPED ? 0 : 1);
}

int rp_top_methods_create(const struct rp_target *target, struct rp_top_methods **ret_methods)
{
	struct rp_top_methods *methods = calloc(1, sizeof(*methods));
	const pid_t parent = getpid();

	if (!methods)
		return -ENOMEM;
	pthread_mutex_init(&methods->lock, NULL);
	methods->fd = memfd_create("methods", MFD_CLOEXEC);
	if (methods->fd >= 0)
		methods->child = fork();
	if (methods->fd >= 0 && methods->child == 0)
		run_session(target, methods->fd, parent);
	if (methods->child < 0)
		methods->child = 0;
	*ret_methods = methods;
	return 0;
}

void rp_top_methods_destroy(struct rp_top_methods *methods)
{
	if (!methods)
		return;
	if (methods->child) {
		kill(methods->child, SIGKILL);
		waitpid(methods->child, NULL, 0);
	}
	if (methods->fd >= 0)
		close(methods->fd);
	rp_symbols_fini(&methods->symbols);
	pthread_mutex_destroy(&methods->lock);
	free(methods);
}

int rp_top_methods_take(struct rp_top_methods *methods, const struct rp_reader_event *event)
{
	int ret;

	if (!methods || !rp_dotnet_is_method(event->type))
		return 0;
	pthread_mutex_lock(&methods->lock);
	methods->process = event->process;
	ret = rp_symbols_take(&methods->symbols, event);
	pthread_mutex_unlock(&methods->lock);
	return ret;
}

/* A trace that is damaged or incomplete has some of the methods. */
static void read_trace(struct rp_top_methods *methods)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;

	if (lseek(methods->fd, 0, SEEK_SET) != 0 || rp_reader_open_fd(methods->fd, &reader) < 0)
		return;
	while (rp_reader_next(reader, &event) == 1 && rp_top_methods_take(methods, &event) >= 0)
		;
	rp_reader_close(reader);
}

/* Read the trace of the child if it has ended. */
static void read_child(struct rp_top_methods *methods)
{
	if (!methods->child || waitpid(methods->child, NULL, WNOHANG) == 0)
		return;
	methods->child = 0;
	read_trace(methods);
	close(methods->fd);
	methods->fd = -1;
}

bool rp_top_methods_update(struct rp_top_methods *methods)
{
	bool has_more;

	read_child(methods);
	pthread_mutex_lock(&methods->lock);
	has_more = methods->symbols.functions.count > methods->sorted;
	/* Without memory, the next call tries again. */
	if (has_more && rp_symbols_sort(&methods->symbols) == 0)
		methods->sorted = methods->symbols.functions.count;
	pthread_mutex_unlock(&methods->lock);
	return has_more;
}

char *rp_top_methods_find(struct rp_top_methods *methods, uint64_t address)
{
	struct rp_symbol symbol = { .function = NULL };
	char *name = NULL;

	pthread_mutex_lock(&methods->lock);
	/* A method that was reported since then would be found only after a sort. */
	if (methods->sorted && methods->sorted == methods->symbols.functions.count)
		rp_symbols_resolve(&methods->symbols, methods->process, INT64_MAX, address,
				   &symbol);
	if (symbol.function)
		name = strdup(symbol.function);
	pthread_mutex_unlock(&methods->lock);
	return name;
}
