/* SPDX-License-Identifier: MIT */
/*
 * ringpipe flight snapshot: writes the events of a flight recorder in another process to a file, by
 * ringpipe's own command 0x52/0x08, u64 session id (0: the only overwriting one). The reply is u64
 * session id; nettrace follows up to the end of the connection.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "base/text.h"
#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/trace/output.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"
#include "tools/trace/summary.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

/* The command gives up after this time without a byte. */
#define SILENCE_MS 20000
#define CHUNK_BYTES (256u << 10)

struct snapshot {
	const struct rp_tool_options *options;
	struct rp_target target;
	struct rp_output output;
	struct rp_exchange exchange;
	int signal_fd;
	bool live;			/* draw a progress line */
	uint64_t bytes;
};

/* Return: 0; -ETIMEDOUT; -EINTR if a signal requests the end. */
static int await(const struct snapshot *snapshot, struct pollfd peer, int timeout_ms)
{
	struct pollfd waits[] = { { .fd = snapshot->signal_fd, .events = POLLIN }, peer };
	int n;

	do {
		n = poll(waits, 2, timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (waits[0].revents)
		return -EINTR;
	return n == 0 ? -ETIMEDOUT : n < 0 ? -errno : 0;
}

/* Sends the request and reads the reply. Return: 0, or as rp_exchange_step() and await(). */
static int ask(struct snapshot *snapshot)
{
	int64_t deadline = rp_now_ms() + SILENCE_MS;
	int ret;

	while ((ret = rp_exchange_step(&snapshot->exchange)) == 1) {
		struct pollfd peer = rp_exchange_poll(&snapshot->exchange);
		int64_t left = deadline - rp_now_ms();

		if (left <= 0)
			return -ETIMEDOUT;
		if (peer.fd < 0 && left > RP_EXCHANGE_RETRY_MS)
			left = RP_EXCHANGE_RETRY_MS;
		ret = await(snapshot, peer, (int)left);
		if (ret && (ret != -ETIMEDOUT || peer.fd >= 0))
			return ret;
	}
	return ret;
}

static void show_progress(const struct snapshot *snapshot)
{
	char bytes[RP_TEXT_MAX];

	if (snapshot->live)
		rp_status_line_show("%s", rp_text_bytes(snapshot->bytes, bytes));
}

static int take_chunk(struct snapshot *snapshot, char *chunk, size_t size)
{
	int ret = rp_output_write(&snapshot->output, chunk, size);

	if (ret)
		rp_tool_error("cannot write %s: %s", snapshot->output.path, strerror(-ret));
	snapshot->bytes += size;
	show_progress(snapshot);
	return ret ? -EIO : 0;
}

/* Receives the whole stream. Return: 0; -EIO, reported; -EINTR; -ETIMEDOUT; -errno of recv(2). */
static int receive(struct snapshot *snapshot, char *chunk)
{
	const struct pollfd peer = { .fd = snapshot->exchange.fd, .events = POLLIN };
	int ret = 0;

	while (ret == 0) {
		ssize_t n = recv(peer.fd, chunk, CHUNK_BYTES, MSG_DONTWAIT);

		if (n == 0)
			return 0;
		if (n > 0)
			ret = take_chunk(snapshot, chunk, (size_t)n);
		else if (errno == EAGAIN)
			ret = await(snapshot, peer, SILENCE_MS);
		else if (errno != EINTR)
			ret = -errno;
	}
	return ret;
}

/* Return: 0; -errno, reported. */
static int fetch(struct snapshot *snapshot, const struct rp_message_buffer *request)
{
	char *chunk = malloc(CHUNK_BYTES);
	int ret = chunk ? rp_exchange_begin(&snapshot->exchange, &snapshot->target, request) :
		  -ENOMEM;

	if (!ret)
		ret = ask(snapshot);
	if (!ret)
		ret = rp_output_begin(&snapshot->output);
	if (!ret)
		ret = receive(snapshot, chunk);
	if (snapshot->live)
		rp_status_line_clear();
	if (ret == -EINTR)
		rp_tool_error("cancelled; no file is left");
	else if (ret && ret != -EIO)
		rp_exchange_explain(&snapshot->exchange, "take a snapshot of", ret);
	rp_exchange_end(&snapshot->exchange);
	free(chunk);
	return ret;
}

static void print_line(const struct rp_summary *summary, const char *path)
{
	char events[RP_TEXT_MAX], lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX];
	char from[RP_TEXT_MAX], to[RP_TEXT_MAX], time[RP_TEXT_MAX];
	struct rp_summary_window window;

	fprintf(stderr, "%s: %s, %s lost, %s; ", path,
		rp_text_counted(summary->stats.events, "event", events),
		rp_text_count(summary->stats.lost, lost),
		rp_text_bytes(summary->stats.bytes, bytes));
	if (!rp_summary_get_window(summary, &window))
		fputs("the trace does not state from when on it is complete\n", stderr);
	else if (window.from_utc_ns == window.to_utc_ns)
		fputs("complete at no time: events were overwritten before they were copied\n",
		      stderr);
	else
		fprintf(stderr, "complete from %s to %s UTC, %s\n",
			rp_text_utc(window.from_utc_ns, from), rp_text_utc(window.to_utc_ns, to),
			rp_text_duration((uint64_t)(window.to_utc_ns - window.from_utc_ns), time));
}

/* Reads the file back and prints its summary. Return: 0; -errno, reported. */
static int check(const struct snapshot *snapshot)
{
	const char *path = snapshot->output.path;
	struct rp_summary_view view = { .path = path, .top = UINT64_MAX };
	struct rp_summary summary;
	struct rp_reader *reader;
	int ret = rp_reader_open(path, &reader);

	if (ret == 0) {
		ret = rp_summary_read(reader, NULL, NULL, &summary);
		if (ret == 0 && snapshot->options->format != RP_FORMAT_TEXT)
			rp_summary_print(&summary, &view, snapshot->options->format);
		else if (ret == 0 && !(snapshot->options->given & RP_OPTION_QUIET))
			print_line(&summary, path);
		rp_summary_fini(&summary);
		rp_reader_close(reader);
	}
	if (ret == -ENODATA)
		rp_tool_error("process %d ended during the snapshot",
			      snapshot->target.pid);
	else if (ret)
		rp_tool_error("process %d sent an invalid trace: %s", snapshot->target.pid,
			      strerror(-ret));
	return ret;
}

/* Leaves either a complete snapshot or no file. */
static int write_snapshot(struct snapshot *snapshot, const struct rp_message_buffer *request)
{
	int ret = fetch(snapshot, request);

	if (ret == 0 && snapshot->output.regular)
		ret = check(snapshot);
	if (ret) {
		rp_output_discard(&snapshot->output);
		return ret == -EINTR ? RP_EXIT_GAVE_UP : RP_EXIT_FAILURE;
	}
	ret = rp_output_close(&snapshot->output);
	if (ret)
		rp_tool_error("cannot write %s: %s", snapshot->output.path, strerror(-ret));
	return ret ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int run(struct snapshot *snapshot, const struct rp_message_buffer *request)
{
	char *pattern = rp_output_pattern(snapshot->options->output, snapshot->target.name,
					  "nettrace");
	char *path = pattern ? rp_text_expand_pid(pattern, snapshot->target.pid) : NULL;
	int status = RP_EXIT_FAILURE;

	free(pattern);
	snapshot->signal_fd = path ? rp_signals_open() : -ENOMEM;
	if (snapshot->signal_fd < 0) {
		rp_tool_error("cannot begin: %s", strerror(-snapshot->signal_fd));
		free(path);
		return RP_EXIT_FAILURE;
	}
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	if (rp_output_open(&snapshot->output, path,
			   snapshot->options->given & RP_OPTION_FORCE) == 0)
		status = write_snapshot(snapshot, request);
	rp_signals_close(snapshot->signal_fd);
	free(path);
	return status;
}

int rp_command_flight_snapshot(const struct rp_tool_options *options)
{
	static struct rp_message_buffer request;
	struct snapshot snapshot = { .options = options };
	int status;

	rp_message_begin(&request, RP_MESSAGE_RINGPIPE, RP_OWN_SNAPSHOT);
	rp_message_put_u64(&request, options->session);
	rp_message_end(&request);
	if (rp_target_find(options->pid, options->name, &snapshot.target))
		return RP_EXIT_FAILURE;
	snapshot.live = isatty(STDERR_FILENO) && !(options->given & RP_OPTION_QUIET) &&
			!(options->output && !strcmp(options->output, "-"));
	status = run(&snapshot, &request);
	rp_target_fini(&snapshot.target);
	return status;
}
