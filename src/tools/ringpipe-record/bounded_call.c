/* SPDX-License-Identifier: MIT */
/*
 * A spawner process forks a worker for each socket that it receives. It is forked early, so that it
 * and the workers have few pages, and it never waits for others, so that it ends with its parent.
 * Workers have the priority of the recorder, which waits for them.
 * A call is a packet to a worker, which answers with a packet when it begins, and another one with
 * the reply.
 */
#include "tools/ringpipe-record/bounded_call.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/ringpipe-record/scheduling.h"

#define WORKERS_MAX 64u

enum worker_state { NO_WORKER, IDLE, BUSY, LEFT };

struct worker {
	enum worker_state state;
	int socket;
	uint64_t source;		/* of the last call, like the next two */
	void (*discard)(const void *reply);
	bool has_begun;
};

struct request_header {
	int (*run)(const void *request, void *reply);
	size_t reply_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of `workers` */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct worker workers[WORKERS_MAX];
static int spawner = -1;		/* the socket to its process */
static uint64_t *number;		/* shared memory */
static bool is_missing;			/* see rp_bounded_is_missing() */

uint64_t rp_bounded_begin_limit_ns = 10000000000u;

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* Send a packet with a descriptor, or without one if `fd` is -1. Return: whether it was sent. */
static bool send_packet(int to, const void *header, size_t header_bytes, const void *rest,
			size_t rest_bytes, int fd)
{
	struct iovec parts[] = {
		{ .iov_base = (void *)header, .iov_len = header_bytes },
		{ .iov_base = (void *)rest, .iov_len = rest_bytes },
	};
	union control control = { 0 };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t sent;

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	do
		sent = sendmsg(to, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)(header_bytes + rest_bytes);
}

/* Return: as recvmsg(2). `ret_fd`: the descriptor that came with the packet, or -1. */
static ssize_t receive_packet(int from, void *header, size_t header_bytes, void *rest,
			      size_t rest_bytes, int flags, int *ret_fd)
{
	struct iovec parts[] = {
		{ .iov_base = header, .iov_len = header_bytes },
		{ .iov_base = rest, .iov_len = rest_bytes },
	};
	union control control = { 0 };
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *part;
	ssize_t got;

	*ret_fd = -1;
	do
		got = recvmsg(from, &message, flags | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	part = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(part), sizeof(*ret_fd));
	return got;
}

/* The process of a worker: answers requests until its caller has ended. */
static void serve(int from)
{
	static uint8_t request[RP_BOUNDED_BYTES_MAX] __attribute__((aligned(16)));
	static uint8_t reply[RP_BOUNDED_BYTES_MAX] __attribute__((aligned(16)));
	struct request_header header;
	bool is_sent = true;
	int fd;

	while (is_sent && receive_packet(from, &header, sizeof(header), request, sizeof(request),
					 0, &fd) >= (ssize_t)sizeof(header)) {
		if (!send_packet(from, "b", 1, NULL, 0, -1))
			break;
		memset(reply, 0, header.reply_bytes);
		fd = header.run(request, reply);
		is_sent = send_packet(from, reply, header.reply_bytes, NULL, 0, fd);
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

/*
 * The process of the spawner. It leaves what its parent has open and its folder, so that nothing
 * is in use because a worker waits. The kernel reaps the workers.
 */
static void spawn(int parent)
{
	const pid_t self = getpid();
	char word;
	int worker;

	if (dup2(parent, STDIN_FILENO) < 0 || chdir("/") != 0)
		_exit(1);
	syscall(SYS_close_range, STDIN_FILENO + 1u, ~0u, 0u);
	signal(SIGCHLD, SIG_IGN);
	while (receive_packet(STDIN_FILENO, &word, 1, NULL, 0, 0, &worker) == 1 && worker >= 0) {
		if (fork() == 0) {
			close(STDIN_FILENO);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			rp_scheduling_raise();
			if (getppid() == self)
				serve(worker);
			_exit(0);
		}
		close(worker);
	}
	_exit(0);
}

/* Signals of a terminal are for the recorder alone. */
static void fork_spawner(void)
{
	sigset_t all, before;
	void *memory = mmap(NULL, sizeof(*number), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pair[2];
	pid_t child;

	if (memory == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	number = memory;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = fork();
	if (child == 0)
		spawn(pair[1]);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	if (child > 0)
		spawner = pair[0];
	else
		close(pair[0]);
}

void rp_bounded_start(void)
{
	pthread_once(&once, fork_spawner);
}

uint64_t *rp_bounded_number(void)
{
	static uint64_t own;		/* there is neither memory nor a worker */

	/*
	 * A worker has the number already. It must not call pthread_once(), which would fork a
	 * spawner there: its parent was in that call when it forked, so glibc repeats the call.
	 */
	if (!number)
		rp_bounded_start();
	return number ? number : &own;
}

static bool create_worker(struct worker *worker)
{
	int pair[2];
	bool is_sent;

	if (spawner < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	is_sent = send_packet(spawner, "w", 1, NULL, 0, pair[1]);
	close(pair[1]);
	if (!is_sent) {
		close(pair[0]);
		return false;
	}
	worker->socket = pair[0];
	return true;
}

/* Set the state of a worker after a call; NO_WORKER: it ended. Return: whether it has served it. */
static bool end_call(struct worker *worker, enum worker_state state,
		     const struct rp_bounded_call *call, bool has_begun)
{
	if (state == NO_WORKER)
		close(worker->socket);
	pthread_mutex_lock(&lock);
	worker->source = call->source;
	worker->discard = call->discard;
	worker->has_begun = has_begun;
	worker->state = state;
	is_missing |= state == NO_WORKER || !has_begun;
	pthread_mutex_unlock(&lock);
	return state == IDLE;
}

/* Take the replies to a call that was left, if they are there. The caller has the lock. */
static void take_late_reply(struct worker *worker)
{
	static uint8_t reply[RP_BOUNDED_BYTES_MAX] __attribute__((aligned(16)));
	int fd;
	ssize_t got = receive_packet(worker->socket, reply, sizeof(reply), NULL, 0, MSG_DONTWAIT,
				     &fd);

	if (got == 1 && !worker->has_begun) {
		worker->has_begun = true;
		got = receive_packet(worker->socket, reply, sizeof(reply), NULL, 0, MSG_DONTWAIT,
				     &fd);
	}
	if (got < 0 && errno == EAGAIN)
		return;
	if (fd >= 0)
		close(fd);
	if (got > 0 && worker->discard)
		worker->discard(reply);
	if (got <= 0)
		close(worker->socket);
	worker->state = got > 0 ? IDLE : NO_WORKER;
}

/*
 * Return: a worker for the call; NULL: none, or one waits for the source. There is no new worker as
 * long as one has not begun, because a new one would not begin either.
 */
static struct worker *take_worker(uint64_t source)
{
	struct worker *free_place = NULL, *idle = NULL;
	bool is_stuck = false, is_late = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct worker *worker = &workers[i];

		if (worker->state == LEFT)
			take_late_reply(worker);
		is_stuck |= worker->state == LEFT && worker->source == source;
		is_late |= worker->state == LEFT && !worker->has_begun;
		if (worker->state == IDLE)
			idle = worker;
		if (worker->state == NO_WORKER)
			free_place = worker;
	}
	if (!is_stuck && !is_late && !idle && free_place) {
		if (create_worker(free_place))
			idle = free_place;
		else
			is_missing = true;
	}
	if (is_stuck)
		idle = NULL;
	if (idle)
		idle->state = BUSY;
	pthread_mutex_unlock(&lock);
	return idle;
}

/* Return: whether there is a packet before the limit. */
static bool wait_for_packet(const struct worker *worker, uint64_t limit_ns)
{
	struct pollfd wait = { .fd = worker->socket, .events = POLLIN };
	uint64_t now_ns = rp_clock_monotonic_ns();
	const uint64_t end_ns = now_ns + limit_ns;
	struct timespec left;
	int ready;

	do {
		left.tv_sec = (time_t)((end_ns - now_ns) / 1000000000u);
		left.tv_nsec = (long)((end_ns - now_ns) % 1000000000u);
		ready = ppoll(&wait, 1, &left, NULL);
		now_ns = rp_clock_monotonic_ns();
	} while (ready < 0 && errno == EINTR && now_ns < end_ns);
	return ready > 0;
}

bool rp_bounded_is_missing(void)
{
	bool ret;

	pthread_mutex_lock(&lock);
	ret = is_missing;
	pthread_mutex_unlock(&lock);
	return ret;
}

bool rp_bounded_call(const struct rp_bounded_call *call, int *ret_fd)
{
	const struct request_header header = { call->run, call->reply_bytes };
	struct worker *worker;
	char word;
	int fd;

	rp_bounded_start();
	worker = take_worker(call->source);
	if (!worker)
		return false;
	if (!send_packet(worker->socket, &header, sizeof(header), call->request,
			 call->request_bytes, -1))
		return end_call(worker, NO_WORKER, call, false);
	/* A loaded machine may run the worker late, so the time begins when it begins. */
	if (!wait_for_packet(worker, rp_bounded_begin_limit_ns))
		return end_call(worker, LEFT, call, false);
	if (receive_packet(worker->socket, &word, 1, NULL, 0, 0, &fd) != 1)
		return end_call(worker, NO_WORKER, call, false);
	if (!wait_for_packet(worker, call->limit_ns))
		return end_call(worker, LEFT, call, true);
	if (receive_packet(worker->socket, call->reply, call->reply_bytes, NULL, 0, 0, &fd) !=
	    (ssize_t)call->reply_bytes)
		return end_call(worker, NO_WORKER, call, true);
	*ret_fd = fd;
	return end_call(worker, IDLE, call, true);
}
