/* SPDX-License-Identifier: MIT */
/*
 * The DiagnosticServer's thread: an epoll set of the listening socket, the clients, the connections
 * that carry a session's stream, and an eventfd by which the drain thread and rp_diag_stop() call.
 *
 * Nothing here waits for a client. Each has CLIENT_NS to send its request and as long to take its
 * reply; when all slots are taken the oldest goes, if it has had GRACE_NS, and else the next is
 * left in the backlog until one has. With nobody connected epoll_wait() has no timeout.
 *
 * A forked child closes the descriptors it finds in `server`. They come and go under fd_lock, which
 * fork() takes, so the child finds all there are, and none whose number another thread has by now.
 */
#include "diag/diag.h"

#include <errno.h>
#include <pthread.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "diag/client.h"
#include "diag/commands.h"
#include "diag/listen.h"
#include "diag/process.h"
#include "diag/trace.h"

#define CLIENTS_MAX 64u
#define NS_PER_MS 1000000u
#define CLIENT_NS (5000ull * NS_PER_MS)
#define GRACE_NS (200ull * NS_PER_MS)
/* accept4() says EMFILE as long as the host has no descriptor to spare; ask again after this. */
#define STARVED_NS (250ull * NS_PER_MS)
#define ACCEPTS_MAX 16		/* in one turn, so that those who are there get theirs */
#define EVENTS_MAX 32
#define JOIN_SECONDS 5

/* What an epoll event is about: a kind, and the slot's index below it. */
enum kind {
	KIND_WAKE,
	KIND_LISTEN,
	KIND_CLIENT,
	KIND_TRACE,
};

/* Never held across anything that waits. */
static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	pthread_t thread;
	bool started;
	bool stopping;			/* atomic */
	int wake_fd;
	int epoll_fd;
	int listen_fd;
	int accepted_fd;		/* on its way to a slot of clients */
	bool bound;			/* path is our file */
	unsigned int delay_ms;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uint8_t cookie[16];
	uint64_t accept_after_ns;	/* 0: the listening socket is in the epoll set */
	struct rp_trace_table traces;
	struct rp_client clients[CLIENTS_MAX];
} server = { .wake_fd = -1, .epoll_fd = -1, .listen_fd = -1, .accepted_fd = -1 };

static int watch(int operation, int fd, uint32_t events, enum kind kind, size_t index)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)kind << 32 | index,
	};

	return epoll_ctl(server.epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

/* Always before close(): a forked child that holds the connection would keep it in the set. */
static void unwatch(int fd)
{
	epoll_ctl(server.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void take_out(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_client(struct rp_client *client)
{
	unwatch(client->fd);
	pthread_mutex_lock(&fd_lock);
	rp_client_close(client);
	pthread_mutex_unlock(&fd_lock);
}

static size_t client_index(const struct rp_client *client)
{
	return (size_t)(client - server.clients);
}

static size_t trace_index(const struct rp_trace *trace)
{
	return (size_t)(trace - server.traces.slots);
}

/* Ending it now would fail what the client sends, before it looks at its reply. */
static int let_leave(struct rp_client *client)
{
	client->state = RP_CLIENT_LEAVES;
	client->deadline_ns = rp_clock_monotonic_ns() + CLIENT_NS;
	shutdown(client->fd, SHUT_WR);
	return watch(EPOLL_CTL_MOD, client->fd, EPOLLIN, KIND_CLIENT, client_index(client));
}

/* Sends the reply, as far as it goes now; the rest when the client has made room. */
static void send_reply(struct rp_client *client)
{
	int r;

	if (client->state != RP_CLIENT_TAKES) {
		client->state = RP_CLIENT_TAKES;
		client->deadline_ns = rp_clock_monotonic_ns() + CLIENT_NS;
	}
	r = rp_client_send(client);
	if (r == 0)
		r = watch(EPOLL_CTL_MOD, client->fd, EPOLLOUT, KIND_CLIENT, client_index(client));
	else if (r == 1 && client->sends_more)
		r = let_leave(client);
	if (r != 0)
		drop_client(client);
}

/* The connection becomes the session's; what is watched is whether its client goes away. */
static void hand_over(struct rp_client *client, struct rp_trace *trace)
{
	if (watch(EPOLL_CTL_MOD, client->fd, 0, KIND_TRACE, trace_index(trace)) < 0)
		rp_trace_finish(trace);
	rp_client_release(client);
}

static void wait_for(struct rp_client *client, struct rp_trace *trace)
{
	client->state = RP_CLIENT_WAITS;
	client->deadline_ns = UINT64_MAX;
	client->waits_for = trace->id;
	if (watch(EPOLL_CTL_MOD, client->fd, 0, KIND_CLIENT, client_index(client)) < 0)
		drop_client(client);
}

static void run_request(struct rp_client *client)
{
	struct rp_command command = {
		.traces = &server.traces,
		.cookie = server.cookie,
		.fd = client->fd,
		.peer = client->peer,
		.reply = &client->reply,
	};

	rp_command_run(&command, rp_client_request(client), client->request_bytes);
	client->sends_more = command.sends_more;
	switch (command.outcome) {
	case RP_COMMAND_REPLY:
		send_reply(client);
		break;
	case RP_COMMAND_STREAM:
		hand_over(client, command.trace);
		break;
	case RP_COMMAND_WAIT:
		wait_for(client, command.trace);
		break;
	}
}

static void serve_client(struct rp_client *client, uint32_t events)
{
	enum rp_hresult hr;
	int r;

	switch (client->state) {
	case RP_CLIENT_ASKS:
		r = rp_client_receive(client, &hr);
		if (r < 0) {
			drop_client(client);
		} else if (r > 0 && hr != RP_HRESULT_OK) {
			rp_reply_refuse(&client->reply, hr);
			send_reply(client);
		} else if (r > 0) {
			run_request(client);
		}
		break;
	case RP_CLIENT_WAITS:
		if (events & (EPOLLHUP | EPOLLERR))
			drop_client(client);
		break;
	case RP_CLIENT_TAKES:
		send_reply(client);
		break;
	case RP_CLIENT_LEAVES:
		if (rp_client_drain(client) != 0)
			drop_client(client);
		break;
	}
}

/* The session ended: gives it back, and their reply to those who asked for its end. */
static void close_trace(struct rp_trace *trace)
{
	uint64_t id = trace->id;

	unwatch(trace->fd);
	rp_trace_join(trace);
	pthread_mutex_lock(&fd_lock);
	rp_trace_close(trace);
	pthread_mutex_unlock(&fd_lock);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct rp_client *client = &server.clients[i];

		if (client->fd >= 0 && client->state == RP_CLIENT_WAITS && client->waits_for == id)
			send_reply(client);
	}
}

static void close_ended_traces(void)
{
	struct rp_trace *trace;

	while ((trace = rp_trace_next_ended(&server.traces)))
		close_trace(trace);
}

/* The client of a stream went away: end its session now, not at its next event. */
static void serve_trace(struct rp_trace *trace)
{
	if (trace->id && trace->fd >= 0) {
		unwatch(trace->fd);
		rp_trace_finish(trace);
	}
}

/*
 * A slot for one more client: a free one, or that of the oldest client whose time is up at `now`;
 * of those who wait for a session's end, only when there is no other. NULL: not before `ret_later`.
 */
static struct rp_client *find_slot(uint64_t now, uint64_t *ret_later)
{
	struct rp_client *oldest = NULL;

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct rp_client *client = &server.clients[i];
		bool waits = client->state == RP_CLIENT_WAITS, oldest_waits;

		if (client->fd < 0)
			return client;
		oldest_waits = oldest && oldest->state == RP_CLIENT_WAITS;
		if (!oldest || (oldest_waits && !waits) ||
		    (oldest_waits == waits && client->since_ns < oldest->since_ns))
			oldest = client;
	}
	if (oldest->since_ns + GRACE_NS <= now)
		return oldest;
	*ret_later = oldest->since_ns + GRACE_NS;
	return NULL;
}

static void pause_accepting(uint64_t until_ns)
{
	server.accept_after_ns = until_ns;
	watch(EPOLL_CTL_MOD, server.listen_fd, 0, KIND_LISTEN, 0);
}

static void resume_accepting(void)
{
	server.accept_after_ns = 0;
	watch(EPOLL_CTL_MOD, server.listen_fd, EPOLLIN, KIND_LISTEN, 0);
}

static int accept_client(pid_t *ret_peer)
{
	int r;

	pthread_mutex_lock(&fd_lock);
	r = rp_listen_accept(server.listen_fd, &server.accepted_fd, ret_peer);
	pthread_mutex_unlock(&fd_lock);
	return r;
}

static void begin_client(struct rp_client *client, pid_t peer, uint64_t now)
{
	if (client->fd >= 0)
		drop_client(client);
	*client = (struct rp_client){
		.fd = server.accepted_fd,
		.state = RP_CLIENT_ASKS,
		.peer = peer,
		.since_ns = now,
		.deadline_ns = now + CLIENT_NS,
	};
	server.accepted_fd = -1;
	if (watch(EPOLL_CTL_ADD, client->fd, EPOLLIN, KIND_CLIENT, client_index(client)) < 0)
		drop_client(client);
	else
		serve_client(client, 0);	/* mostly the request is there already */
}

static void accept_clients(void)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		uint64_t now = rp_clock_monotonic_ns(), later;
		struct rp_client *client = find_slot(now, &later);
		pid_t peer;
		int r;

		if (!client) {
			pause_accepting(later);
			return;
		}
		r = accept_client(&peer);
		if (r == 0) {
			begin_client(client, peer, now);
		} else if (r == -EAGAIN) {
			return;
		} else if (r != -EACCES) {
			pause_accepting(now + STARVED_NS);
			return;
		}
	}
}

/* Gives up who is late, and tells how long epoll_wait() may sleep, -1: for ever. */
static int expire(void)
{
	uint64_t now = rp_clock_monotonic_ns(), next = UINT64_MAX;

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct rp_client *client = &server.clients[i];

		if (client->fd >= 0 && client->deadline_ns <= now)
			drop_client(client);
		else if (client->fd >= 0 && client->deadline_ns < next)
			next = client->deadline_ns;
	}
	if (server.accept_after_ns && server.accept_after_ns <= now)
		resume_accepting();
	else if (server.accept_after_ns && server.accept_after_ns < next)
		next = server.accept_after_ns;
	return next == UINT64_MAX ? -1 : (int)((next - now + NS_PER_MS - 1) / NS_PER_MS);
}

static void serve(const struct epoll_event *event, bool *accepts)
{
	size_t index = (uint32_t)event->data.u64;
	uint64_t calls;
	ssize_t n;

	switch ((enum kind)(event->data.u64 >> 32)) {
	case KIND_WAKE:
		n = read(server.wake_fd, &calls, sizeof(calls));
		(void)n;
		break;
	case KIND_LISTEN:
		*accepts = true;
		break;
	case KIND_CLIENT:
		if (server.clients[index].fd >= 0)
			serve_client(&server.clients[index], event->events);
		break;
	case KIND_TRACE:
		serve_trace(&server.traces.slots[index]);
		break;
	}
}

static bool is_stopping(void)
{
	return __atomic_load_n(&server.stopping, __ATOMIC_ACQUIRE);
}

static void loop(void)
{
	struct epoll_event events[EVENTS_MAX];

	while (!is_stopping()) {
		int n = epoll_wait(server.epoll_fd, events, EVENTS_MAX, expire());
		bool accepts = false;

		for (int i = 0; i < n; i++)
			serve(&events[i], &accepts);
		close_ended_traces();
		/* Last, so that no slot changes hands while events for its old owner are left. */
		if (accepts)
			accept_clients();
	}
}

/* Return: 0, or -errno when there will be no socket. */
static int open_server(void)
{
	int r = rp_listen_path(server.directory, getpid(), rp_process_start_ticks(), server.path);

	if (r < 0)
		return r;
	rp_process_make_cookie(server.cookie);
	pthread_mutex_lock(&fd_lock);
	server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server.listen_fd = rp_listen_socket();
	pthread_mutex_unlock(&fd_lock);
	r = watch(EPOLL_CTL_ADD, server.wake_fd, EPOLLIN, KIND_WAKE, 0);
	if (r == 0)
		r = rp_listen_at(server.listen_fd, server.path);
	if (r < 0)
		return r;
	server.bound = true;
	return watch(EPOLL_CTL_ADD, server.listen_fd, EPOLLIN, KIND_LISTEN, 0);
}

static void close_server(void)
{
	if (server.bound)
		unlink(server.path);
	unwatch(server.listen_fd);
	pthread_mutex_lock(&fd_lock);
	take_out(&server.listen_fd);
	pthread_mutex_unlock(&fd_lock);
	/* All are asked first: their last flushes go side by side. */
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (server.traces.slots[i].id)
			rp_trace_finish(&server.traces.slots[i]);
	}
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++) {
		if (server.traces.slots[i].id)
			close_trace(&server.traces.slots[i]);
	}
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (server.clients[i].fd >= 0)
			drop_client(&server.clients[i]);
	}
	pthread_mutex_lock(&fd_lock);
	take_out(&server.epoll_fd);
	pthread_mutex_unlock(&fd_lock);
}

static void *run(void *data)
{
	struct pollfd wake = { .fd = server.wake_fd, .events = POLLIN };

	(void)data;
	if (server.delay_ms)
		poll(&wake, 1, (int)server.delay_ms);
	if (!is_stopping() && open_server() == 0)
		loop();
	close_server();
	return NULL;
}

static void init(unsigned int delay_ms)
{
	const char *directory = secure_getenv("TMPDIR");

	memset(&server, 0, sizeof(server));
	server.epoll_fd = -1;
	server.listen_fd = -1;
	server.accepted_fd = -1;
	server.delay_ms = delay_ms;
	/* Read here, by whoever starts us: the host may change its environment later. One that is
	 * too long is kept as long as makes the path too long. */
	if (directory)
		strncpy(server.directory, directory, sizeof(server.directory) - 1);
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		server.clients[i].fd = -1;
}

static void lock_fds(void)
{
	pthread_mutex_lock(&fd_lock);
}

static void unlock_fds(void)
{
	pthread_mutex_unlock(&fd_lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_fds, unlock_fds, unlock_fds);
}

/* Takes no lock: in a forked child it may come before unlock_fds(). */
int rp_diag_start(unsigned int delay_ms)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int r;

	if (server.started)
		return 0;
	pthread_once(&once, watch_forks);
	init(delay_ms);
	server.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server.wake_fd < 0)
		return -errno;
	rp_trace_table_init(&server.traces, server.wake_fd);
	r = rp_thread_create(&server.thread, "ringpipe-diag", run, NULL);
	if (r < 0) {
		take_out(&server.wake_fd);
		return r;
	}
	server.started = true;
	return 0;
}

/*
 * A provider's callback on our thread may wait for something the caller holds, or be the caller:
 * then the process ends all the same, and only the file is taken away.
 */
void rp_diag_stop(void)
{
	const uint64_t one = 1;
	struct timespec limit;
	ssize_t n;

	if (!server.started)
		return;
	__atomic_store_n(&server.stopping, true, __ATOMIC_RELEASE);
	n = write(server.wake_fd, &one, sizeof(one));
	(void)n;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += JOIN_SECONDS;
	if (pthread_equal(server.thread, pthread_self()) ||
	    pthread_timedjoin_np(server.thread, NULL, &limit) != 0) {
		if (server.bound)
			unlink(server.path);
		return;
	}
	server.started = false;
	take_out(&server.wake_fd);
}

void rp_diag_forget(void)
{
	if (!server.started)
		return;
	take_out(&server.listen_fd);
	take_out(&server.epoll_fd);
	take_out(&server.wake_fd);
	take_out(&server.accepted_fd);
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		take_out(&server.clients[i].fd);
	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		take_out(&server.traces.slots[i].fd);
	server.started = false;
}
