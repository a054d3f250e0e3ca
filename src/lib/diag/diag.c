/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the DiagnosticServer, and its state in a forked child. A thread of the library
 * runs its loop, or the host does: the program in which the library runs. The host can also poll
 * the descriptors until a client connects, and start the thread then.
 */
#include "diag/diag.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/session.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "diag/server.h"
#include "diag/wake.h"

#define JOIN_SECONDS 5
#define OPEN_SECONDS 3		/* all attempts of open_late() end earlier */
#define PAUSE_MS 100
#define NS_PER_MS 1000000u
#define ATTEMPTS_MAX (2 * RP_PORT_ATTEMPTS_MAX)	/* the server outlasts the attempts of a port */

static struct {
	pthread_t thread;
	bool started;
	bool stopping;			/* atomic */
	bool poll_wanted, on_demand;	/* constant from the first start on */
	bool polled;			/* by the host: no thread. Guarded by `turn` */
	bool opening;			/* atomic; the thread of a forked child opens the ports */
	unsigned int delay_ms;
	/*
	 * Held for one iteration when the host polls, and while the thread starts on demand.
	 * Detects a relock by its owner in exit().
	 */
	pthread_mutex_t turn;
} life = { .turn = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

static bool is_stopping(void)
{
	return rp_load_acquire(&life.stopping);
}

/*
 * Wait until the time has passed or `fd` is readable; -1: no descriptor. Blocked signals interrupt
 * poll(2) too if libc uses them: setuid(2) sends one to each thread.
 * Return: the events of the descriptor.
 */
static short pause_for(int fd, unsigned int ms)
{
	struct pollfd woken = { .fd = fd, .events = POLLIN };
	uint64_t now = rp_clock_monotonic_ns(), end = now + (uint64_t)ms * NS_PER_MS;

	while (now < end && poll(&woken, 1, (int)((end - now + NS_PER_MS - 1) / NS_PER_MS)) < 0 &&
	       errno == EINTR)
		now = rp_clock_monotonic_ns();
	return woken.revents;
}

/*
 * Open what the host has closed. The host may still be closing descriptors, so pause before each
 * attempt, and retry if a new descriptor was closed too.
 */
static int persist(int (*open)(void))
{
	int r = -ECANCELED;

	for (unsigned int i = 0; i < ATTEMPTS_MAX && r < 0; i++) {
		(void)pause_for(-1, PAUSE_MS);
		if (is_stopping())
			return -ECANCELED;
		r = open();
	}
	return r;
}

static int open_all(void)
{
	int r = rp_wake_mend();

	if (r == 0)
		r = rp_server_open();
	if (r < 0)
		rp_server_close();
	return r;
}

/* A daemon closes all inherited descriptors after the fork, the one polled here included. */
static int open_late(void)
{
	short events = pause_for(rp_wake_fd(), life.delay_ms);

	if (is_stopping())
		return -ECANCELED;
	return events == 0 && open_all() == 0 ? 0 : persist(open_all);
}

static void *run(void *data)
{
	int r = life.delay_ms ? open_late() : 0;

	(void)data;
	rp_store_release(&life.opening, false);
	while (r == 0 && !is_stopping()) {
		r = rp_server_poll_once(-1);
		if (r == 1)
			r = persist(rp_server_mend);
	}
	rp_server_close();
	return NULL;
}

/*
 * Read the directory in the thread that starts the server: the host may later change its
 * environment, or its working directory, to which a relative folder refers. The buffer is large
 * enough that a path too long for a socket stays too long.
 */
static void read_directory(void)
{
	const char *directory = secure_getenv("TMPDIR");
	char *end = rp_server.directory;
	size_t space = sizeof(rp_server.directory);

	memset(rp_server.directory, 0, space);
	if (!directory || !*directory)
		return;
	if (*directory != '/' && getcwd(end, space)) {
		space -= strlen(end);
		end += strlen(end);
		snprintf(end, space, "/%s", directory);
	} else {
		snprintf(end, space, "%s", directory);
	}
}

/* Reset everything except the ports. */
static void init(void)
{
	rp_server.polled = life.polled && !life.on_demand;
	rp_server.lost = false;
	rp_server.epoll_fd = -1;
	rp_server.timer_fd = -1;
	rp_server.new_fd = -1;
	rp_server.timer_ns = 0;
	rp_trace_table_init(&rp_server.traces);
	rp_server.accept_after_ns = 0;
	read_directory();
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++)
		rp_server.sendings[i] = (struct rp_sending){ .fd = -1 };
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

void rp_diag_use_own_name(void)
{
	rp_server.own_name = true;
}

/*
 * Called when a host that polls asks for the descriptor. Open everything here and not earlier in a
 * forked child, so that a child that execs leaves no socket file, and in a process whose thread
 * starts on demand, so that no client waits for a program that does not poll. Otherwise, reopen
 * what the host has closed.
 */
static void open_what_is_missing(void)
{
	bool lost;

	if (rp_server.epoll_fd < 0 && !rp_server.lost) {
		if (rp_wake_mend() < 0 || rp_server_open() < 0)
			rp_server_close();
		return;
	}
	lock_fds();
	lost = rp_server_forget_lost();
	unlock_fds();
	if (lost)
		(void)rp_server_mend();
}

/* Lock the loop for the host. Return: 0, or -errno without the lock. */
static int lock_loop(void)
{
	bool has_thread;
	int r;

	if (!life.poll_wanted)
		return -ENOTSUP;
	r = -pthread_mutex_lock(&life.turn);
	if (r < 0)
		return r;
	has_thread = life.started && !life.polled;
	if (life.started && life.polled) {
		open_what_is_missing();
		if (rp_server.epoll_fd >= 0)
			return 0;
	}
	pthread_mutex_unlock(&life.turn);
	return has_thread ? -EALREADY : -ENOTCONN;
}

int rp_diag_fd(void)
{
	int r = lock_loop();

	if (r < 0)
		return r;
	r = rp_server.epoll_fd;
	pthread_mutex_unlock(&life.turn);
	return r;
}

static int create_thread(void)
{
	return rp_thread_create(&life.thread, "ringpipe-diag", run, NULL);
}

/* The ports are open. From here on, the host has nothing to poll. */
static int start_on_demand(void)
{
	int r;

	life.delay_ms = 0;
	r = create_thread();
	if (r == 0)
		life.polled = false;
	return r;
}

static void poll_once(int most_ms)
{
	/* This call must not block as a writer: writers may be waiting for its work. */
	int blocks = rp_thread_set_blocking(0);

	(void)rp_server_poll_once(most_ms);
	rp_thread_set_blocking(blocks);
}

int rp_diag_dispatch(int most_ms)
{
	int r = lock_loop();

	if (r < 0)
		return r == -EALREADY ? 0 : r;
	if (life.on_demand)
		r = start_on_demand();
	else
		poll_once(most_ms);
	pthread_mutex_unlock(&life.turn);
	return r;
}

int rp_diag_prepare(void)
{
	int r = life.on_demand ? rp_diag_dispatch(0) : 0;

	return r == -ENOTCONN ? 0 : r;
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
	return life.poll_wanted && !life.on_demand ? dispatch_until_resumed(timeout_ms) :
	       rp_ports_wait(&rp_server.ports, timeout_ms);
}

const struct rp_ports *rp_diag_ports(void)
{
	return &rp_server.ports;
}

void rp_diag_poll(void)
{
	life.poll_wanted = true;
}

void rp_diag_start_on_demand(void)
{
	life.poll_wanted = true;
	life.on_demand = true;
}

/* Only a thread can connect to tools, or serve the clients that a suspended start-up waits for. */
static bool has_only_default_port(void)
{
	return rp_server.ports.count == 1 && !rp_ports_suspended(&rp_server.ports);
}

/* With a delay this takes no lock: in a forked child it may run before unlock_fds(). */
int rp_diag_start(unsigned int delay_ms)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int r;

	if (life.started)
		return 0;
	pthread_once(&once, watch_forks);
	life.polled = life.poll_wanted && (!life.on_demand || has_only_default_port());
	init();
	life.delay_ms = delay_ms;
	rp_store_release(&life.stopping, false);
	/* The fork may have copied the flag of a parent whose thread was opening its ports. */
	rp_store_release(&life.opening, false);
	if (life.polled && life.on_demand) {
		life.started = true;
		return 0;
	}
	r = rp_wake_open();
	if (r < 0)
		return r;
	if (delay_ms == 0 && rp_server_open() < 0) {
		rp_server_close();
		rp_wake_close();
		return 0;
	}
	rp_store_release(&life.opening, delay_ms != 0 && !life.polled);
	r = life.polled ? 0 : create_thread();
	if (r < 0) {
		rp_store_release(&life.opening, false);
		if (delay_ms == 0)
			rp_server_close();
		rp_wake_close();
		return r;
	}
	life.started = true;
	return 0;
}

/*
 * A child of vfork(2) or _Fork() has a copy of the flag but not the thread, hence the limit. A
 * callback of the host on a thread of the library may run on the thread that opens the ports.
 */
void rp_diag_wait_open(void)
{
	uint64_t end = rp_clock_monotonic_ns() + OPEN_SECONDS * 1000000000ull;

	while (!rp_thread_is_ours && rp_load_acquire(&life.opening) &&
	       rp_clock_monotonic_ns() < end)
		poll(NULL, 0, 1);
}

static bool end_thread(const struct timespec *limit)
{
	rp_store_release(&life.stopping, true);
	/* If the pair is broken, poll(2) reports that to the thread anyway. */
	(void)rp_wake();
	return !pthread_equal(life.thread, pthread_self()) &&
	       pthread_timedjoin_np(life.thread, NULL, limit) == 0;
}

/* Another thread of the host may be starting the thread, so only the lock makes `polled` stable. */
static bool end_loop(const struct timespec *limit)
{
	bool polled;

	if (pthread_mutex_timedlock(&life.turn, limit) != 0)
		return false;
	polled = life.polled;
	if (polled) {
		rp_server_close();
		life.started = false;
	}
	pthread_mutex_unlock(&life.turn);
	return polled || end_thread(limit);
}

/*
 * In the loop, a callback of the host may wait for a lock of the caller, or may be the caller. Then
 * the wait times out: the process ends without closing the server, and only the files are removed.
 */
void rp_diag_stop(void)
{
	struct timespec limit;

	if (!life.started)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += JOIN_SECONDS;
	if (!end_loop(&limit)) {
		rp_ports_unlink(&rp_server.ports);
		return;
	}
	life.started = false;
	rp_wake_close();
}

static void close_inherited(void)
{
	(void)rp_server_forget_lost();
	for (size_t i = 0; i < rp_server.ports.count; i++)
		rp_server_take_out(&rp_server.ports.slots[i].fd);
	rp_server_take_out(&rp_server.epoll_fd);
	rp_server_take_out(&rp_server.timer_fd);
	rp_wake_close();
	rp_server_take_out(&rp_server.new_fd);
	rp_server_take_out(&rp_server.dump.fd);
	for (size_t i = 0; i < RP_CLIENTS_MAX; i++)
		rp_server_take_out(&rp_server.clients[i].fd);
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++) {
		if (rp_server.sendings[i].taken)
			rp_server_take_out(&rp_server.sendings[i].fd);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		rp_server_take_out(&rp_server.traces.slots[i].fd);
}

void rp_diag_forget(void)
{
	if (!life.started)
		return;
	close_inherited();
	rp_server.dump = (struct rp_dump){ .fd = -1 };
	rp_ports_forget(&rp_server.ports);
	life.turn = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	life.started = false;
}
