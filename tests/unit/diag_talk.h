/* SPDX-License-Identifier: MIT */
/* Helpers to start a DiagnosticServer in a separate directory, and to talk to it. */
#ifndef DIAG_TALK_H
#define DIAG_TALK_H

#include <criterion/criterion.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "diag/diag.h"
#include "diag/listen.h"
#include "diag/process.h"
#include "diag_request.h"

#define PATIENCE_SECONDS 60

static char directory[] = "/tmp/rp-diag-XXXXXX";

/*
 * Stops the server that the library started at loading; the tests start another in a separate
 * directory. In a forked child the library's fork handler has run: rp_diag_forget(), then
 * rp_diag_start().
 */
static inline void set_up(void)
{
	rp_diag_stop();
	cr_assert_not_null(mkdtemp(directory));
	cr_assert_eq(setenv("TMPDIR", directory, 1), 0);
}

static inline void tear_down(void)
{
	rp_diag_stop();
	cr_assert_eq(rmdir(directory), 0, "something was left behind in %s", directory);
}

/* Connects to this process's own socket after waiting for it. Return: -1 if it did not appear. */
static inline int connect_to(pid_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	time_t limit = time(NULL) + PATIENCE_SECONDS;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	rp_listen_path(directory, "dotnet", pid, rp_process_start_ticks(), address.sun_path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		if (time(NULL) > limit) {
			close(fd);
			return -1;
		}
		poll(NULL, 0, 1);
	}
	return fd;
}

static inline bool send_request(int fd, uint8_t set, uint8_t id)
{
	struct rp_message_buffer request = begin(set, id);
	ssize_t n;

	rp_message_end(&request);
	n = send(fd, request.bytes, request.size, MSG_NOSIGNAL);
	rp_message_fini(&request);
	return n == RP_MESSAGE_HEADER_BYTES;
}

/* Reads everything up to the end of the connection. */
static inline size_t receive_all(int fd, uint8_t *bytes, size_t space)
{
	size_t size = 0;
	ssize_t n;

	while (size < space && (n = recv(fd, bytes + size, space - size, 0)) > 0)
		size += (size_t)n;
	return size;
}

/* Return: the pid that this process's server reports; 0 without an answer. */
static inline uint64_t ask_pid(void)
{
	static uint8_t reply[RP_MESSAGE_BYTES_MAX];
	struct rp_message message;
	uint64_t pid = 0;
	size_t size;
	int fd = connect_to(getpid());

	if (fd < 0)
		return 0;
	send_request(fd, RP_MESSAGE_PROCESS, 0x00);
	size = receive_all(fd, reply, sizeof(reply));
	close(fd);
	if (size < RP_MESSAGE_HEADER_BYTES)
		return 0;
	rp_message_open(reply, size, &message);
	rp_cursor_u64(&message.payload, &pid);
	return pid;
}

/*
 * Forks a child that reports its result by report_to_parent() and then waits to be killed. The
 * server's thread may be in the middle of a reply and does not exist in the child. At an exit of
 * the child, valgrind would report the reply's memory as lost. Return: as fork(); `ret_fd` is the
 * other's end.
 */
static inline pid_t fork_child(int *ret_fd)
{
	int ends[2];
	pid_t child;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	child = fork();
	cr_assert_geq(child, 0);
	close(ends[child != 0]);
	*ret_fd = ends[child == 0];
	return child;
}

/* Called in the child, which ends by itself only if its parent has ended. */
static inline void report_to_parent(int fd, bool well)
{
	if (send(fd, &well, 1, MSG_NOSIGNAL) == 1)
		(void)!recv(fd, &well, 1, 0);
	_exit(EXIT_FAILURE);
}

static inline bool child_did_well(pid_t child, int fd)
{
	bool well = false, reported = recv(fd, &well, 1, 0) == 1;
	int status;

	kill(child, SIGKILL);
	close(fd);
	return waitpid(child, &status, 0) == child && reported && well;
}

#endif
