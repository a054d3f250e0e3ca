/* SPDX-License-Identifier: MIT */
/*
 * Measures events with stacks, by depth, compared with backtrace() at the same place in the same
 * run, which is libgcc's unwinder with the same tables. The sampler takes its stacks in the same
 * way. Then a host is registered whose interpreter is one of the native functions.
 */
#include <execinfo.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 60u
#define EVENTS 200u
#define LEARNING 12u
#define HOST_DEPTH 10u
#define HOST_FRAMES 3u

RP_PROVIDER(bench, "Bench-Stacks");
RP_EVENT(bench, here, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));

static void *frames[128];
static int frame_count;

static void take_backtrace(void)
{
	frame_count = backtrace(frames, 100);
}

static void write_event(void)
{
	bench_here(1);
}

/* ns of one call, made `depth` frames deeper. */
static double descend(unsigned int depth, void (*call)(void))
{
	volatile double result;
	double begun;

	if (depth > 0) {
		result = descend(depth - 1, call);
		return result;
	}
	begun = now_ns();
	for (unsigned int i = 0; i < EVENTS; i++)
		call();
	return (now_ns() - begun) / EVENTS;
}

/* The interpreter of the host. */
static __attribute__((noinline)) double interpret(unsigned int depth, void (*call)(void))
{
	volatile double result = descend(depth, call);

	return result;
}

/* The numbers of the host's functions are addresses of this array. */
static char functions[HOST_FRAMES * 16];

static int walk(const struct rp_host_walk *request, uint64_t *ret_frames, unsigned int max,
		void *data)
{
	(void)request;
	(void)data;
	for (unsigned int i = 0; i < HOST_FRAMES && i < max; i++)
		ret_frames[i] = (uint64_t)(uintptr_t)&functions[16 * i + 8];
	return HOST_FRAMES;
}

static int register_host(void)
{
	struct rp_host host = RP_HOST_INIT;
	struct rp_host_range range;
	int ret = rp_host_find_function((const void *)(uintptr_t)interpret, &range);

	host.walk = walk;
	host.interpreters = &range;
	host.interpreter_count = 1;
	return ret ? ret : rp_host_register(&host);
}

/* Compare the same stack without and with a host. */
static void measure_host(struct rp_session *session)
{
	double rounds[2][ROUNDS];
	static uint64_t written;

	for (unsigned int i = 0; i < bench_rounds(LEARNING); i++) {
		(void)interpret(HOST_DEPTH, write_event);
		usleep(60000);
	}
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		for (unsigned int j = 0; j < 2; j++) {
			if (j == 1 && register_host() != 0)
				return;
			rounds[j][i] = interpret(HOST_DEPTH, write_event);
		}
		rp_host_unregister();
		written += 2 * EVENTS;
		bench_settle(session, written);
	}
	figure_rounds("event with a stack below an interpreter", rounds[0], bench_rounds(ROUNDS));
	figure_rounds("event with a stack and 3 frames of a host", rounds[1],
		      bench_rounds(ROUNDS));
}

static void measure(struct rp_session *session, unsigned int depth)
{
	void (*volatile calls[])(void) = { write_event, take_backtrace };
	double rounds[2][ROUNDS];
	static uint64_t written;
	char name[64];

	/* The drain thread learns the rules for a new stack frame by frame. */
	for (unsigned int i = 0; i < bench_rounds(LEARNING); i++) {
		(void)descend(depth, write_event);
		written += EVENTS;
		usleep(60000);
	}
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		for (unsigned int j = 0; j < 2; j++)
			rounds[j][i] = descend(depth, calls[j]);
		written += EVENTS;
		bench_settle(session, written);
	}
	snprintf(name, sizeof(name), "event with a stack of %d frames", frame_count);
	figure_rounds(name, rounds[0], bench_rounds(ROUNDS));
	snprintf(name, sizeof(name), "backtrace() of %d frames", frame_count);
	figure_rounds(name, rounds[1], bench_rounds(ROUNDS));
}

int main(void)
{
	static const unsigned int depths[] = { 0, 5, 10, 20, 40, 80 };
	struct rp_session *session = bench_start("Bench-Stacks", "/dev/null", 64u << 20,
						 RP_SESSION_STACKS);

	(void)backtrace(frames, 1);	/* loads libgcc */
	for (unsigned int i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		measure(session, depths[i]);
	measure_host(session);
	rp_session_stop(session, NULL);
	return 0;
}
