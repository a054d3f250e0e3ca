/* SPDX-License-Identifier: MIT */
/* rp_session_start(): the output an embedder names, and the session on it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "core/session.h"
#include "sample/sample.h"
#include "sink/sink.h"

/*
 * A FIFO without a reader must not hang the host: opened without waiting, it says ENXIO. A file
 * keeps what it holds until the session has started, and has one writer: another copy of this
 * library in the process makes the same name of `{pid}`. Where the file system has no locks, nobody
 * is kept out.
 */
int rp_sink_open_path(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	struct stat file;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	    flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

int rp_sink_create(int fd, bool replace, const struct rp_sink_content *content,
		   struct rp_sink **ret_sink)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return -errno;
	if (S_ISSOCK(stat.st_mode) || S_ISFIFO(stat.st_mode))
		return rp_sink_stream_create(fd, NULL, 0, content, ret_sink);
	return rp_sink_file_create(fd, replace, content, ret_sink);
}

/* On a sink of our own, if it could be made. */
static int start_on(struct rp_session_setup *setup, int ret, struct rp_session **ret_session)
{
	if (ret != 0)
		return ret;
	ret = rp_session_open(setup, ret_session);
	if (ret != 0)
		setup->sink->ops->destroy(setup->sink);
	return ret;
}

static bool can_roll(const struct rp_session_options *options)
{
	return options->roll_bytes == 0 ||
	       (options->roll_bytes >= RP_SESSION_ROLL_MIN && options->output_path &&
		!options->recover_path &&
		!(options->flags & (RP_SESSION_OVERWRITE | RP_SESSION_COARSE)));
}

RP_PUBLIC int rp_session_start(const struct rp_session_options *options,
			       struct rp_session **ret_session)
{
	RP_UNTIL_RETURN int cancel = rp_thread_hold();
	struct rp_session_setup setup = { .options = options };
	struct rp_sink_content content = { 0 };
	int fd, ret;

	if (!options || options->size < sizeof(*options) || !ret_session ||
	    (options->provider_count && !options->providers) ||
	    options->provider_count > RP_SESSION_PROVIDERS_MAX || !can_roll(options))
		return -EINVAL;
	content.rundown = !(options->flags & RP_SESSION_NO_RUNDOWN);
	content.sample_interval_ns = rp_sample_interval_of(options->providers,
							   options->provider_count);
	setup.sample_interval_ns = content.sample_interval_ns;
	if ((options->flags & RP_SESSION_OVERWRITE) && !options->output_path &&
	    options->output_fd == -1)
		return start_on(&setup, rp_sink_none_create(&setup.sink), ret_session);
	if (options->roll_bytes)
		return start_on(&setup, rp_sink_roll_create(options->output_path,
							    options->roll_bytes, &content,
							    &setup.sink), ret_session);
	fd = options->output_path ? rp_sink_open_path(options->output_path) : options->output_fd;
	if (fd < 0)
		return options->output_path ? fd : -EINVAL;
	ret = rp_sink_create(fd, options->output_path != NULL, &content, &setup.sink);
	if (ret == 0) {
		ret = rp_session_open(&setup, ret_session);
		if (ret == 0)
			return 0;
		if (!options->output_path)
			setup.sink->keep_fd = true;	/* it is still the caller's */
		setup.sink->ops->destroy(setup.sink);
		return ret;
	}
	if (options->output_path)
		close(fd);
	return ret;
}
