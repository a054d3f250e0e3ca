/* SPDX-License-Identifier: MIT */
/* Runs the checks, with wrappers around the callbacks of the host. */
#include <ringpipe/host_test.h>

#include <errno.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "host_test/suite.h"

/* The table of the test, for the wrappers. */
static const struct rp_host *wrapped;

static void add(uint64_t *count, uint64_t value)
{
	__atomic_fetch_add(count, value, __ATOMIC_RELAXED);
}

static bool is_interpreter(uint64_t frame)
{
	for (size_t i = 0; i < wrapped->interpreter_count; i++) {
		if (frame - 1 >= wrapped->interpreters[i].start &&
		    frame - 1 < wrapped->interpreters[i].end)
			return true;
	}
	return false;
}

/* Return: whether the native stack has an interpreter's frame for each invocation. */
static bool is_matched(const struct rp_host_walk *walk, const uint64_t *frames, int count)
{
	unsigned int invocations = 0, interpreters = 0;

	for (int i = 0; i < count; i++)
		invocations += frames[i] != RP_HOST_FRAME_NATIVE &&
			       (i == 0 || frames[i - 1] == RP_HOST_FRAME_NATIVE);
	for (uint32_t i = 0; i < walk->native_count; i++)
		interpreters += is_interpreter(walk->native[i]);
	return invocations > 0 && interpreters >= invocations;
}

/* Runs in signal handlers too. */
static int walk_wrapper(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
			void *data)
{
	unsigned long before = rp_malloc_calls;
	int count;

	(void)data;
	rp_suite_walks++;
	count = wrapped->walk(walk, ret_frames, max, wrapped->data);
	rp_suite_walks--;
	add(&rp_walk_counts.calls, 1);
	add(&rp_walk_counts.allocations, rp_malloc_calls - before);
	add(&rp_walk_counts.too_many, count > (int)max);
	add(&rp_walk_counts.deferred, walk->context == RP_HOST_WALK_SIGNAL && count == -EAGAIN);
	add(&rp_walk_counts.safe_points, walk->context == RP_HOST_WALK_SAFE_POINT);
	add(&rp_walk_counts.matched, is_matched(walk, ret_frames, count));
	return count;
}

static const struct {
	const char *name;
	enum rp_check_result (*run)(struct rp_suite *suite);
} checks[] = {
#define ENTRY(name) { #name, rp_check_##name },
	RP_CHECKS(ENTRY)
};

static int run_check(struct rp_suite *suite, size_t i, FILE *output)
{
	static const char *const words[] = { "ok", "not ok", "skip" };
	enum rp_check_result result;

	suite->reason[0] = '\0';
	memset(&rp_walk_counts, 0, sizeof(rp_walk_counts));
	result = checks[i].run(suite);
	fprintf(output, "%s %s%s%s\n", words[result], checks[i].name,
		*suite->reason ? ": " : "", suite->reason);
	fflush(output);
	return result == RP_CHECK_FAILED;
}

static bool is_complete(const struct rp_host_test *test)
{
	return test && test->size >= RP_HOST_TEST_SIZE_V1 && test->host && test->call &&
	       test->compute && (test->names || !test->name_count);
}

int rp_host_test_run(const struct rp_host_test *test, const char *check, FILE *output)
{
	struct rp_suite suite = { .test = test };
	struct rp_host table;
	int failed = 0, found = 0, ret;

	if (!is_complete(test))
		return -EINVAL;
	rp_suite_wrap(&suite, &table);
	wrapped = suite.host;
	if (table.walk)
		table.walk = walk_wrapper;
	ret = rp_host_register(&table);
	if (ret != 0)
		return ret;
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (check && strcmp(check, checks[i].name) != 0)
			continue;
		found++;
		failed += run_check(&suite, i, output);
	}
	rp_host_unregister();
	return found ? failed : -EINVAL;
}
