/* SPDX-License-Identifier: MIT */
/*
 * A replacement for Criterion's runner. The tests are unchanged, and each runs in a separate
 * process.
 *
 * Builds with ThreadSanitizer link it: Criterion's runner stores its state at addresses that
 * ThreadSanitizer uses, and cannot start. The process of a test is this program again, with the
 * test's number.
 *
 * Under valgrind, tests/checked preloads it (RUNNER_FORKS): the process of a test is a fork of this
 * one, made before the program's own constructors run. Criterion's runner executes the program for
 * each test, and under valgrind a start takes longer than most tests.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

enum { TEST_FAILED = 101, TEST_SKIPPED = 102, TEST_SECONDS = 300 };

extern char **environ;

int main(int argc, char **argv);

/* Criterion's macros put pointers to tests and suites into sections of the program. */
static struct criterion_test **tests;
static size_t test_count;
static struct criterion_suite **suites;
static size_t suite_count;
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
	for (size_t i = 0; i < suite_count; i++) {
		if (suites[i] && !strcmp(suites[i]->name, test->category))
			return suites[i]->data;
	}
	return NULL;
}

static void run_steps(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

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

static int run_one(const struct criterion_test *test)
{
	alarm(TEST_SECONDS);
	if (!setjmp(test_end))
		run_steps(test);
	return test_failed ? TEST_FAILED : 0;
}

/* Start a test's process. A forked one returns with *ret_child = 0. */
static int start_one(const char *program, size_t index, pid_t *ret_child)
{
#ifdef RUNNER_FORKS
	(void)program;
	(void)index;
	*ret_child = fork();
	return *ret_child < 0 ? -errno : 0;
#else
	char number[32];
	char *arguments[] = { (char *)program, (char *)"--one", number, NULL };

	snprintf(number, sizeof(number), "%zu", index);
	return -posix_spawn(ret_child, "/proc/self/exe", NULL, NULL, arguments, environ);
#endif
}

static int wait_for_one(pid_t child, int *ret_status)
{
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

static void report_one(const struct criterion_test *test, bool started, int status)
{
	bool passed = started && ended_as_wanted(test, status);

	if (started && WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) {
		printf("ok - %s::%s # SKIP the test says so\n", test->category, test->name);
		return;
	}
	printf("%s - %s::%s\n", passed ? "ok" : "not ok", test->category, test->name);
	if (!passed)
		printf("# ended with wait status 0x%x\n", (unsigned int)status);
}

/* Return the test that this process has to run, or NULL after it has reported all of them. */
static const struct criterion_test *run_all(const char *program)
{
	printf("TAP version 13\n1..%zu\n", test_count);
	for (size_t i = 0; i < test_count; i++) {
		const struct criterion_test *test = tests[i];
		int status = 0;
		pid_t child;
		bool started;

		if (test->data->kind_ != CR_TEST_NORMAL) {
			printf("not ok - %s::%s # parameterized tests are not known here\n",
			       test->category, test->name);
			continue;
		}
		if (test->data->disabled) {
			printf("ok - %s::%s # SKIP disabled\n", test->category, test->name);
			continue;
		}
		fflush(stdout);
		started = !start_one(program, i, &child);
		if (started && child == 0)
			return test;
		started = started && !wait_for_one(child, &status);
		report_one(test, started, status);
	}
	fflush(stdout);
	return NULL;
}

/* The linker's symbols of these sections are hidden from a library, so the file is read. */
static void *find_section(const char *image, uintptr_t base, const char *name, size_t *ret_count)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
	const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(image + header->e_shoff);
	const char *names = image + sections[header->e_shstrndx].sh_offset;

	for (size_t i = 0; i < header->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, name))
			continue;
		*ret_count = sections[i].sh_size / sizeof(void *);
		return (void *)(base + sections[i].sh_addr);
	}
	return NULL;
}

/* The program is the first object. */
static int store_base(struct dl_phdr_info *info, size_t size, void *ret_base)
{
	(void)size;
	*(uintptr_t *)ret_base = info->dlpi_addr;
	return 1;
}

static int find_tests(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uintptr_t base = 0;
	struct stat status;
	char *image;

	if (fd < 0 || fstat(fd, &status))
		return -errno;
	image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return -errno;
	dl_iterate_phdr(store_base, &base);
	tests = find_section(image, base, "cr_tst", &test_count);
	suites = find_section(image, base, "cr_sts", &suite_count);
	munmap(image, (size_t)status.st_size);
	return tests ? 0 : -ENOENT;
}

#ifdef RUNNER_FORKS
static const struct criterion_test *chosen;

/* The library is preloaded, so this comes before the constructors of the program. */
__attribute__((constructor)) static void fork_for_each_test(int argc, char **argv)
{
	(void)argc;
	if (find_tests())
		return;	/* another program, which a test executes */
	chosen = run_all(argv[0]);
	if (!chosen)
		_exit(0);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return run_one(chosen);
}
#else
int main(int argc, char **argv)
{
	if (find_tests())
		return 1;
	if (argc == 3 && !strcmp(argv[1], "--one"))
		return run_one(tests[strtoul(argv[2], NULL, 10)]);
	run_all(argv[0]);
	return 0;
}
#endif
