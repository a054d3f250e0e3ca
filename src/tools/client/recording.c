/* SPDX-License-Identifier: MIT */
/*
 * One poll loop for the stream of events, the signals, and two requests on separate connections:
 * stop and stats. None of them waits for another.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/command_ids.h"
#include "ipc/provider_list.h"
#include "tools/client/exchange.h"
#include "tools/client/providers.h"
#include "tools/client/recording.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"
#include "tools/cli/display_text.h"

#define START_TIMEOUT_MS 10000
/* The .NET runtime's default; libringpipe does a full rundown for any value but 0. */
#define RUNDOWN_KEYWORDS 0x80020139u
/* The command gives up after a stop request and this time without a byte. */
#define STOP_TIMEOUT_MS 20000
#define TICK_MS 1000
/* After its start, until which a command may register its providers. */
#define REGISTER_MS 1000
#define CHUNK_BYTES (256u << 10)

enum phase { STARTING, RUNNING, STOPPING, FINISHING, ENDED };

/* A request on a separate connection. */
struct talk {
	struct rp_message_buffer request;
	struct rp_exchange exchange;
	bool running;
};

struct recording {
	const struct rp_recording_plan *plan;
	struct rp_output *output;
	struct rp_recording_result *result;
	enum phase phase;
	int signal_fd;
	struct rp_stop_signal last_signal;
	int64_t start_ms;		/* of the current phase STARTING, then of the session */
	int64_t heard_ms;		/* the time of the last byte, or of the stop request */
	int64_t tick_ms;		/* the time of the next progress line */
	uint64_t session_id;
	struct talk collect;		/* its connection carries the stream */
	struct talk stop;
	struct talk stats;
	bool stats_unknown;		/* .NET: the command does not exist there */
	bool stats_seen;
	bool own_unknown;		/* the runtime does not know ringpipe's own command */
	bool providers_checked;		/* the providers of a command were */
	bool has_asked_again;		/* for plan->search */
	bool stop_wanted;		/* a signal arrived before the session began */
	uint64_t delivered;
	uint64_t lost;
	bool line_open;			/* the cursor is in the progress line */
	size_t version;			/* index in collect_versions */
	uint8_t *chunk;
};

/* EventPipe commands, newest first: those that runtimes before .NET 9 and 8 know come later. */
static const struct {
	uint8_t id;
	bool has_keyword;		/* u64 rundown keyword instead of a bool */
	bool has_stackwalk;
} collect_versions[] = {
	{ RP_COLLECT_4, true, true },
	{ RP_COLLECT_3, false, true },
	{ RP_COLLECT_2, false, false },
};
#define COLLECT_VERSIONS (sizeof(collect_versions) / sizeof(collect_versions[0]))

static bool needs_our_own(const struct rp_recording_plan *plan)
{
	return plan->block_ms || plan->coarse;
}

static bool is_our_own(const struct recording *recording)
{
	return needs_our_own(recording->plan) ||
	       (recording->plan->report_missing && !recording->own_unknown);
}

/*
 * Builds the request in the layout of ipc-protocol.md, see wire.h. Only ringpipe's own command can
 * request writers that wait, coarse times and reports of missing providers; the payload of
 * CollectTracing4 follows these.
 */
static int build_collect(struct recording *recording)
{
	const struct rp_recording_plan *plan = recording->plan;
	struct rp_message_buffer *request = &recording->collect.request;

	if (is_our_own(recording)) {
		rp_message_begin(request, RP_MESSAGE_RINGPIPE, RP_OWN_COLLECT);
		rp_message_put_u32(request, plan->block_ms);
		rp_message_put_u32(request, plan->coarse);
	} else {
		rp_message_begin(request, RP_MESSAGE_EVENTPIPE,
			      collect_versions[recording->version].id);
	}
	rp_message_put_u32(request, plan->buffer_mb);
	rp_message_put_u32(request, plan->format == 6 ? RP_FORMAT_NETTRACE_V6 :
			   RP_FORMAT_NETTRACE_V4);
	if (collect_versions[recording->version].has_keyword)
		rp_message_put_u64(request, plan->rundown ? RUNDOWN_KEYWORDS : 0);
	else
		rp_message_put_u8(request, plan->rundown);
	if (collect_versions[recording->version].has_stackwalk)
		rp_message_put_u8(request, plan->stacks);
	rp_message_put_providers(request, plan->providers, plan->provider_count);
	return rp_message_end(request);
}

static int talk_start(struct recording *recording, struct talk *talk)
{
	int ret = rp_exchange_begin(&talk->exchange, recording->plan->target, &talk->request);

	talk->running = ret == 0;
	return ret;
}

static void line_clear(struct recording *recording)
{
	if (recording->line_open)
		rp_status_line_clear();
	recording->line_open = false;
}

static void line_show(struct recording *recording)
{
	int64_t elapsed = (rp_now_ms() - recording->start_ms) / 1000;
	char bytes[RP_TEXT_MAX], events[RP_TEXT_MAX], lost[RP_TEXT_MAX];
	const bool has_stats = recording->stats_seen;

	rp_status_line_show("%02" PRId64 ":%02" PRId64 ":%02" PRId64 "  %s%s%s%s%s%s%s",
			    elapsed / 3600, elapsed / 60 % 60, elapsed % 60,
			    has_stats ? rp_text_counted(recording->delivered, "event", events) : "",
			    has_stats ? "  " : "",
			    rp_text_bytes(recording->result->bytes, bytes),
			    has_stats ? "  " : "",
			    has_stats ? rp_text_count(recording->lost, lost) : "",
			    has_stats ? " lost" : "",
			    recording->phase == STOPPING ? "  stopping…" : "  Ctrl-C stops");
	recording->line_open = true;
}

static void end(struct recording *recording, enum rp_recording_end how)
{
	line_clear(recording);
	recording->phase = ENDED;
	recording->result->end = how;
	recording->result->elapsed_ms = rp_now_ms() - recording->start_ms;
}

/* Ends a recording that never began, and reports the cause. */
static void fail_start(struct recording *recording, int error)
{
	bool is_gone = error == -ECONNRESET || error == -EPIPE;

	rp_exchange_explain(&recording->collect.exchange, "trace", error);
	/* The process may have started the session and written into it. */
	end(recording, recording->plan->begun_fd && is_gone ? RP_RECORDING_PEER_ENDED :
	    RP_RECORDING_FAILED);
}

static void start(struct recording *recording)
{
	int ret = build_collect(recording);

	if (ret) {
		rp_tool_error("the provider list is too long for one request (64 KB)");
		end(recording, RP_RECORDING_FAILED);
		return;
	}
	ret = talk_start(recording, &recording->collect);
	if (ret)
		fail_start(recording, ret);
}

/* Also at the end of a recording, which can be a short one of a process that has just started. */
static void ask_again(struct recording *recording)
{
	const struct rp_recording_plan *plan = recording->plan;

	if (!plan->search || recording->has_asked_again)
		return;
	rp_provider_search_ask(plan->search, plan->target);
	rp_provider_search_end(plan->search);
	recording->has_asked_again = true;
}

static void want_stop(struct recording *recording)
{
	int ret;

	if (recording->phase == STARTING) {
		recording->stop_wanted = true;
		return;
	}
	ask_again(recording);
	recording->phase = STOPPING;
	recording->heard_ms = rp_now_ms();
	rp_message_begin(&recording->stop.request, RP_MESSAGE_EVENTPIPE, RP_STOP_TRACING);
	rp_message_put_u64(&recording->stop.request, recording->session_id);
	rp_message_end(&recording->stop.request);
	ret = talk_start(recording, &recording->stop);
	if (ret) {
		line_clear(recording);
		rp_exchange_explain(&recording->stop.exchange, "stop the session in", ret);
		end(recording, RP_RECORDING_STREAM_FAILED);
	}
}

/* The reply to CollectTracing is u64 session id, not 0; the stream follows on its connection. */
static void begin_session(struct recording *recording)
{
	struct rp_exchange *exchange = &recording->collect.exchange;
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	int ret;

	recording->session_id = rp_cursor_get_u64(&cursor);
	if (rp_cursor_failed(&cursor) || recording->session_id == 0) {
		fail_start(recording, -EPROTO);
		return;
	}
	ret = rp_output_begin(recording->output);
	if (ret) {
		rp_tool_error("cannot empty %s: %s", recording->output->path, strerror(-ret));
		end(recording, RP_RECORDING_FAILED);
		return;
	}
	if (recording->plan->child)
		rp_child_resume(recording->plan->child, recording->plan->target);
	if (recording->plan->begun_fd && write(recording->plan->begun_fd, "b", 1) != 1)
		recording->stop_wanted = true;
	recording->phase = RUNNING;
	recording->start_ms = recording->tick_ms = rp_now_ms();
	rp_message_begin(&recording->stats.request, RP_MESSAGE_RINGPIPE, RP_OWN_STATS);
	rp_message_put_u64(&recording->stats.request, recording->session_id);
	rp_message_end(&recording->stats.request);
	if (recording->plan->search)
		rp_provider_search_ask(recording->plan->search, recording->plan->target);
	if (recording->stop_wanted)
		want_stop(recording);
}

static void step_start(struct recording *recording)
{
	struct rp_exchange *exchange = &recording->collect.exchange;
	int ret = rp_exchange_step(exchange);

	if (ret == 1) {
		if (rp_now_ms() - recording->start_ms > START_TIMEOUT_MS)
			fail_start(recording, -ETIMEDOUT);
		return;
	}
	recording->collect.running = false;
	if (rp_exchange_unknown_command(exchange, ret) && needs_our_own(recording->plan)) {
		rp_tool_error("cannot trace process %d with %s: its runtime does not support it "
			      "(it is .NET's, or an older libringpipe)",
			      recording->plan->target->pid,
			      recording->plan->coarse ? "--coarse" : "--block");
		end(recording, RP_RECORDING_FAILED);
	} else if (rp_exchange_unknown_command(exchange, ret) && is_our_own(recording)) {
		rp_exchange_end(exchange);
		recording->own_unknown = true;
		start(recording);
	} else if (rp_exchange_unknown_command(exchange, ret) &&
		   recording->version + 1 < COLLECT_VERSIONS) {
		rp_exchange_end(exchange);
		recording->version++;
		start(recording);
	} else if (ret) {
		fail_start(recording, ret);
	} else {
		begin_session(recording);
	}
}

/* A refused stop does not end the recording: the session may have ended at the same moment. */
static void step_stop(struct recording *recording)
{
	int ret = rp_exchange_step(&recording->stop.exchange);

	if (ret == 1)
		return;
	rp_exchange_end(&recording->stop.exchange);
	recording->stop.running = false;
}

/* Reply: u64 delivered, u64 lost, u64 bytes, u32 reasons with a u64 each, i32 error. */
static void step_stats(struct recording *recording)
{
	struct rp_exchange *exchange = &recording->stats.exchange;
	int ret = rp_exchange_step(exchange);

	if (ret == 1)
		return;
	if (ret == 0) {
		struct rp_cursor cursor = rp_exchange_payload(exchange);
		uint64_t delivered = rp_cursor_get_u64(&cursor), lost = rp_cursor_get_u64(&cursor);

		if (!rp_cursor_failed(&cursor)) {
			recording->delivered = delivered;
			recording->lost = lost;
			recording->stats_seen = true;
		}
	}
	recording->stats_unknown = rp_exchange_unknown_command(exchange, ret);
	rp_exchange_end(exchange);
	recording->stats.running = false;
	if (recording->phase == RUNNING && recording->plan->live)
		line_show(recording);
}

static void save_chunk(struct recording *recording, size_t size)
{
	int ret = rp_output_write(recording->output, recording->chunk, size);

	if (ret == 0) {
		recording->result->bytes += size;
		recording->heard_ms = rp_now_ms();
		return;
	}
	if (recording->phase == ENDED)
		return;
	line_clear(recording);
	if (ret == -ECANCELED) {
		rp_output_report_unread(recording->output);
		end(recording, RP_RECORDING_CANCELLED);
		return;
	}
	rp_tool_error("cannot write %s: %s; the trace ends there", recording->output->path,
		      strerror(-ret));
	end(recording, RP_RECORDING_OUTPUT_FAILED);
}

/* Reads one chunk per call, so that signals are seen however fast the peer writes. */
static void step_stream(struct recording *recording)
{
	ssize_t got = recv(recording->collect.exchange.fd, recording->chunk, CHUNK_BYTES, 0);

	if (got > 0) {
		save_chunk(recording, (size_t)got);
	} else if (got == 0 || errno == ECONNRESET) {
		/*
		 * A peer that closes with bytes of ours unread resets the connection; all that it
		 * sent has been received.
		 */
		end(recording, recording->phase == STOPPING ? RP_RECORDING_STOPPED :
							     RP_RECORDING_PEER_ENDED);
	} else if (errno != EAGAIN && errno != EINTR) {
		line_clear(recording);
		rp_tool_error("reading from process %d: %s", recording->plan->target->pid,
			      strerror(errno));
		end(recording, RP_RECORDING_STREAM_FAILED);
	}
}

/* The number of pending signals that request a stop. */
static unsigned int count_signals(struct recording *recording)
{
	if (recording->plan->child)
		return rp_child_signals(recording->plan->child);
	return rp_signals_count(recording->signal_fd, &recording->last_signal);
}

static void step_signals(struct recording *recording)
{
	for (unsigned int n = count_signals(recording); n && recording->phase != ENDED; n--) {
		const bool is_first = !recording->output->is_stopping;

		/* Only a signal limits how long a write waits: the end of the time does not. */
		recording->output->is_stopping = true;
		if (is_first && recording->phase <= RUNNING)
			want_stop(recording);
		if (is_first)
			continue;
		line_clear(recording);
		rp_tool_error("cancelled; the trace may stop before its end");
		end(recording, RP_RECORDING_GAVE_UP);
	}
}

/* Signals have the same effect while the output is full as between two writes. */
static bool takes_signals(void *data)
{
	struct recording *recording = data;

	step_signals(recording);
	return recording->phase == ENDED;
}

/* Wait until a filter has written the rest. */
static void finish_filter(struct recording *recording)
{
	const enum rp_recording_end how = recording->result->end;
	int ret;

	recording->phase = FINISHING;
	recording->output->is_cancelled |= how == RP_RECORDING_GAVE_UP;
	ret = rp_output_filter_end(recording->output);
	/* A filter whose reader has left ends without a message. */
	if (ret == -EIO && !rp_output_has_reader(recording->output))
		ret = -ECANCELED;
	if (recording->phase != ENDED && ret &&
	    (how == RP_RECORDING_STOPPED || how == RP_RECORDING_PEER_ENDED)) {
		recording->result->end = ret == -ECANCELED ? RP_RECORDING_CANCELLED :
					 RP_RECORDING_OUTPUT_FAILED;
		if (ret == -ECANCELED)
			rp_output_report_unread(recording->output);
	}
	recording->phase = ENDED;
}

static bool has_providers_to_check(const struct recording *recording)
{
	return recording->plan->child && recording->plan->report_missing &&
	       !recording->providers_checked && recording->phase == RUNNING;
}

/* A command that ends earlier reports them in its trace. */
static void check_providers(struct recording *recording)
{
	const struct rp_recording_plan *plan = recording->plan;

	recording->providers_checked = true;
	rp_output_drop_copy(recording->output);
	line_clear(recording);
	recording->result->missing = rp_providers_check(plan->target,
							rp_recording_provider_name,
							plan->provider_count,
							(void *)plan->providers) != 0;
}

static bool has_second_search(const struct recording *recording)
{
	return recording->plan->search && !recording->has_asked_again &&
	       recording->phase == RUNNING;
}

static void step_time(struct recording *recording)
{
	const struct rp_recording_plan *plan = recording->plan;
	int64_t now = rp_now_ms();

	if (recording->phase == RUNNING && plan->duration_ms &&
	    now - recording->start_ms >= (int64_t)plan->duration_ms)
		want_stop(recording);
	if (has_providers_to_check(recording) && now - recording->start_ms >= REGISTER_MS)
		check_providers(recording);
	if (has_second_search(recording) && now - recording->start_ms >= REGISTER_MS)
		ask_again(recording);
	if (recording->phase == STOPPING && now - recording->heard_ms >= STOP_TIMEOUT_MS) {
		line_clear(recording);
		rp_tool_error("process %d did not end the trace within %d s; is it stopped?",
			      plan->target->pid, STOP_TIMEOUT_MS / 1000);
		end(recording, RP_RECORDING_STREAM_FAILED);
	}
	if (recording->phase != RUNNING && recording->phase != STOPPING)
		return;
	if (!plan->live || now < recording->tick_ms)
		return;
	recording->tick_ms = now + TICK_MS;
	line_show(recording);
	if (recording->phase == RUNNING && !recording->stats.running &&
	    !recording->stats_unknown)
		talk_start(recording, &recording->stats);
}

static void sooner(int64_t *timeout, int64_t other)
{
	if (other < *timeout)
		*timeout = other < 0 ? 0 : other;
}

static int64_t next_wait(const struct recording *recording)
{
	int64_t now = rp_now_ms(), timeout = 60000;

	if (recording->phase == STARTING)
		sooner(&timeout, recording->start_ms + START_TIMEOUT_MS + 1 - now);
	if (recording->phase == STOPPING)
		sooner(&timeout, recording->heard_ms + STOP_TIMEOUT_MS - now);
	if (recording->phase == RUNNING && recording->plan->duration_ms)
		sooner(&timeout, recording->start_ms + (int64_t)recording->plan->duration_ms - now);
	if (has_providers_to_check(recording) || has_second_search(recording))
		sooner(&timeout, recording->start_ms + REGISTER_MS - now);
	if (recording->phase != STARTING && recording->plan->live)
		sooner(&timeout, recording->tick_ms - now);
	return timeout;
}

/*
 * The descriptor to poll for one exchange. If the peer's queue is full, the exchange is soon
 * retried.
 */
static struct pollfd talk_poll(const struct talk *talk, int64_t *timeout)
{
	struct pollfd wait = { .fd = -1 };

	if (!talk->running)
		return wait;
	wait = rp_exchange_poll(&talk->exchange);
	if (wait.fd < 0)
		sooner(timeout, RP_EXCHANGE_RETRY_MS);
	return wait;
}

static void turn(struct recording *recording)
{
	int64_t timeout = next_wait(recording);
	struct pollfd waits[] = {
		{ .fd = recording->signal_fd, .events = POLLIN },
		recording->phase == STARTING ? talk_poll(&recording->collect, &timeout) :
			(struct pollfd){ .fd = recording->collect.exchange.fd, .events = POLLIN },
		talk_poll(&recording->stop, &timeout),
		talk_poll(&recording->stats, &timeout),
		{ .fd = recording->plan->child ? recording->plan->child->port.fd : -1,
		  .events = POLLIN },
	};

	if (poll(waits, 5, (int)timeout) < 0)
		return;
	if (waits[0].revents)
		step_signals(recording);
	if (waits[4].revents)
		rp_tool_port_accept(&recording->plan->child->port);
	if (recording->phase == STARTING)
		step_start(recording);
	else if (recording->phase != ENDED && waits[1].revents)
		step_stream(recording);
	if (recording->phase != ENDED && recording->stop.running)
		step_stop(recording);
	if (recording->phase != ENDED && recording->stats.running)
		step_stats(recording);
	if (recording->phase != ENDED)
		step_time(recording);
}

void rp_recording_run(const struct rp_recording_plan *plan, struct rp_output *output,
		      struct rp_recording_result *ret_result)
{
	struct recording *recording = calloc(1, sizeof(*recording));

	*ret_result = (struct rp_recording_result){ .end = RP_RECORDING_FAILED };
	if (!recording || !(recording->chunk = malloc(CHUNK_BYTES))) {
		rp_tool_error("out of memory");
		free(recording);
		return;
	}
	recording->plan = plan;
	recording->output = output;
	recording->result = ret_result;
	recording->start_ms = rp_now_ms();
	recording->collect.exchange.fd = -1;
	recording->stop.exchange.fd = -1;
	recording->stats.exchange.fd = -1;
	recording->signal_fd = plan->child ? plan->child->signal_fd :
			       plan->signal_fd ? plan->signal_fd : rp_signals_open();
	if (recording->signal_fd < 0) {
		rp_tool_error("cannot receive signals: %s", strerror(-recording->signal_fd));
		recording->phase = ENDED;
	} else {
		rp_output_make_interruptible(output, recording->signal_fd, takes_signals,
					     recording);
		start(recording);
	}
	while (recording->phase != ENDED)
		turn(recording);
	if (plan->search && !recording->has_asked_again) {
		rp_provider_search_skip(plan->search);
		rp_provider_search_end(plan->search);
	}
	finish_filter(recording);
	rp_output_end_interruptible(output);
	rp_exchange_end(&recording->collect.exchange);
	rp_exchange_end(&recording->stop.exchange);
	rp_exchange_end(&recording->stats.exchange);
	rp_message_fini(&recording->collect.request);
	rp_message_fini(&recording->stop.request);
	rp_message_fini(&recording->stats.request);
	if (recording->signal_fd >= 0 && !plan->child && !plan->signal_fd)
		rp_signals_close(recording->signal_fd);
	free(recording->chunk);
	free(recording);
}
