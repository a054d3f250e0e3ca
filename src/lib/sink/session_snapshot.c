/* SPDX-License-Identifier: MIT */
/* rp_session_snapshot(): open the output, and write a session's recorded events to it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/shield.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/snapshot.h"
#include "sink/sinks.h"

static struct rp_sink_content content_of(const struct rp_snapshot *snapshot)
{
	struct rp_snapshot_about about;

	rp_snapshot_get_about(snapshot, &about);
	return (struct rp_sink_content){
		.start_ns = about.start_ns,
		.rundown = !(about.session_flags & RP_SESSION_NO_RUNDOWN),
		.sample_interval_ns = about.sample_interval_ns,
		.format = about.format,
	};
}

/* Write to a descriptor. If `is_ours`, close it at the end; otherwise it stays the caller's. */
static int write_to(struct rp_snapshot *snapshot, int fd, bool is_ours,
		    struct rp_snapshot_info *ret_info)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	const struct rp_sink_content content = content_of(snapshot);
	struct rp_sink *sink;
	int ret = rp_sink_create(fd, is_ours, &content, &sink);

	if (ret != 0) {
		if (is_ours)
			close(fd);
		return ret;
	}
	ret = rp_snapshot_write(snapshot, sink, ret_info);
	sink->keep_fd = !is_ours;
	sink->ops->destroy(sink);
	return ret;
}

int rp_sink_write_snapshot(struct rp_snapshot *snapshot, int fd, struct rp_snapshot_info *ret_info)
{
	return write_to(snapshot, fd, true, ret_info);
}

int rp_sink_send_snapshot(struct rp_snapshot *snapshot, int fd, const void *preamble,
			  size_t preamble_bytes)
{
	const struct rp_sink_content content = content_of(snapshot);
	struct rp_snapshot_info info;
	struct rp_sink *sink;
	int ret = rp_sink_stream_create(fd, preamble, preamble_bytes, &content, &sink);

	if (ret != 0)
		return ret;
	ret = rp_snapshot_write(snapshot, sink, &info);
	sink->keep_fd = true;
	sink->ops->destroy(sink);
	return ret;
}

static int take(struct rp_session *session, const char *path, int fd,
		const struct rp_record_view *note, struct rp_snapshot_info *ret_info)
{
	struct rp_snapshot *snapshot;
	int ret = rp_snapshot_take(session, &snapshot);

	if (ret != 0)
		return ret;
	rp_snapshot_note(snapshot, note);
	if (path)
		fd = rp_sink_open_path(path);
	ret = fd < 0 ? fd : write_to(snapshot, fd, path != NULL, ret_info);
	rp_snapshot_free(snapshot);
	return ret;
}

int rp_sink_snapshot(struct rp_session *session, const char *path,
		     const struct rp_record_view *note)
{
	struct rp_snapshot_info info;

	return take(session, path, -1, note, &info);
}

RP_PUBLIC int rp_session_snapshot(struct rp_session *session, const char *path, int fd,
				  struct rp_snapshot_info *ret_info)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_snapshot_info info;
	int ret;

	rp_failed_call = NULL;
	if (!session || (!path && fd < 0) || !rp_sized_fits(ret_info, RP_SNAPSHOT_INFO_SIZE_V1))
		return -EINVAL;
	ret = take(session, path, fd, NULL, &info);
	if (ret == 0 && ret_info)
		rp_sized_write(ret_info, &info, sizeof(info));
	return ret;
}
