/* SPDX-License-Identifier: MIT */
#include "diag/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "core/missing.h"
#include "core/session_setup.h"
#include "core/sink.h"
#include "diag/wake.h"
#include "sample/sample.h"
#include "sink/batch_probe.h"
#include "sink/sinks.h"

#define FIRST_SAMPLES_NS 1000000000u	/* maximum delay of a stop for the first samples */
#define LOOK_NS 1000000u		/* interval of the checks */

void rp_trace_table_init(struct rp_trace_table *table)
{
	table->max = RP_SESSIONS_MAX;
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		table->slots[i] = (struct rp_trace){ .fd = -1 };
}

struct rp_trace *rp_trace_find(struct rp_trace_table *table, uint64_t id)
{
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (id && table->slots[i].id == id)
			return &table->slots[i];
	}
	return NULL;
}

static struct rp_trace *find_free(struct rp_trace_table *table)
{
	struct rp_trace *unused = NULL;
	size_t count = 0;

	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (table->slots[i].id)
			count++;
		else if (!unused)
			unused = &table->slots[i];
	}
	return count < table->max ? unused : NULL;
}

/* Context: the session's thread. The slot is not reused before rp_trace_close(). */
static void on_user_events_end(void *data)
{
	struct rp_trace *trace = data;

	__atomic_store_n(&trace->ended, true, __ATOMIC_RELEASE);
	(void)rp_wake();
}

/* Context: the drain thread. */
static void on_end(struct rp_session *session, void *data)
{
	(void)session;
	on_user_events_end(data);
}

/* The sink uses a copy of the descriptor: until the session runs, `fd` can carry an error reply. */
static int create_sink(int fd, uint64_t id, const struct rp_collect *collect,
		       struct rp_sink **ret_sink)
{
	const struct rp_sink_content content = {
		.rundown = collect->rundown_keywords != 0,
		.sample_interval_ns = rp_sample_interval_of(collect->providers,
							    collect->provider_count),
		.format = collect->format,
	};
	struct rp_message_buffer preamble = { 0 };
	int copy, r;

	rp_message_begin(&preamble, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	rp_message_put_u64(&preamble, id);
	if (collect->batch)
		rp_message_put_u64(&preamble, (uintptr_t)rp_batch_probe);
	r = rp_message_end(&preamble);
	if (r == 0) {
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		r = copy < 0 ? rp_failed("fcntl") : 0;
	}
	if (r == 0) {
		r = collect->batch ?
		    rp_sink_batch_create(copy, id, preamble.bytes, preamble.size, ret_sink) :
		    rp_sink_stream_create(copy, preamble.bytes, preamble.size, &content,
					  ret_sink);
		if (r < 0)
			close(copy);
	}
	rp_message_fini(&preamble);
	return r;
}

/* Close only the sink's copy: the connection is still needed for the error reply. */
static void discard_sink(struct rp_sink *sink)
{
	int copy = sink->fd;

	sink->keep_fd = true;
	sink->ops->destroy(sink);
	close(copy);
}

static int open_session(struct rp_trace *trace, const struct rp_collect *collect, pid_t peer,
			struct rp_sink *sink)
{
	char name[32];
	const struct rp_session_options options = {
		.size = sizeof(options),
		.flags = collect->session_flags,
		.name = name,
		.buffer_bytes = collect->buffer_bytes,
		.providers = collect->providers,
		.provider_count = collect->provider_count,
		.block_ms = collect->block_ms,
	};
	const struct rp_session_setup setup = {
		.options = &options,
		.sink = sink,
		.id = trace->id,
		.callbacks_async = true,
		.on_end = on_end,
		.data = trace,
	};

	snprintf(name, sizeof(name), "ipc-%ld", (long)peer);
	return rp_session_open(&setup, &trace->session);
}

enum rp_hresult rp_trace_open(struct rp_trace_table *table, const struct rp_collect *collect,
			      int fd, pid_t peer, struct rp_trace **ret_trace)
{
	struct rp_trace *trace = find_free(table);
	struct rp_sink *sink;
	int r;

	if (!trace)
		return RP_HRESULT_FAIL;
	*trace = (struct rp_trace){
		.id = rp_session_next_id(),
		.fd = -1,
	};
	r = create_sink(fd, trace->id, collect, &sink);
	if (r == 0) {
		r = open_session(trace, collect, peer, sink);
		if (r < 0)
			discard_sink(sink);
	}
	if (r < 0) {
		trace->id = 0;
		return r == -EINVAL ? RP_HRESULT_INVALID_ARGUMENT : RP_HRESULT_FAIL;
	}
	trace->fd = fd;
	trace->has_samples = rp_sample_interval_of(collect->providers,
						   collect->provider_count) != 0;
	(void)rp_file_identify(fd, &trace->file);
	*ret_trace = trace;
	return RP_HRESULT_OK;
}

enum rp_hresult rp_trace_open_user_events(struct rp_trace_table *table,
					  const struct rp_collect *collect, int fd, int events_fd,
					  struct rp_trace **ret_trace)
{
	struct rp_trace *trace = find_free(table);
	const struct rp_user_events_setup setup = {
		.providers = collect->providers,
		.tracepoints = collect->tracepoints,
		.provider_count = collect->provider_count,
		.fd = events_fd,
		.on_end = on_user_events_end,
		.data = trace,
	};
	int r;

	if (!trace) {
		close(events_fd);
		return RP_HRESULT_FAIL;
	}
	*trace = (struct rp_trace){
		.id = rp_session_next_id(),
		.fd = -1,
	};
	r = rp_user_events_open(&setup, &trace->user_events);
	if (r < 0) {
		trace->id = 0;
		return r == -EOPNOTSUPP ? RP_HRESULT_NOT_SUPPORTED :
		       r == -EINVAL ? RP_HRESULT_INVALID_ARGUMENT : RP_HRESULT_FAIL;
	}
	trace->fd = fd;
	(void)rp_file_identify(fd, &trace->file);
	*ret_trace = trace;
	return RP_HRESULT_OK;
}

struct rp_trace *rp_trace_find_recorder(struct rp_trace_table *table)
{
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (table->slots[i].id && table->slots[i].recorder)
			return &table->slots[i];
	}
	return NULL;
}

static int open_recorder(struct rp_trace *trace, const struct rp_collect *collect,
			 uint32_t flags, bool recoverable, struct rp_sink *sink)
{
	const uint64_t id = rp_session_next_id();
	const struct rp_session_options options = {
		.size = sizeof(options),
		.flags = collect->session_flags | flags |
			 (collect->rundown_keywords ? 0u : RP_SESSION_NO_RUNDOWN),
		.name = "recorder",
		.buffer_bytes = collect->buffer_bytes,
		.providers = collect->providers,
		.provider_count = collect->provider_count,
		.recover_path = recoverable ? "" : NULL,
	};
	const struct rp_session_setup setup = {
		.options = &options,
		.sink = sink,
		.id = id,
		.sample_interval_ns = rp_sample_interval_of(collect->providers,
							    collect->provider_count),
		.format = collect->format,
		.callbacks_async = true,
		.on_end = on_end,
		.data = trace,
	};
	int r;

	*trace = (struct rp_trace){
		.id = id,
		.fd = -1,
		.recorder = true,
	};
	r = rp_session_open(&setup, &trace->session);
	if (r < 0) {
		sink->ops->destroy(sink);
		*trace = (struct rp_trace){ .fd = -1 };
	}
	return r;
}

enum rp_hresult rp_trace_open_recorder(struct rp_trace_table *table,
				       const struct rp_collect *collect, bool recoverable,
				       struct rp_trace **ret_trace, int *ret_error)
{
	struct rp_trace *trace = find_free(table);
	struct rp_sink *sink;
	int r;

	if (rp_trace_find_recorder(table))
		return RP_HRESULT_INVALID_OPERATION;
	*ret_error = trace ? rp_sink_none_create(&sink) : -ENOSPC;
	if (*ret_error < 0)
		return RP_HRESULT_FAIL;
	r = open_recorder(trace, collect, RP_SESSION_OVERWRITE, recoverable, sink);
	*ret_error = r;
	if (r < 0)
		return r == -EINVAL ? RP_HRESULT_INVALID_ARGUMENT : RP_HRESULT_FAIL;
	*ret_trace = trace;
	return RP_HRESULT_OK;
}

enum rp_hresult rp_trace_open_rolling(struct rp_trace_table *table,
				      const struct rp_collect *collect, const char *path,
				      uint64_t quota_bytes, struct rp_trace **ret_trace,
				      int *ret_error)
{
	const struct rp_sink_content content = {
		.rundown = collect->rundown_keywords != 0,
		.sample_interval_ns = rp_sample_interval_of(collect->providers,
							    collect->provider_count),
		.format = collect->format,
	};
	struct rp_trace *trace = find_free(table);
	struct rp_sink *sink;
	int r;

	*ret_error = 0;
	if (rp_trace_find_recorder(table))
		return RP_HRESULT_INVALID_OPERATION;
	if (!trace)
		return RP_HRESULT_FAIL;
	r = rp_sink_roll_create(path, quota_bytes, &content, &sink);
	if (r == 0)
		r = open_recorder(trace, collect, 0, false, sink);
	if (r < 0) {
		*ret_error = r;
		return RP_HRESULT_FAIL;
	}
	*ret_trace = trace;
	return RP_HRESULT_OK;
}

void rp_trace_watch_missing(struct rp_trace_table *table)
{
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		struct rp_trace *trace = &table->slots[i];

		/* Without memory, there is no event. */
		if (trace->id && trace->session && trace->reports_missing)
			(void)rp_session_watch_missing(trace->session, NULL);
		trace->reports_missing = false;
	}
}

int rp_trace_stats(struct rp_trace *trace, struct rp_session_stats *ret_stats)
{
	if (!trace->user_events)
		return rp_session_get_stats(trace->session, ret_stats);
	rp_user_events_stats(trace->user_events, ret_stats);
	return 0;
}

void rp_trace_finish(struct rp_trace *trace)
{
	trace->finish_ns = 0;
	if (trace->user_events)
		rp_user_events_finish(trace->user_events);
	else
		rp_session_finish(trace->session);
}

void rp_trace_stop(struct rp_trace *trace)
{
	if (!trace->has_samples || rp_sample_has_begun(trace->id))
		rp_trace_finish(trace);
	else if (!trace->finish_ns)
		trace->finish_ns = rp_clock_monotonic_ns() + FIRST_SAMPLES_NS;
}

uint64_t rp_trace_finish_stopped(struct rp_trace_table *table, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		struct rp_trace *trace = &table->slots[i];

		if (!trace->id || !trace->finish_ns)
			continue;
		if (trace->finish_ns <= now_ns || rp_sample_has_begun(trace->id))
			rp_trace_finish(trace);
		else
			next_ns = now_ns + LOOK_NS;
	}
	return next_ns;
}

struct rp_trace *rp_trace_next_ended(struct rp_trace_table *table)
{
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		struct rp_trace *trace = &table->slots[i];

		if (trace->id && __atomic_load_n(&trace->ended, __ATOMIC_ACQUIRE))
			return trace;
	}
	return NULL;
}

void rp_trace_join(struct rp_trace *trace)
{
	if (trace->user_events)
		rp_user_events_close(trace->user_events);
	else
		rp_session_stop(trace->session, NULL);
	trace->user_events = NULL;
	trace->session = NULL;
}

void rp_trace_close(struct rp_trace *trace)
{
	/* A forked child may hold the connection too: shut down, so that the peer sees the end. */
	if (trace->fd >= 0) {
		shutdown(trace->fd, SHUT_RDWR);
		close(trace->fd);
	}
	*trace = (struct rp_trace){ .fd = -1 };
}
