/* SPDX-License-Identifier: MIT */
/* The conformance suite of the host port: its state, and its checks. */
#ifndef RP_HOST_TEST_SUITE_H
#define RP_HOST_TEST_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/host_test.h>

/* The suite waits this long for an effect that a correct host has much sooner. */
#define RP_SUITE_PATIENCE_NS 10000000000u

enum rp_check_result {
	RP_CHECK_OK,
	RP_CHECK_FAILED,
	RP_CHECK_SKIPPED,
};

/* Calls of `walk` that the wrapper has seen. */
struct rp_walk_counts {
	uint64_t calls;
	uint64_t too_many;		/* the result was above the maximum */
	uint64_t allocations;		/* calls of malloc(3) inside `walk` */
	uint64_t deferred;		/* -EAGAIN in a signal handler */
	uint64_t safe_points;
	uint64_t matched;	/* results with an interpreter's frame for each invocation */
};

struct rp_suite {
	const struct rp_host_test *test;
	const struct rp_host *host;	/* a copy of the table of the test */
	char reason[256];
};

extern struct rp_walk_counts rp_walk_counts;
/* Whether this thread is in `walk`. */
extern __thread int rp_suite_walks __attribute__((tls_model("initial-exec")));
/* The calls of malloc(3) by this thread; see count_malloc.c. */
extern __thread unsigned long rp_malloc_calls __attribute__((tls_model("initial-exec")));

/* Return RP_CHECK_FAILED or RP_CHECK_SKIPPED with a reason. */
enum rp_check_result rp_suite_fail(struct rp_suite *suite, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
enum rp_check_result rp_suite_skip(struct rp_suite *suite, const char *reason);

uint64_t rp_suite_now_ns(void);

/* Copy the table of the test, and make the table with wrappers that the suite registers. */
void rp_suite_wrap(struct rp_suite *suite, struct rp_host *ret_table);

/* The calls of the wrapped callbacks, in port_checks.c. */
extern unsigned int rp_suite_start_ups;

/*
 * Get the frames of the calling thread from the table's own `walk`, without separators. Return:
 * their number.
 */
unsigned int rp_suite_walk(const struct rp_host *host, uint64_t *ret_frames, unsigned int max);

/* Describe a frame by the table's `resolve`. Return: its result. */
int rp_suite_resolve(const struct rp_host *host, uint64_t frame,
		     struct rp_host_method *ret_method);

/* Print the name of a method as traces show it. */
void rp_suite_print(const struct rp_host_method *method, char *ret_text, size_t space);

/* Each check is the promise in its name. */
#define RP_CHECKS(check)							\
	check(walk_stays_within_its_maximum)					\
	check(walk_returns_the_running_functions)				\
	check(walk_is_empty_outside_of_the_host)				\
	check(walk_allocates_nothing)						\
	check(walk_writes_no_events)						\
	check(interpreters_are_on_the_stack)					\
	check(methods_contain_their_frames)					\
	check(methods_have_a_middle)						\
	check(resolve_ends_its_texts)						\
	check(resolve_refuses_other_frames)					\
	check(resolve_works_in_every_thread)					\
	check(modules_contain_the_frames)					\
	check(modules_contain_no_loaded_objects)				\
	check(listed_methods_have_code)						\
	check(samples_show_the_host)						\
	check(deferred_samples_are_taken)					\
	check(a_stopped_world_stands_still)					\
	check(thread_names_are_ended)						\
	check(threads_end_as_often_as_they_begin)				\
	check(start_up_is_called_once)						\
	check(process_state_is_known)						\
	check(unknown_commands_are_refused)					\
	check(allocations_are_aligned)

#define RP_CHECK_DECLARE(name) enum rp_check_result rp_check_##name(struct rp_suite *suite);
RP_CHECKS(RP_CHECK_DECLARE)

#endif
