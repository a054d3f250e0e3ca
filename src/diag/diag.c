/* SPDX-License-Identifier: MIT */
/*
 * The DiagnosticServer's start, its end, and what becomes of it in a forked child. What turns its
 * loop is a thread of ours, or the host.
 */
#include "diag/diag.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "diag/server.h"
#include "diag/wake.h"

#define JOIN_SECONDS 5
#define PAUSE_MS 100

static struct {
	pthread_t thread;
	bool started;
	bool stopping;			/* atomic */
	bool polled;			/* by the host: no thread */
	unsigned int delay_ms;
	/* Polled: held for a turn of the loop. It knows its owner, who may be at exit() in one. */
	pthread_mutex_t turn;
} life = { .turn = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

static bool is_stopping(void)
{
	return rp_load_acquire(&life.stopping);
}

/* The pair that wakes the server, and who calls by it. Return: 0, or -errno. */
static int open_wake(void)
{
	int fds[2], r = rp_wake_open(fds);

	if (r < 0)
		return r;
	rp_server.woken_fd = fds[0];
	rp_server.wake_fd = fds[1];
	rp_trace_table_init(&rp_server.traces, rp_server.wake_fd);
	return 0;
}

static void close_wake(void)
{
	rp_server_take_out(&rp_server.woken_fd);
	rp_server_take_out(&rp_server.wake_fd);
}

/*
 * As rp_server_close() and close_wake(), where the host closed our descriptors: the numbers are its
 * own by now.
 */
static void close_lost(void)
{
	pthread_mutex_lock(&rp_server.fd_lock);
	rp_server.woken_fd = -1;
	rp_server.wake_fd = -1;
	rp_server.epoll_fd = -1;
	rp_server.timer_fd = -1;
	rp_server.new_fd = -1;
	rp_server.dump.fd = -1;
	rp_ports_forget(&rp_server.ports);
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++)
		rp_client_release(&rp_server.clients[i]);
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		rp_server.traces.slots[i].fd = -1;
	pthread_mutex_unlock(&rp_server.fd_lock);
	rp_server_close();
}

/* What the host closed is opened once more, after a pause: it may be about to close the rest. */
static int begin_anew(void)
{
	int r;

	close_lost();
	poll(NULL, 0, PAUSE_MS);
	if (is_stopping())
		return -ECANCELED;
	pthread_mutex_lock(&rp_server.fd_lock);
	r = open_wake();
	pthread_mutex_unlock(&rp_server.fd_lock);
	return r < 0 ? r : rp_server_open(false);
}

static int open_late(void)
{
	struct pollfd woken = { .fd = rp_server.woken_fd, .events = POLLIN };

	poll(&woken, 1, (int)life.delay_ms);
	if (is_stopping())
		return -ECANCELED;
	return rp_wake_is(rp_server.wake_fd) ? rp_server_open(false) : begin_anew();
}

static void *run(void *data)
{
	int r = life.delay_ms ? open_late() : 0;

	(void)data;
	while (r == 0 && !is_stopping()) {
		r = rp_server_turn(-1);
		if (!is_stopping() && !rp_wake_is(rp_server.wake_fd))
			r = begin_anew();
	}
	if (rp_wake_is(rp_server.wake_fd))
		rp_server_close();
	else
		close_lost();
	return NULL;
}

/* The ports stay. */
static void init(void)
{
	const char *directory = secure_getenv("TMPDIR");

	rp_server.epoll_fd = -1;
	rp_server.timer_fd = -1;
	rp_server.new_fd = -1;
	rp_server.timer_ns = 0;
	rp_server.accept_after_ns = 0;
	/* Read here, by whoever starts us: the host may change its environment later. One that is
	 * too long is kept as long as makes the path too long. */
	memset(rp_server.directory, 0, sizeof(rp_server.directory));
	if (directory)
		strncpy(rp_server.directory, directory, sizeof(rp_server.directory) - 1);
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++)
		rp_server.clients[i] = (struct rp_client){ .fd = -1 };
}

static void lock_fds(void)
{
	pthread_mutex_lock(&rp_server.fd_lock);
}

static void unlock_fds(void)
{
	pthread_mutex_unlock(&rp_server.fd_lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_fds, unlock_fds, unlock_fds);
}

int rp_diag_add_port(const struct rp_port *port)
{
	return rp_ports_add(&rp_server.ports, port);
}

void rp_diag_suspend_default(void)
{
	struct rp_ports *ports = &rp_server.ports;

	ports->waiting += !ports->slots[0].suspends;
	ports->slots[0].suspends = true;
}

void rp_diag_step_aside(void)
{
	rp_server.aside = true;
}

/* The host's turn. Return: 0, or -errno without holding anything. */
static int lock_turn(void)
{
	int r;

	if (!life.polled)
		return -ENOTSUP;
	r = -pthread_mutex_lock(&life.turn);
	if (r < 0)
		return r;
	/* What the host closed is opened once more: it asks for the descriptor before it polls. */
	if (life.started && !rp_wake_is(rp_server.wake_fd)) {
		close_lost();
		pthread_mutex_lock(&rp_server.fd_lock);
		(void)open_wake();
		pthread_mutex_unlock(&rp_server.fd_lock);
	}
	/* In a forked child: late, so that one that execs leaves no socket behind. */
	if (life.started && rp_server.wake_fd >= 0 && rp_server.epoll_fd < 0 &&
	    rp_server_open(true) < 0)
		rp_server_close();
	if (life.started && rp_server.epoll_fd >= 0)
		return 0;
	pthread_mutex_unlock(&life.turn);
	return -ENOTCONN;
}

int rp_diag_fd(void)
{
	int r = lock_turn();

	if (r < 0)
		return r;
	r = rp_server.epoll_fd;
	pthread_mutex_unlock(&life.turn);
	return r;
}

int rp_diag_dispatch(int most_ms)
{
	int r = lock_turn();

	if (r < 0)
		return r;
	(void)rp_server_turn(most_ms);
	pthread_mutex_unlock(&life.turn);
	return 0;
}

static int dispatch_until_resumed(unsigned int timeout_ms)
{
	uint64_t now = rp_clock_monotonic_ns(), end = now + (uint64_t)timeout_ms * 1000000;

	while (rp_ports_suspended(&rp_server.ports)) {
		now = rp_clock_monotonic_ns();
		if (now >= end)
			return -ETIMEDOUT;
		if (rp_diag_dispatch((int)((end - now) / 1000000 + 1)) < 0)
			return 0;
	}
	return 0;
}

int rp_diag_wait(unsigned int timeout_ms)
{
	if (!life.started)
		return 0;
	return life.polled ? dispatch_until_resumed(timeout_ms) :
	       rp_ports_wait(&rp_server.ports, timeout_ms);
}

const struct rp_ports *rp_diag_ports(void)
{
	return &rp_server.ports;
}

void rp_diag_poll(void)
{
	life.polled = true;
}

/* With a delay it takes no lock: in a forked child it may come before unlock_fds(). */
int rp_diag_start(unsigned int delay_ms)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int r;

	if (life.started)
		return 0;
	pthread_once(&once, watch_forks);
	init();
	life.delay_ms = delay_ms;
	rp_store_release(&life.stopping, false);
	r = open_wake();
	if (r < 0)
		return r;
	if (delay_ms == 0 && rp_server_open(life.polled) < 0) {
		rp_server_close();
		close_wake();
		return 0;
	}
	r = life.polled ? 0 : rp_thread_create(&life.thread, "ringpipe-diag", run, NULL);
	if (r < 0) {
		if (delay_ms == 0)
			rp_server_close();
		close_wake();
		return r;
	}
	life.started = true;
	return 0;
}

static bool end_thread(const struct timespec *limit)
{
	rp_store_release(&life.stopping, true);
	return rp_wake(rp_server.wake_fd) && !pthread_equal(life.thread, pthread_self()) &&
	       pthread_timedjoin_np(life.thread, NULL, limit) == 0;
}

static bool end_polled(const struct timespec *limit)
{
	if (!rp_wake_is(rp_server.wake_fd) || pthread_mutex_timedlock(&life.turn, limit) != 0)
		return false;
	rp_server_close();
	pthread_mutex_unlock(&life.turn);
	return true;
}

/*
 * Nobody can call a thread that sleeps on descriptors which the host closed, and its numbers are
 * not ours to close. A callback of the host in the loop may wait for something the caller holds, or
 * be the caller. Then the process ends all the same, and only the files are taken away.
 */
void rp_diag_stop(void)
{
	struct timespec limit;

	if (!life.started)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += JOIN_SECONDS;
	if (!(life.polled ? end_polled(&limit) : end_thread(&limit))) {
		rp_ports_unlink(&rp_server.ports);
		return;
	}
	life.started = false;
	close_wake();
}

static void close_inherited(void)
{
	for (size_t i = 0; i < rp_server.ports.count; i++)
		rp_server_take_out(&rp_server.ports.slots[i].fd);
	rp_server_take_out(&rp_server.epoll_fd);
	rp_server_take_out(&rp_server.timer_fd);
	close_wake();
	rp_server_take_out(&rp_server.new_fd);
	rp_server_take_out(&rp_server.dump.fd);
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++)
		rp_server_take_out(&rp_server.clients[i].fd);
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		rp_server_take_out(&rp_server.traces.slots[i].fd);
}

void rp_diag_forget(void)
{
	if (!life.started)
		return;
	/* Where the host closed one of them, it closed all: the numbers are its own by now. */
	if (rp_wake_is(rp_server.wake_fd))
		close_inherited();
	for (size_t i = 0; i < rp_server.ports.count; i++)
		rp_server.ports.slots[i].fd = -1;
	rp_server.dump = (struct rp_dump){ .fd = -1 };
	rp_ports_forget(&rp_server.ports);
	life.turn = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	life.started = false;
}
