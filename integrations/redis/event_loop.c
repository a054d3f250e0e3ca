/* SPDX-License-Identifier: MIT */
/*
 * The event loop of the server polls for tools, and the thread of libringpipe starts when the first
 * one connects. A server that is not traced therefore has no such thread, and a child that saves a
 * file has no socket. A timer looks for tracers of the kernel, which notify no process.
 */
#include "tracing.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "events.h"

#define TRACERS_INTERVAL_S 1

RP_DIAGNOSTICS(RP_DIAGNOSTICS_ON_DEMAND);

atomic_bool event_loop_has_session;
static int timer_fd, tools_fd = -1;

void event_loop_update_soon(void)
{
	const struct itimerspec times = { .it_interval.tv_sec = TRACERS_INTERVAL_S,
					  .it_value.tv_nsec = 1 };

	(void)timerfd_settime(timer_fd, 0, &times, NULL);
}

static void on_session(struct rp_provider *provider, const struct rp_provider_state *state,
		       void *data)
{
	(void)provider;
	(void)data;
	atomic_store(&event_loop_has_session, state->enabled != 0);
	event_loop_update_soon();
}

/* libringpipe owns the descriptor. */
static void serve_tools(void)
{
	redis->EventLoopDel(tools_fd, REDIS_READABLE);
	tools_fd = -1;
	if (rp_diagnostics_dispatch() < 0)
		redis->Log(NULL, "warning", "ringpipe cannot serve tools");
}

static void on_readable(int fd, void *data, int mask)
{
	uint64_t expirations;

	(void)data;
	(void)mask;
	if (fd == tools_fd)
		serve_tools();
	else if (read(fd, &expirations, sizeof(expirations)) > 0)
		server_tick();
}

int event_loop_begin(void)
{
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	/* A session may have ended while the module was not loaded. */
	atomic_store(&event_loop_has_session, false);
	event_loop_update_soon();
	if (redis->EventLoopAdd(timer_fd, REDIS_READABLE, on_readable, NULL) != REDIS_OK ||
	    rp_provider_set_callback(redis_provider(), on_session, NULL) < 0)
		return REDIS_ERROR;
	/* Negative if the environment disables diagnostics, or if the thread exists. */
	tools_fd = rp_diagnostics_fd();
	if (tools_fd >= 0 &&
	    redis->EventLoopAdd(tools_fd, REDIS_READABLE, on_readable, NULL) != REDIS_OK)
		serve_tools();
	return REDIS_OK;
}

void event_loop_end(void)
{
	/* Tools can still connect. */
	if (tools_fd >= 0)
		serve_tools();
	rp_provider_set_callback(redis_provider(), NULL, NULL);
	redis->EventLoopDel(timer_fd, REDIS_READABLE);
	close(timer_fd);
}
