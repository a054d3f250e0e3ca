/* SPDX-License-Identifier: MIT */
/*
 * The waits that ringpipe record computes from the switches between threads, where the kernel
 * refuses BPF programs. The functions of perf_events.c below deliver the records of a test.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tools/ringpipe-record/switch_waits.h"
#include "tools/ringpipe-record/perf_events.h"

static struct rp_perf_record records[16];
static size_t record_count;
static struct rp_wait_record found[16];
static size_t found_count;

int rp_perf_open(const struct rp_perf_options *options, struct rp_perf **ret_perf,
		 const char **ret_call)
{
	(void)ret_call;
	*ret_perf = (struct rp_perf *)records;
	return options->is_switches ? 0 : -1;
}

void rp_perf_close(struct rp_perf *perf)
{
	(void)perf;
}

int rp_perf_enable(struct rp_perf *perf)
{
	(void)perf;
	return 0;
}

void rp_perf_disable(struct rp_perf *perf)
{
	(void)perf;
}

int rp_perf_fd(const struct rp_perf *perf)
{
	(void)perf;
	return -1;
}

uint64_t rp_perf_limit(struct rp_perf *perf)
{
	(void)perf;
	return 0;
}

int rp_perf_drain(struct rp_perf *perf, uint64_t limit_ns, rp_perf_callback callback, void *user)
{
	int ret = 0;

	(void)perf;
	(void)limit_ns;
	for (size_t i = 0; ret == 0 && i < record_count; i++)
		ret = callback(user, &records[i]);
	return ret;
}

void rp_perf_stats(const struct rp_perf *perf, struct rp_perf_stats *ret_stats)
{
	(void)perf;
	memset(ret_stats, 0, sizeof(*ret_stats));
}

static struct rp_perf_record *put(enum rp_perf_kind kind, uint64_t time_ns)
{
	records[record_count] = (struct rp_perf_record){
		.kind = kind, .time_ns = time_ns, .process = 7, .thread = 7,
	};
	return &records[record_count++];
}

static void put_switch(uint64_t time_ns, bool is_out, bool is_preempted)
{
	struct rp_perf_record *record = put(RP_PERF_SWITCH, time_ns);

	record->is_switch_out = is_out;
	record->is_preempted = is_preempted;
}

static int note(void *user, const struct rp_wait_record *record)
{
	(void)user;
	found[found_count++] = *record;
	return 0;
}

static void find_waits(uint64_t threshold_ns)
{
	const struct rp_waits_options options = {
		.threshold_ns = threshold_ns, .ring_bytes = 1 << 20,
	};
	struct rp_switch_waits *waits;

	found_count = 0;
	cr_assert(rp_switch_waits_start(&options, note, NULL, &waits) == 0);
	cr_assert(rp_switch_waits_drain(waits, true) == 0);
	rp_switch_waits_destroy(waits);
}

Test(record_switch_waits, a_wait_lasts_from_the_switch_away_to_the_switch_back)
{
	put_switch(1000, true, false);
	put_switch(1500, false, false);
	put_switch(2000, true, true);
	put_switch(2400, false, false);
	find_waits(0);
	cr_assert(found_count == 2);
	cr_assert(found[0].began_ns == 1000 && found[0].time_ns == 1500);
	cr_assert(found[0].state == RP_WAIT_SLEEPS);
	cr_assert(found[1].began_ns == 2000 && found[1].time_ns == 2400);
	cr_assert(found[1].state == RP_WAIT_PREEMPTED);
	find_waits(500);
	cr_assert(found_count == 1);
}

Test(record_switch_waits, a_thread_that_has_ended_waits_no_more)
{
	put(RP_PERF_END, 900);
	put_switch(1000, true, false);
	/* A later thread with the id, whose start was lost. */
	put_switch(5000, false, false);
	find_waits(0);
	cr_assert(found_count == 0);
}

Test(record_switch_waits, a_thread_that_is_preempted_while_it_ends_runs_once_more)
{
	put(RP_PERF_END, 900);
	put_switch(1000, true, true);
	put_switch(1600, false, false);
	put_switch(1700, true, false);
	put_switch(5000, false, false);
	find_waits(0);
	cr_assert(found_count == 1);
	cr_assert(found[0].began_ns == 1000 && found[0].time_ns == 1600);
}

Test(record_switch_waits, a_new_thread_does_not_continue_the_wait_of_an_earlier_one)
{
	put_switch(1000, true, false);
	put(RP_PERF_START, 3000);
	put_switch(4000, false, false);
	find_waits(0);
	cr_assert(found_count == 0);
}
