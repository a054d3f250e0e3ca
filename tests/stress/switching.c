/* SPDX-License-Identifier: MIT */
/*
 * Sessions start and stop while writers write. Two controllers start and stop one session after
 * another, each for a different event, so that a write is offered to one session at most. Writers
 * write both events continuously.
 *
 * The first write that a session sees is unknown, so the rules apply to ranges. Around each start
 * and stop the controller reads two counters of each stream: all serials below `done` are written,
 * and no serial from `next` on has been begun.
 *
 *	        done   start()   next          done   stop()   next
 *	---------|----[-------]----|------------|----[------]----|---------> serials
 *	        first          sure_first   sure_end            end
 *
 *	[sure_first, sure_end)	was offered for certain: begun after start() returned, finished
 *				before stop() was called
 *	[first, end)		may have been offered; nothing outside of it was
 *
 * By serial: inside the sure range the call returned 0 if and only if the session's recording
 * contains the serial. In the rest of [first, end), calls whose serial is recorded returned 0.
 * Outside, the recording is empty, and while no session could be enabled, every call returned 0. In
 * sums: one session counted each call that returned a loss. The ranges of two consecutive sessions
 * overlap by at most one serial of each stream, whose call ran during both. A session reports
 * exactly the lost calls of its range, unless a lost call is in an overlap: then at least those
 * outside and at most all. The sum over all sessions is exactly the number of lost calls.
 *
 * A stop that takes more than a second is an exception, because the session may have given up on a
 * write whose thread did not run. The call returns later. If it returns 0, the session may have
 * reported the event as damaged. If it returns a loss, the session may not have counted it. Only
 * calls of [sure_end, end) are affected.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/listener.h>

#include "stress.h"

#define WRITERS 4u
#define SPACE (1u << 14)
#define GIVE_UP_SECONDS 1.0

RP_PROVIDER(even, "Stress-Even");
STRESS_EVENTS(even);
RP_PROVIDER(odd, "Stress-Odd");
STRESS_EVENTS(odd);

enum sink { TO_FILE, TO_SOCKET, TO_LISTENER, SINKS };

struct range {
	uint64_t first, sure_first, sure_end, end;
};

struct round {
	enum sink sink;
	struct range ranges[WRITERS];
	struct rp_session *session;
	struct rp_listener *listener;
	struct stress_far_side far_side;
	struct stress_books *books;
	struct stress_tally tally;
	struct rp_session_stats stats;
	char path[300];
	bool may_give_up;	/* on writes: the stop took long */
};

struct controller {
	pthread_t thread;
	const char *provider;
	char path[256];
	struct stress_books books;
	uint64_t dropped[WRITERS];	/* lower serials were checked, and their entries are free */
	uint64_t rounds;
	uint64_t random;
	/* Totals for the report. */
	uint64_t offered, delivered, reported, lost_calls, exact, overloaded, clamped;
	uint64_t end_lost;		/* of lost_calls: perhaps not reported */
};

static struct controller controllers[2];
static uint32_t stop_writing;

static void *write_on(void *data)
{
	size_t writer = (size_t)data;

	while (!__atomic_load_n(&stop_writing, __ATOMIC_RELAXED)) {
		bool wrote = false;

		for (int i = 0; i < 2; i++) {
			struct controller *controller = &controllers[i];
			struct stress_stream *stream = &controller->books.streams[writer];

			/* Acquire: entries that the controller cleared may be reused. */
			if (stream->next - __atomic_load_n(&controller->dropped[writer],
							   __ATOMIC_ACQUIRE) >= SPACE - 1)
				continue;
			stress_write(stream);
			wrote = true;
		}
		if (!wrote)
			sched_yield();
	}
	return NULL;
}

static uint64_t done(const struct controller *controller, size_t writer)
{
	return __atomic_load_n(&controller->books.streams[writer].done, __ATOMIC_SEQ_CST);
}

static uint64_t next(const struct controller *controller, size_t writer)
{
	return __atomic_load_n(&controller->books.streams[writer].next, __ATOMIC_SEQ_CST);
}

static void on_event(const struct rp_listener_event *event, void *data)
{
	struct round *round = data;

	stress_take_from(round->books, &round->tally, event->provider, event->payload,
			 event->payload_bytes, false);
}

static void start_round(struct controller *controller, struct round *round)
{
	size_t bytes = (stress_random(&controller->random) % 2 ? 1u : 4u) << 20;
	int fds[2];

	if (round->sink == TO_FILE) {
		round->session = stress_start(controller->provider, round->path, -1, bytes, 0);
	} else if (round->sink == TO_SOCKET) {
		stress_socketpair(fds);
		round->session = stress_start(controller->provider, NULL, fds[0], bytes, 0);
		stress_far_side_start(&round->far_side, fds[1], &controller->books,
				      &round->tally);
	} else {
		round->listener = stress_listen(controller->provider, bytes, on_event, round);
	}
}

static void stop_round(struct round *round)
{
	const double begun = stress_seconds();

	round->stats = (struct rp_session_stats){ .size = sizeof(round->stats) };
	if (round->sink != TO_LISTENER) {
		stress_stop(round->session, &round->stats);
	} else {
		rp_listener_drain(round->listener);
		stress_check(rp_listener_stop(round->listener, &round->stats) == 0,
			     "stopping a listener");
	}
	round->may_give_up = stress_seconds() - begun >= GIVE_UP_SECONDS;
}

static void begin(struct controller *controller, struct round *round, uint64_t number)
{
	memset(&round->tally, 0, sizeof(round->tally));
	round->books = &controller->books;
	round->tally.mark = (uint8_t)(1 + number % 2);
	round->sink = (enum sink)(stress_random(&controller->random) % SINKS);
	for (size_t i = 0; i < WRITERS; i++)
		round->ranges[i].first = done(controller, i);
	start_round(controller, round);
	for (size_t i = 0; i < WRITERS; i++)
		round->ranges[i].sure_first = next(controller, i);
}

/* Most sessions end immediately, some after a few thousand events. */
static void linger(const struct controller *controller, const struct round *round, uint32_t dice)
{
	uint64_t wanted = dice % 32 ? 0 : dice / 32 % 4000;
	double until = stress_seconds() + 10;
	uint64_t written;

	do {
		written = 0;
		for (size_t i = 0; i < WRITERS; i++)
			written += done(controller, i) - round->ranges[i].first;
		if (written < wanted)
			sched_yield();
		/* The writers have no free entries until the previous round was checked. */
	} while (written < wanted && stress_seconds() < until);
}

static void end(struct controller *controller, struct round *round)
{
	for (size_t i = 0; i < WRITERS; i++)
		round->ranges[i].sure_end = done(controller, i);
	stop_round(round);
	for (size_t i = 0; i < WRITERS; i++)
		round->ranges[i].end = next(controller, i);
	if (round->sink == TO_SOCKET)
		stress_far_side_join(&round->far_side);
}

struct losses {
	uint64_t all, own;	/* of the range; of its part that no other session shares */
	/* Calls at the end of a stop that may have given up on writes, by their result. */
	uint64_t end_unrecorded, end_lost;
};

static void check_stream(struct controller *controller, const struct round *round, size_t writer,
			 uint64_t earlier_end, uint64_t later_first, struct losses *losses)
{
	const struct stress_stream *stream = &controller->books.streams[writer];
	const struct range *range = &round->ranges[writer];
	uint64_t mask = stream->space - 1;

	for (uint64_t serial = earlier_end; serial < range->first; serial++)
		stress_check(stream->fate[serial & mask] == STRESS_OK &&
			     !stream->seen[serial & mask],
			     "stream %zu, serial %" PRIu64 ": not 0 with no session on", writer,
			     serial);
	for (uint64_t serial = range->first; serial < range->end; serial++) {
		uint8_t fate = stream->fate[serial & mask];
		bool seen = __atomic_load_n(&stream->seen[serial & mask], __ATOMIC_RELAXED) ==
			    round->tally.mark;
		bool sure = serial >= range->sure_first && serial < range->sure_end;

		stress_check(sure ? (fate == STRESS_OK) == seen : fate == STRESS_OK || !seen,
			     "stream %zu, serial %" PRIu64 ": fate %u, %s, %s", writer, serial,
			     fate, seen ? "recorded" : "not recorded", sure ? "sure" : "at an end");
		stress_check(fate == STRESS_OK || fate == STRESS_LOST, "fate %u", fate);
		losses->all += fate == STRESS_LOST;
		if (round->may_give_up && serial >= range->sure_end) {
			losses->end_unrecorded += fate == STRESS_OK && !seen;
			losses->end_lost += fate == STRESS_LOST;
		}
		losses->own += fate == STRESS_LOST && serial >= earlier_end &&
			       serial < later_first;
		controller->offered += sure;
	}
}

/* Frees the entries of all serials that no later round can contain. */
static void drop(struct controller *controller, size_t writer, uint64_t below)
{
	struct stress_stream *stream = &controller->books.streams[writer];
	uint64_t mask = stream->space - 1;

	for (uint64_t serial = controller->dropped[writer]; serial < below; serial++) {
		controller->lost_calls += stream->fate[serial & mask] == STRESS_LOST;
		__atomic_store_n(&stream->seen[serial & mask], 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&controller->dropped[writer], below, __ATOMIC_RELEASE);
}

/* `later` is NULL after the last round. */
static void verify(struct controller *controller, struct round *round, const uint64_t *earlier_ends,
		   const struct round *later)
{
	const uint64_t damaged = round->stats.lost_by[RP_LOSS_DAMAGED];
	const uint64_t lost = round->stats.lost - damaged;
	struct losses losses = { 0 };

	if (round->sink == TO_FILE)
		stress_read_file(round->path, &controller->books, &round->tally);
	for (size_t i = 0; i < WRITERS; i++) {
		uint64_t later_first = later ? later->ranges[i].first : round->ranges[i].end;

		/* A call that ran during the stop has not returned yet. */
		while (done(controller, i) < round->ranges[i].end)
			sched_yield();
		check_stream(controller, round, i, earlier_ends[i], later_first, &losses);
		drop(controller, i, later_first < round->ranges[i].end ? later_first :
		     round->ranges[i].end);
	}
	/* A writer that returns late may count a loss after the stream reported the losses. */
	if (!round->may_give_up)
		stress_agree(&round->tally, &round->stats);
	stress_check(lost + losses.end_lost >= losses.own && lost <= losses.all,
		     "told %" PRIu64 " lost, %" PRIu64 " to %" PRIu64 " calls were", lost,
		     losses.own, losses.all);
	stress_check(damaged <= losses.end_unrecorded,
		     "told %" PRIu64 " damaged, %" PRIu64 " calls may be", damaged,
		     losses.end_unrecorded);
	controller->end_lost += losses.end_lost;
	controller->exact += losses.own == losses.all;
	controller->overloaded += losses.all != 0;
	controller->delivered += round->stats.delivered;
	controller->reported += lost;
	controller->clamped += round->stats.clamped;
}

static void *control(void *data)
{
	struct controller *controller = data;
	uint64_t earlier_ends[WRITERS] = { 0 };
	struct round *rounds = stress_alloc(2, sizeof(*rounds));

	for (int i = 0; i < 2; i++)
		snprintf(rounds[i].path, sizeof(rounds[i].path), "%s-%d",
			 controller->path, i);
	for (uint64_t number = 0; number <= controller->rounds; number++) {
		struct round *round = &rounds[number % 2], *earlier = &rounds[(number + 1) % 2];
		bool is_last = number == controller->rounds;

		if (!is_last)
			begin(controller, round, number);
		/* The previous round is checked while this one runs. */
		if (number > 0) {
			verify(controller, earlier, earlier_ends, is_last ? NULL : round);
			for (size_t i = 0; i < WRITERS; i++)
				earlier_ends[i] = earlier->ranges[i].end;
		}
		if (is_last)
			break;
		linger(controller, round, stress_random(&controller->random));
		end(controller, round);
	}
	for (int i = 0; i < 2; i++)
		unlink(rounds[i].path);
	free(rounds);
	return NULL;
}

static void report_stats(void)
{
	uint64_t sessions = 0, offered = 0, delivered = 0, lost = 0;

	for (unsigned int i = 0; i < 2; i++) {
		sessions += controllers[i].rounds;
		offered += controllers[i].offered;
		delivered += controllers[i].delivered;
		lost += controllers[i].reported;
	}
	stress_note("figure: %" PRIu64 " sessions started and stopped: %" PRIu64 " delivered + %"
		    PRIu64 " lost, by serials; %" PRIu64 " offered for sure", sessions, delivered,
		    lost, offered);
}

static void count_the_rest(struct controller *controller)
{
	for (size_t i = 0; i < WRITERS; i++)
		drop(controller, i, controller->books.streams[i].next);
	stress_check(controller->reported <= controller->lost_calls &&
		     controller->reported + controller->end_lost >= controller->lost_calls,
		     "%s: all sessions told %" PRIu64 " lost, %" PRIu64 " calls were",
		     controller->provider, controller->reported, controller->lost_calls);
	stress_note("%s: %" PRIu64 " sessions (%" PRIu64 " with losses, %" PRIu64
		    " exact by themselves), offered for sure %" PRIu64 ", delivered %" PRIu64
		    ", lost %" PRIu64 " told, %" PRIu64 " calls, clamped %" PRIu64,
		    controller->provider, controller->rounds, controller->overloaded,
		    controller->exact, controller->offered, controller->delivered,
		    controller->reported, controller->lost_calls, controller->clamped);
}

int main(void)
{
	uint64_t rounds = stress_amount(1000) * stress_rounds();
	pthread_t writers[WRITERS];

	stress_begin("%" PRIu64 "_sessions_under_fire_each_own_their_events_exactly", 2 * rounds);
	for (unsigned int i = 0; i < 2; i++) {
		controllers[i].provider = i ? "Stress-Odd" : "Stress-Even";
		strcpy(controllers[i].path, stress_path(controllers[i].provider));
		controllers[i].rounds = rounds;
		controllers[i].random = 17 + i;
		stress_books_init(&controllers[i].books, WRITERS, SPACE,
				  i ? odd_any : even_any);
	}
	for (size_t i = 0; i < WRITERS; i++)
		stress_spawn(&writers[i], write_on, (void *)i);
	for (unsigned int i = 0; i < 2; i++)
		stress_spawn(&controllers[i].thread, control, &controllers[i]);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(controllers[i].thread, NULL);
	__atomic_store_n(&stop_writing, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	for (unsigned int i = 0; i < 2; i++) {
		count_the_rest(&controllers[i]);
		stress_books_fini(&controllers[i].books);
	}
	report_stats();
	stress_end();
	return stress_exit();
}
