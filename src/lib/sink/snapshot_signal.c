/* SPDX-License-Identifier: MIT */
/*
 * rp_snapshot_on_signal(): the handler posts a semaphore and calls the program's own handler. A
 * thread then takes the snapshots.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/session.h>

#include "base/atomic.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/snapshot.h"
#include "sink/series.h"
#include "sink/snapshot_signal.h"
#include "sink/sinks.h"

#define ATTEMPTS 8u

static struct {
	bool taken;			/* atomic */
	int number;
	struct sigaction before;	/* the program's; constant while our handler is installed */
	sem_t wake;
	char *path;			/* absolute, because the program may change its directory */
	struct rp_file_series series;
	rp_warn_function *warn_about;
} watch;

static void on_signal(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)sem_post(&watch.wake);
	errno = saved;
	if (watch.before.sa_flags & SA_SIGINFO)
		watch.before.sa_sigaction(number, info, context);
	else if (watch.before.sa_handler != SIG_DFL && watch.before.sa_handler != SIG_IGN)
		watch.before.sa_handler(number);
}

/*
 * Create the next file of the series. Return: its descriptor, with `ret_path` for free(); -errno.
 */
static int make_file(char **ret_path)
{
	struct rp_file_series_state state;
	int ret = rp_file_series_look(&watch.series, &state);

	for (unsigned int i = 1; ret == 0 && i <= ATTEMPTS; i++) {
		char *path = rp_file_series_path(&watch.series, state.last + i);
		int fd;

		if (!path)
			return -ENOMEM;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
		if (fd >= 0) {
			*ret_path = path;
			return fd;
		}
		/* EEXIST: another process was faster. */
		ret = errno == EEXIST && i < ATTEMPTS ? 0 : -errno;
		free(path);
	}
	return ret;
}

static void warn_about(const char *path, int error)
{
	if (error != 0 && watch.warn_about)
		watch.warn_about("cannot write a snapshot to", path, -error);
}

static void write_snapshot(struct rp_snapshot *snapshot)
{
	struct rp_snapshot_info info;
	char *path = NULL;
	int fd, ret;

	fd = make_file(&path);
	if (fd < 0) {
		warn_about(watch.path, fd);
		return;
	}
	ret = rp_sink_write_snapshot(snapshot, fd, &info);
	if (ret != 0)
		(void)unlink(path);
	warn_about(path, ret);
	free(path);
}

static void take_snapshots(void)
{
	uint64_t ids[RP_SESSIONS_MAX];
	size_t count = rp_snapshot_sessions(ids);

	for (size_t i = 0; i < count; i++) {
		struct rp_snapshot *snapshot;
		int ret = rp_snapshot_take_by_id(ids[i], &snapshot);

		if (ret == 0) {
			write_snapshot(snapshot);
			rp_snapshot_free(snapshot);
		} else if (ret == -ENOMEM) {
			warn_about(watch.path, ret);
		}
	}
}

static void *run(void *data)
{
	(void)data;
	for (;;) {
		while (sem_wait(&watch.wake) != 0)
			;
		/* All signals that arrived during a snapshot together request one more. */
		while (sem_trywait(&watch.wake) == 0)
			;
		take_snapshots();
	}
	return NULL;
}

static bool is_fatal(int number)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		if (number == fatal[i])
			return true;
	}
	return false;
}

/* Keep the flags and the mask of the program's handler, so that it runs as before. */
static int install(int number)
{
	struct sigaction action = { .sa_flags = SA_RESTART | SA_ONSTACK };

	if (!(watch.before.sa_flags & SA_SIGINFO) && (watch.before.sa_handler == SIG_DFL ||
						      watch.before.sa_handler == SIG_IGN)) {
		sigemptyset(&action.sa_mask);
	} else {
		action.sa_flags = watch.before.sa_flags;
		action.sa_mask = watch.before.sa_mask;
	}
	action.sa_flags |= SA_SIGINFO;
	action.sa_sigaction = on_signal;
	watch.number = number;
	return sigaction(number, &action, NULL) == 0 ? 0 : -errno;
}

/* Restore the program's handler, unless the program has installed another one since. */
static void uninstall(void)
{
	struct sigaction now;

	if (sigaction(watch.number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	    now.sa_sigaction == on_signal)
		(void)sigaction(watch.number, &watch.before, NULL);
}

static char *absolute(const char *path)
{
	char *folder = *path == '/' ? NULL : getcwd(NULL, 0), *made = NULL;

	if (*path == '/')
		return rp_text_copy(path);
	if (!folder || asprintf(&made, "%s/%s", folder, path) < 0)
		made = NULL;
	free(folder);
	return made;
}

static int set_path(const char *path)
{
	int ret;

	watch.path = absolute(path);
	if (!watch.path)
		return -ENOMEM;
	ret = rp_file_series_init(&watch.series, watch.path);
	if (ret != 0)
		free(watch.path);
	return ret;
}

static int begin(int number)
{
	pthread_t thread;
	int ret;

	ret = install(number);
	if (ret != 0)
		return ret;
	ret = rp_thread_start(&thread, "ringpipe-signal", run, NULL);
	if (ret == 0)
		pthread_detach(thread);
	else
		uninstall();
	return ret;
}

static int start(int number, const char *path, rp_warn_function *warn_by)
{
	struct sigaction before;
	int ret;

	if (!path || !*path || is_fatal(number) || sigaction(number, NULL, &before) != 0 ||
	    number == SIGKILL || number == SIGSTOP)
		return -EINVAL;
	if (before.sa_flags & (int)SA_RESETHAND || __atomic_exchange_n(&watch.taken, true,
								       __ATOMIC_ACQ_REL))
		return -EBUSY;
	watch.before = before;
	watch.warn_about = warn_by;
	ret = set_path(path);
	if (ret == 0) {
		sem_init(&watch.wake, 0, 0);
		ret = begin(number);
		if (ret != 0) {
			rp_file_series_fini(&watch.series);
			free(watch.path);
		}
	}
	if (ret != 0)
		rp_store_release(&watch.taken, false);
	return ret;
}

static int parse(const char *text, int *ret_number)
{
	const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
	char *end;
	long number = strtol(text, &end, 10);

	if (*text >= '0' && *text <= '9' && !*end && number < NSIG) {
		*ret_number = (int)number;
		return 0;
	}
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcmp(known, name) == 0) {
			*ret_number = i;
			return 0;
		}
	}
	return -EINVAL;
}

int rp_snapshot_signal_start_named(const char *name, const char *path, rp_warn_function *warn_by)
{
	int number, ret = path ? parse(name, &number) : -ENOMEM;

	return ret == 0 ? start(number, path, warn_by) : ret;
}

void rp_snapshot_signal_forget(void)
{
	if (rp_load_acquire(&watch.taken))
		uninstall();
	rp_store_release(&watch.taken, false);
}

RP_PUBLIC int rp_snapshot_on_signal(int signal_number, const char *path)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return start(signal_number, path, NULL);
}
