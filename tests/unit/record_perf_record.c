/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>

#include "tools/ringpipe-record/perf_record.h"

/* Passes the end of thread 11 of process 10, and then a sample. Returns the sample. */
static struct rp_perf_record sample_after_end(pid_t process, pid_t thread)
{
	struct rp_perf_record end = { .kind = RP_PERF_END, .process = 10, .thread = 11 };
	struct rp_perf_record sample = {
		.kind = RP_PERF_SAMPLE, .process = process, .thread = thread,
	};
	struct rp_perf_ended ended = { 0 };

	rp_perf_record_find_ended(&end, &ended);
	rp_perf_record_find_ended(&sample, &ended);
	return sample;
}

static void expect(struct rp_perf_record sample, pid_t process, pid_t thread)
{
	cr_expect_eq(sample.process, process);
	cr_expect_eq(sample.thread, thread);
}

Test(record_perf_record, a_sample_of_an_ended_process_is_of_the_thread_that_ended_last)
{
	expect(sample_after_end(-1, -1), 10, 11);
}

Test(record_perf_record, a_sample_of_an_ended_thread_is_of_the_one_that_ended_last)
{
	expect(sample_after_end(10, -1), 10, 11);
}

Test(record_perf_record, a_sample_of_an_ended_thread_that_moved_is_of_its_process)
{
	expect(sample_after_end(20, -1), 20, 20);
}

Test(record_perf_record, a_sample_of_a_thread_that_runs_keeps_its_ids)
{
	expect(sample_after_end(10, 12), 10, 12);
	expect(sample_after_end(20, 21), 20, 21);
}
