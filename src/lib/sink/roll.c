/* SPDX-License-Identifier: MIT */
/*
 * The rolling sink writes one nettrace file after the other. Each file is complete, and all files
 * together stay within a quota.
 *
 * A file is full at an eighth of the quota, and the next file continues after its last event. This
 * works at any event: the merge delivers events in time order, so any place in that order is a
 * sequence point. Before the sink makes a file, it deletes the oldest files until two eighths of
 * the quota are free, twice the size of a full file. No file becomes that large, since the sink
 * writes at most 64 KB of a ring between two checks of the size.
 *
 * In a session with stacks, a file ends with the names of functions, which a separate thread looks
 * up. Meanwhile the next file receives events. Only if that file becomes full too do events wait in
 * their rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/shield.h"
#include "core/event_batch.h"
#include "sink/series.h"
#include "sink/sinks.h"

#define FILES 8u	/* the quota is this many full files */

/* A file, and the numbers for its sequence points. */
struct part {
	struct rp_sink *sink;	/* a sink of sink/nettrace.c; NULL: none */
	uint64_t lost_before;	/* the session's losses when the file began */
	uint64_t last_ns, lost;	/* time and losses when the next file began */
};

struct roll_sink {
	struct rp_sink base;
	struct rp_file_series series;
	struct rp_sink_content content;
	struct part now, ending;
	uint64_t number;	/* number of the current file */
	uint64_t quota_bytes;
	uint64_t last_ns;	/* time of the last event */
	uint64_t lost;		/* in the last sequence point */
	uint64_t delivered, shortened, bytes;	/* sums over the files that have ended */
};

static struct roll_sink *of(struct rp_sink *sink)
{
	return (struct roll_sink *)sink;
}

static void add_stats(struct rp_sink *base, const struct rp_sink *file)
{
	if (!file)
		return;
	base->delivered += file->delivered;
	base->pending += file->pending;
	base->shortened += file->shortened;
	base->bytes += file->bytes;
	base->memory_bytes += file->memory_bytes;
}

static void snapshot_stats(struct roll_sink *roll)
{
	struct rp_sink *base = &roll->base;

	base->delivered = roll->delivered;
	base->shortened = roll->shortened;
	base->bytes = roll->bytes;
	base->pending = 0;
	base->memory_bytes = 0;
	add_stats(base, roll->now.sink);
	add_stats(base, roll->ending.sink);
}

/* If the disk is full, delete the oldest file. Return: whether a file was deleted. */
static bool made_space(struct roll_sink *roll, int ret)
{
	return (ret == -ENOSPC || ret == -EDQUOT) &&
	       rp_file_series_delete_oldest(&roll->series,
					    roll->number - (roll->ending.sink != NULL));
}

/* Return: 0; -EAGAIN: the file cannot end yet; -errno. */
static int end_file(struct roll_sink *roll)
{
	struct part *ending = &roll->ending;
	struct rp_sink *sink = ending->sink;
	int ret;

	if (!sink)
		return 0;
	do {
		ret = sink->ops->finish(sink, ending->last_ns, ending->lost - ending->lost_before);
	} while (made_space(roll, ret));
	if (ret != 0)
		return ret;
	roll->delivered += sink->delivered;
	roll->shortened += sink->shortened;
	roll->bytes += sink->bytes;
	sink->ops->destroy(sink);
	ending->sink = NULL;
	return 0;
}

/*
 * Open a new, empty file for the path. If the file system supports O_TMPFILE, the file has no name
 * at first and becomes visible once it has a header.
 */
static int open_file(struct roll_sink *roll, const char *path, bool *ret_named)
{
	int flags = O_WRONLY | O_APPEND | O_CLOEXEC;
	int fd = open(roll->series.directory, flags | O_TMPFILE, 0600);

	*ret_named = fd < 0;
	if (fd < 0)
		fd = open(path, flags | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return errno == EEXIST ? -EBUSY : rp_failed("open");
	(void)rp_file_lock(fd, F_WRLCK);
	return fd;
}

static int give_name(int fd, const char *path)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return errno == EEXIST ? -EBUSY : rp_failed("linkat");
}

static int make_file_at(struct roll_sink *roll, const char *path, struct rp_sink **ret_sink)
{
	struct rp_sink *sink;
	bool named;
	int fd, ret;

	fd = open_file(roll, path, &named);
	if (fd < 0)
		return fd;
	ret = rp_sink_file_create(fd, false, &roll->content, &sink);
	if (ret == 0 && roll->base.waiting_bytes)
		sink->waiting_bytes = roll->base.waiting_bytes;
	if (ret != 0) {
		close(fd);
	} else {
		ret = sink->ops->flush(sink);	/* writes the header */
		if (ret == 0 && !named)
			ret = give_name(fd, path);
		if (ret != 0)
			sink->ops->destroy(sink);
	}
	if (ret != 0 && named)
		unlink(path);
	if (ret == 0)
		*ret_sink = sink;
	return ret;
}

/* Make the file after the current one. */
static int make_file(struct roll_sink *roll, struct rp_sink **ret_sink)
{
	char *path = rp_file_series_path(&roll->series, roll->number + 1);
	int ret;

	if (!path)
		return -ENOMEM;
	do {
		ret = make_file_at(roll, path, ret_sink);
	} while (made_space(roll, ret));
	free(path);
	return ret;
}

/* Delete files before `number` until the next file fits the quota. */
static void keep_quota(struct roll_sink *roll, uint64_t number)
{
	struct rp_file_series_state state;

	while (rp_file_series_look(&roll->series, &state) == 0 &&
	       state.bytes > roll->quota_bytes / FILES * (FILES - 2) &&
	       rp_file_series_delete_oldest(&roll->series, number))
		;
}

static int begin_file(struct roll_sink *roll)
{
	struct rp_sink *sink;
	int ret = end_file(roll);

	if (ret != 0)
		return ret;
	keep_quota(roll, roll->number);
	roll->content.start_ns = roll->last_ns;
	ret = make_file(roll, &sink);
	if (ret != 0)
		return ret;
	roll->ending = roll->now;
	roll->ending.last_ns = roll->last_ns;
	roll->ending.lost = roll->lost;
	roll->now = (struct part){ .sink = sink, .lost_before = roll->lost };
	roll->base.fd = sink->fd;
	roll->base.file = sink->file;
	roll->number++;
	return end_file(roll);
}

static int begin_file_if_full(struct roll_sink *roll)
{
	int ret;

	if (rp_sink_file_bytes(roll->now.sink) < roll->quota_bytes / FILES)
		return 0;
	ret = begin_file(roll);
	/* The previous file still waits for its names, but the current file has space. */
	if (ret == -EAGAIN && rp_sink_file_bytes(roll->now.sink) < roll->quota_bytes / FILES)
		ret = 0;
	return ret;
}

static int roll_batch(struct rp_sink *base, struct rp_event_batch *batch)
{
	struct roll_sink *roll = of(base);
	int ret = begin_file_if_full(roll);

	if (ret != 0)
		return ret;
	do {
		ret = roll->now.sink->ops->batch(roll->now.sink, batch);
	} while (made_space(roll, ret));
	roll->last_ns = batch->last_ns;
	snapshot_stats(roll);
	return ret;
}

static int roll_event(struct rp_sink *base, const struct rp_record_view *view)
{
	struct roll_sink *roll = of(base);
	int ret;

	do {
		ret = roll->now.sink->ops->event(roll->now.sink, view);
	} while (made_space(roll, ret));
	if (ret == 0)
		roll->last_ns = view->time_ns;
	snapshot_stats(roll);
	return ret;
}

static int roll_sequence_point(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct roll_sink *roll = of(base);

	roll->lost = lost;
	roll->last_ns = time_ns;
	return roll->now.sink->ops->sequence_point(roll->now.sink, time_ns,
						   lost - roll->now.lost_before);
}

/* Return: whether another program deleted the current file: the sink then begins the next. */
static bool is_deleted(const struct roll_sink *roll)
{
	struct stat file;

	return fstat(roll->base.fd, &file) == 0 && file.st_nlink == 0;
}

static int roll_flush(struct rp_sink *base)
{
	struct roll_sink *roll = of(base);
	int ret = end_file(roll);

	if (ret == 0 && is_deleted(roll))
		ret = begin_file(roll);
	if (ret == 0 || ret == -EAGAIN) {
		do {
			ret = roll->now.sink->ops->flush(roll->now.sink);
		} while (made_space(roll, ret));
	}
	snapshot_stats(roll);
	return ret;
}

static int roll_finish(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct roll_sink *roll = of(base);
	struct rp_sink *sink = roll->now.sink;
	int ret = end_file(roll);

	base->busy = roll->ending.sink && roll->ending.sink->busy;
	if (ret == 0) {
		do {
			ret = sink->ops->finish(sink, time_ns, lost - roll->now.lost_before);
		} while (made_space(roll, ret));
		base->busy = sink->busy;
	}
	snapshot_stats(roll);
	return ret;
}

static void roll_abandon(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct roll_sink *roll = of(base);
	struct part *ending = &roll->ending;

	if (ending->sink) {
		ending->sink->ops->abandon(ending->sink, ending->last_ns,
					   ending->lost - ending->lost_before);
		lost += ending->sink->pending;
	}
	roll->now.sink->ops->abandon(roll->now.sink, time_ns, lost - roll->now.lost_before);
	snapshot_stats(roll);
}

static void roll_destroy(struct rp_sink *base)
{
	struct roll_sink *roll = of(base);

	if (roll->ending.sink)
		roll->ending.sink->ops->destroy(roll->ending.sink);
	if (roll->now.sink)
		roll->now.sink->ops->destroy(roll->now.sink);
	rp_file_series_fini(&roll->series);
	free(roll);
}

static const struct rp_sink_ops roll_ops = {
	.batch = roll_batch,
	.event = roll_event,
	.sequence_point = roll_sequence_point,
	.flush = roll_flush,
	.finish = roll_finish,
	.abandon = roll_abandon,
	.destroy = roll_destroy,
};

/* Continue the numbers of existing files. */
static int begin_first(struct roll_sink *roll)
{
	struct rp_file_series_state state;
	int ret = rp_file_series_look(&roll->series, &state);

	if (ret == 0)
		ret = rp_file_series_check_free(&roll->series, &state);
	if (ret != 0)
		return ret;
	roll->number = state.last;
	roll->last_ns = rp_clock_monotonic_ns();
	keep_quota(roll, state.last + 1);
	return begin_file(roll);
}

int rp_sink_roll_create(const char *path, uint64_t quota_bytes,
			const struct rp_sink_content *content, struct rp_sink **ret_sink)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	struct roll_sink *roll = calloc(1, sizeof(*roll));
	int ret;

	if (!roll)
		return -ENOMEM;
	roll->base.ops = &roll_ops;
	roll->base.fd = -1;
	roll->quota_bytes = quota_bytes;
	roll->content = *content;
	roll->content.rolls = true;
	ret = rp_file_series_init(&roll->series, path);
	if (ret != 0) {
		free(roll);
		return ret;
	}
	ret = begin_first(roll);
	if (ret != 0) {
		roll_destroy(&roll->base);
		return ret;
	}
	*ret_sink = &roll->base;
	return 0;
}
