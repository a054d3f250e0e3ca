/* SPDX-License-Identifier: MIT */
/*
 * Measures 100,000 sites with static keys in 6 MB of code: the start of a session that enables all
 * of them, compared with a start that finds them enabled, and the thread that maintains them. Also
 * measures an enabled event whose site is a patched jump, compared with one whose site is a load
 * and a branch.
 */
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1

#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "keys.h"
#include "session.h"

#define ROUNDS 10u
#define SITES 100000u
#define PATIENCE_NS 60e9
#define ON_ROUNDS 40u
#define ON_EVENTS 1000u

RP_PROVIDER(bench, "Bench-Keys");
RP_EVENT(bench, keyed, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));

RP_PROVIDER(jump, "Bench-Jump");
RP_EVENT(jump, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

#if defined(__x86_64__)
/* The same sites as the compiler's, without functions around them: no thread executes them. */
__asm__(".pushsection .text\n"
	"many_sites:\n"
	".rept 100000\n"
	".balign 64\n"
	"771: .byte 0xe9\n"
	".long 772f - . - 4\n"
	"772: ret\n"
	".pushsection rp_keys,\"ao\",@progbits,many_sites\n"
	".balign 4\n"
	".long 771b - .\n"
	".long bench_keyed_event_ - .\n"
	".popsection\n"
	".endr\n"
	".popsection\n");
#endif

/* Waits until all sites are jumps, or none is; a minute at most. */
static int become(int jumps)
{
	double begun = now_ns();

	for (;;) {
		unsigned int found = 0;

		for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++)
			found += *((const volatile unsigned char *)&key->site + key->site) == 0xe9;
		if (found == (jumps ? SITES : 0))
			return 1;
		if (now_ns() - begun > PATIENCE_NS)
			return 0;
		usleep(1000);
	}
}

static double start(void)
{
	double begun = now_ns(), took;
	struct rp_session *session = bench_start("Bench-Keys", "/dev/null", 0, 0);

	took = (now_ns() - begun) / 1e6;
	rp_session_stop(session, NULL);
	return took;
}

static double process_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void write_keyed(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		jump_bytes32(i, i, i, i);
}

static void events_on(void)
{
	static double ns[2][ON_ROUNDS];
	void (*volatile writers[])(unsigned int count) = { write_keyed, write_plain };
	struct rp_session *sessions[2];
	uint64_t written = 0;

	/* The smallest ring that holds a round: its pages exist soon. */
	sessions[0] = bench_start("Bench-Jump", "/dev/null", RP_SESSION_BUFFER_MIN, 0);
	sessions[1] = bench_start("Bench-Plain", "/dev/null", RP_SESSION_BUFFER_MIN, 0);
	bench_stay();
	for (unsigned int i = 0; i < bench_rounds(ON_ROUNDS); i++) {
		written += ON_EVENTS;
		for (unsigned int j = 0; j < 2; j++) {
			double begun = now_ns();

			writers[j](ON_EVENTS);
			ns[j][i] = (now_ns() - begun) / ON_EVENTS;
			bench_settle(sessions[j], written);
		}
	}
	rp_session_stop(sessions[0], NULL);
	rp_session_stop(sessions[1], NULL);
	figure_rounds("event 32 B, static key on", ns[0], bench_rounds(ON_ROUNDS));
	figure_rounds("event 32 B, load and branch on", ns[1], bench_rounds(ON_ROUNDS));
}

int main(void)
{
	double on[ROUNDS], again[ROUNDS], begun = now_ns(), cpu;
	unsigned int rounds = bench_rounds(ROUNDS);

	bench_keyed_data_();	/* the compiler does not emit it for the sites above */
	if (!become(0))
		return 77;	/* code cannot be changed on this machine */
	figure("all off after the start of the process", (now_ns() - begun) / 1e6, "ms");
	for (unsigned int i = 0; i < rounds; i++) {
		on[i] = start();
		again[i] = start();
		if (!become(0))
			return 1;
	}
	sort_rounds(on, rounds);
	sort_rounds(again, rounds);
	figure("start, 100,000 sites off, best", on[0], "ms");
	figure("start, 100,000 sites off, worst", on[rounds - 1], "ms");
	figure("start, all on, best", again[0], "ms");
	cpu = process_ns();
	begun = now_ns();
	sleep(2);
	figure("thread that checks them", (process_ns() - cpu) / (now_ns() - begun) * 100,
	       "% of a CPU");
	events_on();
	return 0;
}
