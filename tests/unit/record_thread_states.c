/* SPDX-License-Identifier: MIT */
/* The states of threads that ringpipe record follows. */
#include <criterion/criterion.h>

#include "tools/ringpipe-record/thread_states.h"

struct state {
	pid_t thread;
	int value;
};

static struct rp_thread_states states = { .state_bytes = sizeof(struct state) };

static struct state *get(pid_t thread)
{
	struct state *state = rp_thread_states_get(&states, thread);

	cr_assert_not_null(state);
	cr_assert_eq(state->thread, thread);
	return state;
}

Test(record_thread_states, each_thread_keeps_its_state_while_others_end)
{
	for (pid_t thread = 1; thread <= 1000; thread++)
		get(thread)->value = 7 * thread;
	for (pid_t thread = 1; thread <= 1000; thread += 3)
		rp_thread_states_remove(&states, thread);
	rp_thread_states_remove(&states, 5000);
	for (pid_t thread = 1; thread <= 1000; thread++)
		cr_expect_eq(get(thread)->value, thread % 3 == 1 ? 0 : 7 * thread);
	rp_thread_states_fini(&states);
}

Test(record_thread_states, threads_that_ended_need_no_memory)
{
	size_t capacity;

	get(1)->value = 1;
	capacity = states.capacity;
	for (pid_t thread = 2; thread < 100000; thread++) {
		get(thread)->value = thread;
		rp_thread_states_remove(&states, thread);
	}
	cr_expect_eq(states.count, 1);
	cr_expect_eq(states.capacity, capacity);
	cr_expect_eq(get(1)->value, 1);
	rp_thread_states_fini(&states);
}
