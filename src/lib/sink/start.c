/* SPDX-License-Identifier: MIT */
/* rp_session_start(): open the output that the caller names, and start the session. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/session_setup.h"
#include "sample/sample.h"
#include "sink/sinks.h"

/*
 * O_NONBLOCK: a FIFO without a reader must not block the program; open(2) fails with ENXIO instead.
 * O_APPEND: a write must not extend a file again that another program truncated. A file keeps its
 * content until the session has started. The lock ensures a single writer, since another copy of
 * this library in the process expands `{pid}` to the same name. A file system without locks has no
 * such protection.
 */
static int open_output(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		      flags, 0600);
	struct stat file;

	if (fd < 0)
		return rp_failed("open");
	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	    rp_file_lock(fd, F_WRLCK) != 0) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

int rp_sink_open_path(const char *path)
{
	return open_output(path, 0);
}

/* A caller's descriptor may not be open for writing (O_RDONLY, O_PATH). */
static int check_is_writable(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	/* If a seccomp filter refuses fcntl(2), the first write reports the error. */
	if (flags < 0)
		return errno == EBADF ? -EBADF : 0;
	return (flags & O_ACCMODE) == O_RDONLY ? -EBADF : 0;
}

int rp_sink_create(int fd, bool replace, const struct rp_sink_content *content,
		   struct rp_sink **ret_sink)
{
	struct stat stat;
	int ret = check_is_writable(fd);

	if (ret != 0)
		return ret;
	if (fstat(fd, &stat) != 0)
		return rp_failed("fstat");
	if (S_ISSOCK(stat.st_mode) || S_ISFIFO(stat.st_mode))
		return rp_sink_stream_create(fd, NULL, 0, content, ret_sink);
	return rp_sink_file_create(fd, replace, content, ret_sink);
}

/* Start the session on a sink that the caller has created, unless `ret` is an error. */
static int start_on(struct rp_session_setup *setup, int ret, struct rp_session **ret_session)
{
	if (ret != 0)
		return ret;
	ret = rp_session_open(setup, ret_session);
	if (ret != 0)
		setup->sink->ops->destroy(setup->sink);
	return ret;
}

/* Delete the file that a failed start created, if it is still at the path and empty. */
static void remove_created(const char *path, int fd)
{
	struct rp_file_id id;
	struct stat file;

	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0 &&
	    rp_file_identify(fd, &id) == 0 && rp_file_is_at(path, &id))
		(void)unlink(path);
}

static int start_at_path(struct rp_session_setup *setup, const struct rp_sink_content *content,
			 struct rp_session **ret_session)
{
	const char *path = setup->options->output_path;
	int fd = open_output(path, O_EXCL), ret;
	const bool is_new = fd >= 0;

	if (fd == -EEXIST) {
		rp_failed_call = NULL;
		fd = open_output(path, 0);
	}
	if (fd < 0)
		return fd;
	ret = rp_sink_create(fd, true, content, &setup->sink);
	if (ret == 0)
		ret = rp_session_open(setup, ret_session);
	else
		setup->sink = NULL;
	if (ret == 0)
		return 0;
	if (is_new)
		remove_created(path, fd);
	if (setup->sink)
		setup->sink->ops->destroy(setup->sink);
	else
		close(fd);
	return ret;
}

static int start_on_descriptor(struct rp_session_setup *setup,
			       const struct rp_sink_content *content,
			       struct rp_session **ret_session)
{
	int fd = setup->options->output_fd, ret;

	if (fd <= 0)
		return -EINVAL;
	ret = rp_sink_create(fd, false, content, &setup->sink);
	if (ret != 0)
		return ret;
	ret = rp_session_open(setup, ret_session);
	if (ret != 0) {
		setup->sink->keep_fd = true;	/* the descriptor stays the caller's */
		setup->sink->ops->destroy(setup->sink);
	}
	return ret;
}

static bool can_roll(const struct rp_session_options *options)
{
	return options->roll_bytes == 0 ||
	       (options->roll_bytes >= RP_SESSION_ROLL_MIN && options->output_path &&
		!options->recover_path &&
		!(options->flags & (RP_SESSION_OVERWRITE | RP_SESSION_COARSE)));
}

static int start(const struct rp_session_options *options, struct rp_session **ret_session)
{
	struct rp_session_setup setup = { .options = options };
	struct rp_sink_content content = { 0 };

	if ((options->provider_count && !options->providers) ||
	    options->provider_count > RP_SESSION_PROVIDERS_MAX || !can_roll(options) ||
	    (options->format && options->format != 4 && options->format != 6))
		return -EINVAL;
	content.rundown = !(options->flags & RP_SESSION_NO_RUNDOWN);
	content.sample_interval_ns = rp_sample_interval_of(options->providers,
							   options->provider_count);
	setup.sample_interval_ns = content.sample_interval_ns;
	setup.format = content.format = options->format;
	if ((options->flags & RP_SESSION_OVERWRITE) && !options->output_path &&
	    options->output_fd <= 0)
		return start_on(&setup, rp_sink_none_create(&setup.sink), ret_session);
	if (options->roll_bytes)
		return start_on(&setup, rp_sink_roll_create(options->output_path,
							    options->roll_bytes, &content,
							    &setup.sink), ret_session);
	return options->output_path ? start_at_path(&setup, &content, ret_session) :
				      start_on_descriptor(&setup, &content, ret_session);
}

RP_PUBLIC int rp_session_start(const struct rp_session_options *options,
			       struct rp_session **ret_session)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_session_options own;

	rp_failed_call = NULL;
	if (!ret_session ||
	    rp_sized_read(&own, sizeof(own), RP_SESSION_OPTIONS_SIZE_V1, options) != 0)
		return -EINVAL;
	return start(&own, ret_session);
}
