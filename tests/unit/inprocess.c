/* SPDX-License-Identifier: MIT */
/*
 * A replacement for Criterion's runner in builds with ThreadSanitizer: the runner stores its state
 * at addresses that ThreadSanitizer uses, and cannot start. The tests are unchanged. Each runs in a
 * separate process: this program again, with the test's number.
 */
#include <errno.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

enum { TEST_FAILED = 101, TEST_SKIPPED = 102, TEST_SECONDS = 300 };

extern struct criterion_test *__start_cr_tst[];
extern struct criterion_test *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));
extern char **environ;

int main(int argc, char **argv);

static bool test_failed;
static jmp_buf test_end;

/* Functions that Criterion's assertions call. */
void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	test_failed = true;
	fprintf(stderr, "%s:%u: %s\n", stats->file, (unsigned int)stats->line, stats->message);
}

void criterion_continue_test(void)
{
	test_failed = true;
}

void criterion_abort_test(void)
{
	test_failed = true;
	longjmp(test_end, 1);
}

void criterion_test_die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	_exit(TEST_FAILED);
}

void criterion_skip_test(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(TEST_SKIPPED);
}

void criterion_internal_test_setup(void)
{
}

void criterion_internal_test_main(void (*function)(void))
{
	function();
}

void criterion_internal_test_teardown(void)
{
}

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
	for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++) {
		if (*suite && !strcmp((*suite)->name, test->category))
			return (*suite)->data;
	}
	return NULL;
}

static int run_one(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	if (!setjmp(test_end)) {
		if (suite && suite->init)
			suite->init();
		if (test->data->init)
			test->data->init();
		test->test();
		if (test->data->fini)
			test->data->fini();
		if (suite && suite->fini)
			suite->fini();
	}
	return test_failed ? TEST_FAILED : 0;
}

static int spawn_one(const char *program, size_t index, int *ret_status)
{
	char number[32];
	char *arguments[] = { (char *)program, (char *)"--one", number, NULL };
	pid_t child;
	int ret;

	snprintf(number, sizeof(number), "%zu", index);
	ret = posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
	if (ret)
		return -ret;
	while (waitpid(child, ret_status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static bool ended_as_wanted(const struct criterion_test *test, int status)
{
	if (test->data->signal)
		return WIFSIGNALED(status) && WTERMSIG(status) == test->data->signal;
	return WIFEXITED(status) && WEXITSTATUS(status) == test->data->exit_code;
}

static bool report_one(const char *program, size_t index)
{
	const struct criterion_test *test = __start_cr_tst[index];
	int status = 0;
	bool passed;

	if (test->data->kind_ != CR_TEST_NORMAL) {
		printf("not ok - %s::%s # parameterized tests are not known here\n",
		       test->category, test->name);
		return false;
	}
	if (test->data->disabled) {
		printf("ok - %s::%s # SKIP disabled\n", test->category, test->name);
		return true;
	}
	passed = !spawn_one(program, index, &status);
	if (passed && WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) {
		printf("ok - %s::%s # SKIP the test says so\n", test->category, test->name);
		return true;
	}
	passed = passed && ended_as_wanted(test, status);
	printf("%s - %s::%s\n", passed ? "ok" : "not ok", test->category, test->name);
	if (!passed)
		printf("# ended with wait status 0x%x\n", (unsigned int)status);
	return passed;
}

int main(int argc, char **argv)
{
	size_t count = (size_t)(__stop_cr_tst - __start_cr_tst);

	if (argc == 3 && !strcmp(argv[1], "--one")) {
		alarm(TEST_SECONDS);
		return run_one(__start_cr_tst[strtoul(argv[2], NULL, 10)]);
	}
	printf("TAP version 13\n1..%zu\n", count);
	for (size_t i = 0; i < count; i++) {
		fflush(stdout);
		report_one(argv[0], i);
	}
	return 0;
}
