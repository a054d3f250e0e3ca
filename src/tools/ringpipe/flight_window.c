/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/flight_window.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "ipc/command_ids.h"
#include "tools/cli/display_text.h"
#include "tools/client/exchange.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"
#include "tools/trace/summary.h"
#include "tools/cli/tool.h"

#define SILENCE_MS 20000	/* the command gives up after this time without a byte */
#define FIRST_LOOK_MS 500
#define CHUNK_BYTES (64u << 10)

/* Copies the stream that follows the reply, to its end. Return: 0; -errno. */
static int receive(int fd, FILE *stream)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char chunk[CHUNK_BYTES];

	for (;;) {
		ssize_t n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);

		if (n == 0)
			return 0;
		if (n > 0 && fwrite(chunk, 1, (size_t)n, stream) != (size_t)n)
			return -ENOMEM;
		if (n > 0 || errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (poll(&wait, 1, SILENCE_MS) == 0)
			return -ETIMEDOUT;
	}
}

static int read_window(const void *bytes, size_t size, uint64_t *ret_ms)
{
	struct rp_summary_window window;
	struct rp_summary summary;
	struct rp_reader *reader;
	int ret = rp_reader_open_memory(bytes, size, &reader);

	if (ret != 0)
		return ret;
	ret = rp_summary_read(reader, NULL, NULL, &summary);
	if (ret == 0 && !rp_summary_get_window(&summary, &window))
		ret = -EBADMSG;
	if (ret == 0)
		*ret_ms = (uint64_t)(window.to_utc_ns - window.from_utc_ns) / 1000000;
	rp_summary_fini(&summary);
	rp_reader_close(reader);
	return ret;
}

/* Take a snapshot, and compute for how long it is complete. Return: 0; -errno, reported. */
static int get_window(const struct rp_target *target, uint64_t session, uint64_t *ret_ms)
{
	static struct rp_message_buffer request;
	struct rp_exchange exchange;
	char *bytes = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&bytes, &size);
	int ret;

	rp_message_begin(&request, RP_MESSAGE_RINGPIPE, RP_OWN_SNAPSHOT);
	rp_message_put_u64(&request, session);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, target, &request);
	if (!ret && !stream)
		ret = -ENOMEM;
	if (!ret)
		ret = rp_exchange_run(&exchange, SILENCE_MS);
	if (!ret)
		ret = receive(exchange.fd, stream);
	if (stream && fclose(stream) != 0 && !ret)
		ret = -ENOMEM;
	if (!ret)
		ret = read_window(bytes, size, ret_ms);
	if (ret)
		rp_exchange_explain(&exchange, "measure the flight recorder of", ret);
	rp_exchange_end(&exchange);
	free(bytes);
	return ret;
}

static void show_progress(const struct rp_flight_trial *trial, int64_t ms)
{
	char text[RP_TEXT_MAX], last[RP_TEXT_MAX];

	if (trial->live)
		rp_status_line_show("measuring since %s, at most %s",
				    rp_text_duration((uint64_t)ms * 1000000, text),
				    rp_text_duration(trial->last_ms * 1000000, last));
}

/* Return: 0; -EINTR. */
static int wait_until(const struct rp_flight_trial *trial, int64_t begun, int64_t end)
{
	struct pollfd wait = { .fd = trial->signal_fd, .events = POLLIN };

	for (int64_t now = rp_now_ms(); now < end; now = rp_now_ms()) {
		show_progress(trial, now - begun);
		if (poll(&wait, 1, end - now > 1000 ? 1000 : (int)(end - now)) > 0)
			return -EINTR;
	}
	return 0;
}

static int64_t measure(const struct rp_flight_trial *trial, uint64_t *ret_window_ms)
{
	const int64_t begun = rp_now_ms(), last = (int64_t)trial->last_ms;
	int64_t look = FIRST_LOOK_MS < last ? FIRST_LOOK_MS : last, window;

	for (;;) {
		int64_t elapsed;
		int ret = wait_until(trial, begun, begun + look);

		/* Taken before the snapshot, whose window ends at a later time. */
		elapsed = rp_now_ms() - begun;
		if (ret == 0)
			ret = get_window(trial->target, trial->session, ret_window_ms);
		if (ret != 0)
			return ret;
		window = *ret_window_ms ? (int64_t)*ret_window_ms : 1;
		if (window < elapsed - elapsed / 10)
			break;
		if (window >= last)
			return trial->buffer_mb;
		/* A window is a little shorter than the time since the session began. */
		look = look * 2 < last ? look * 2 : elapsed + last - window;
	}
	window = trial->buffer_mb * last * 5 / (window * 4) + 1;
	return window > trial->buffer_mb ? window : trial->buffer_mb;
}

int64_t rp_flight_measure(const struct rp_flight_trial *trial, uint64_t *ret_window_ms)
{
	int64_t ret = measure(trial, ret_window_ms);

	if (trial->live)
		rp_status_line_clear();
	return ret;
}
