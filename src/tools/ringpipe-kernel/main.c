/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-kernel: a filter between a session's stream and its file, which inserts the kernel's
 * events of the traced process. It is a separate program, so that `ringpipe` needs no libbpf.
 *
 * usage: ringpipe-kernel PID GROUPS RING_BYTES
 *
 * Standard input is the stream, standard output the file. On descriptor 3 the program writes `r`
 * when it is ready for the stream, and `d` when everything is in the file. If it cannot work, it
 * reports the cause on stderr and closes the descriptor without `r`.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time_namespace.h"
#include "tools/ringpipe-kernel/kernel_events.h"
#include "tools/ringpipe-kernel/programs.h"

#define STATUS_FD 3
#define CHUNK_BYTES (256u << 10)
#define LOOK_MS 50

struct filter {
	struct rp_emit_kernel emit;
	struct rp_probe *probe;		/* NULL: detached */
	uint8_t *chunk;
};

static int take_record(void *user, const struct rp_kernel_record *record)
{
	return rp_emit_kernel_record(user, record);
}

static int write_output(struct filter *filter)
{
	size_t size;
	const void *bytes;

	while (bytes = rp_kernel_inject_output(filter->emit.inject, &size), size) {
		int ret = rp_file_write(STDOUT_FILENO, bytes, size);

		/* If the reader of a pipe leaves, `ringpipe` ends without a message. */
		if (ret && ret != -EPIPE)
			fprintf(stderr, "ringpipe: cannot write the trace: %s\n", strerror(-ret));
		if (ret)
			return ret;
		rp_kernel_inject_consume(filter->emit.inject, size);
	}
	return 0;
}

static void stop_probe(struct filter *filter)
{
	rp_probe_destroy(filter->probe);
	filter->probe = NULL;
}

/* Reads the kernel's events up to now, which include all that precede the stream's events. */
static int drain(struct filter *filter)
{
	int ret = filter->probe ? rp_probe_drain(filter->probe) : 0;

	if (ret < 0 && ret != -ENOMEM) {
		fprintf(stderr, "ringpipe: --kernel: %s; no kernel events from here on\n",
			strerror(-ret));
		stop_probe(filter);
		ret = 0;
	}
	return ret;
}

static int feed(struct filter *filter, size_t size)
{
	int ret = rp_kernel_inject_feed(filter->emit.inject, filter->chunk, size);

	if (ret == -EBADMSG || ret == -EPROTONOSUPPORT) {
		fprintf(stderr, "ringpipe: --kernel: %s; no kernel events from here on\n",
			ret == -EBADMSG ? "the process sends damaged data" :
			"the process's trace is no nettrace V4 or V6 with times in ns");
		stop_probe(filter);
		ret = 0;
	}
	if (!ret)
		ret = rp_kernel_inject_relieve(filter->emit.inject, filter->emit.mark_ns);
	return ret ? ret : write_output(filter);
}

/* Return: 1 to continue; 0 at the end of the stream; -errno. */
static int turn(struct filter *filter)
{
	struct pollfd waits[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = filter->probe ? rp_probe_fd(filter->probe) : -1, .events = POLLIN },
	};
	ssize_t got = 0;
	int ret;

	if (poll(waits, 2, filter->probe ? LOOK_MS : -1) < 0)
		return errno == EINTR ? 1 : -errno;
	if (waits[0].revents) {
		got = read(STDIN_FILENO, filter->chunk, CHUNK_BYTES);
		if (got < 0)
			return errno == EINTR ? 1 : -errno;
		if (got == 0)
			return 0;
	}
	ret = drain(filter);
	if (!ret)
		ret = feed(filter, (size_t)got);
	return ret ? ret : 1;
}

static int finish(struct filter *filter)
{
	int ret;

	if (filter->probe)
		rp_probe_stop(filter->probe);
	ret = drain(filter);
	if (!ret)
		ret = rp_kernel_inject_finish(filter->emit.inject);
	return ret ? ret : write_output(filter);
}

static void report(char status)
{
	while (write(STATUS_FD, &status, 1) < 0 && errno == EINTR)
		;
}

static int run(struct filter *filter)
{
	int ret;

	report('r');
	do
		ret = turn(filter);
	while (ret > 0);
	if (!ret)
		ret = finish(filter);
	if (ret == -ENOMEM)
		fprintf(stderr, "ringpipe: --kernel: out of memory\n");
	if (!ret)
		report('d');
	return ret;
}

/*
 * With file capabilities, this program could show any user the events of any process. It shows them
 * only to root and the process's user, like the rest of ringpipe.
 */
static bool may_look_at(pid_t pid)
{
	struct stat process;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return getuid() == 0 || (stat(path, &process) == 0 && process.st_uid == getuid());
}

int main(int argc, char **argv)
{
	/* Ctrl-C is meant for `ringpipe`, which then ends the stream. */
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ };
	struct filter filter = { .chunk = malloc(CHUNK_BYTES) };
	pid_t pid;
	int ret;

	if (argc != 4) {
		fprintf(stderr, "usage: ringpipe-kernel PID GROUPS RING_BYTES\n"
			"It is started by ringpipe collect --kernel.\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	pid = atoi(argv[1]);
	if (!may_look_at(pid)) {
		fprintf(stderr, "ringpipe: --kernel: process %d belongs to another user; the trace "
			"has no kernel events\n", pid);
		free(filter.chunk);
		return 1;
	}
	ret = filter.chunk ? rp_emit_kernel_init(&filter.emit, rp_time_namespace_offset(pid)) :
			     -ENOMEM;
	if (!ret)
		ret = rp_probe_start(pid, (unsigned int)atoi(argv[2]), strtoul(argv[3], NULL, 10),
				     take_record, &filter.emit, &filter.probe);
	if (!ret)
		ret = run(&filter);
	rp_probe_destroy(filter.probe);
	rp_emit_kernel_fini(&filter.emit);
	free(filter.chunk);
	return ret ? 1 : 0;
}
