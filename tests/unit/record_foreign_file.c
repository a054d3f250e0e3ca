/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/foreign_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/ringpipe-record/bounded_call.h"
#include "tools/ringpipe-record/scheduling.h"

#define LIMIT_NS 1000000u
#define WAIT_NS 100000000000u	/* for calls that must not be too late on a loaded machine */

static char path[] = "/tmp/rp-foreign-XXXXXX";

static void create_file(void)
{
	const int fd = mkstemp(path);

	cr_assert(fd >= 0);
	close(fd);
}

static void remove_file(void)
{
	unlink(path);
}

TestSuite(record_foreign_file, .init = create_file, .fini = remove_file);

/* Open the file with a size. Return: whether that succeeds. */
static bool opens(off_t bytes)
{
	struct stat file;
	int fd;

	cr_assert(truncate(path, bytes) == 0);
	fd = rp_foreign_file_open(path, 0, getpid(), 0, &file);
	if (fd < 0)
		return false;
	cr_expect(lseek(fd, 0, SEEK_CUR) == 0, "a reader begins with the first byte");
	cr_expect(file.st_size == bytes && lseek(fd, 0, SEEK_END) == bytes);
	close(fd);
	return true;
}

Test(record_foreign_file, copies_are_refused_beyond_their_bound_and_refused_ones_do_not_count)
{
	rp_foreign_file_limits = (struct rp_foreign_file_limits){
		.wait_ns = WAIT_NS,
		.copy_bytes = 6000, .copies_bytes = 10000, .copies_all = true,
	};
	cr_expect(!opens(6001));
	cr_expect(opens(6000));
	for (int i = 0; i < 10; i++)
		cr_expect(!opens(5000));
	cr_expect(opens(4000));
	cr_expect(!opens(1));
	rp_foreign_file_limits.copies_all = false;
	cr_expect(opens(20000));
}

Test(record_foreign_file, copies_of_debug_files_which_are_closed_directly_do_not_add_up)
{
	rp_foreign_file_limits = (struct rp_foreign_file_limits){
		.wait_ns = WAIT_NS,
		.copy_bytes = 6000, .copies_bytes = 10000, .copies_all = true,
	};
	cr_assert(truncate(path, 6000) == 0);
	for (int i = 0; i < 3; i++) {
		const int fd = rp_foreign_file_open_debug(path, 0);

		cr_expect(fd >= 0 && lseek(fd, 0, SEEK_END) == 6000);
		close(fd);
	}
	cr_expect(*rp_bounded_number() == 0);
}

Test(record_foreign_file, a_file_that_is_missing_or_not_regular_is_not_opened)
{
	struct stat file;

	cr_expect(rp_foreign_file_open("/tmp", 0, getpid(), 0, &file) == -1);
	cr_expect(rp_foreign_file_open("/nowhere", 0, getpid(), 0, &file) == -1);
}

Test(record_foreign_file, a_pipe_without_a_writer_is_refused_and_delays_nothing)
{
	struct stat file;

	rp_foreign_file_limits.wait_ns = WAIT_NS;
	unlink(path);
	cr_assert(mkfifo(path, 0600) == 0);
	cr_expect(rp_foreign_file_open(path, 0, getpid(), 0, &file) == -1);
	unlink(path);
	close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	cr_expect(opens(1));
}

Test(record_foreign_file, a_path_longer_than_the_kernel_takes_is_refused)
{
	char long_path[2 * PATH_MAX];
	struct stat file;

	memset(long_path, '/', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	cr_expect(rp_foreign_file_open(long_path, 0, getpid(), 0, &file) == -1);
	cr_expect(opens(1));
}

struct wait_request {
	uint64_t waits;			/* no padding, which would be sent */
	uint32_t *is_over;
};

/* A function that no signal of its caller ends. */
static int wait_long(const void *data, void *reply)
{
	const struct wait_request *request = data;

	while (request->waits && !__atomic_load_n(request->is_over, __ATOMIC_ACQUIRE))
		(void)poll(NULL, 0, 1);
	*(uint32_t *)reply = 7;
	return open("/dev/null", O_RDONLY);
}

static void count_discarded(const void *reply)
{
	__atomic_add_fetch(rp_bounded_number(), *(const uint32_t *)reply, __ATOMIC_RELAXED);
}

static bool call_within(uint64_t limit_ns, uint64_t source, bool waits, uint32_t *is_over)
{
	const struct wait_request request = { .waits = waits, .is_over = is_over };
	uint32_t reply = 0;
	const struct rp_bounded_call bounded = {
		.source = source, .limit_ns = limit_ns,
		.run = wait_long, .discard = count_discarded, .request = &request,
		.request_bytes = sizeof(request), .reply = &reply, .reply_bytes = sizeof(reply),
	};
	int fd = -1;

	if (!rp_bounded_call(&bounded, &fd))
		return false;
	cr_expect(reply == 7 && fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close(fd);
	return true;
}

static bool call(uint64_t source, bool waits, uint32_t *is_over)
{
	return call_within(waits ? LIMIT_NS : WAIT_NS, source, waits, is_over);
}

/* Return: the lowest number that no descriptor of this program has. */
static int next_descriptor(void)
{
	const int fd = dup(STDERR_FILENO);

	cr_assert(fd >= 0);
	close(fd);
	return fd;
}

/* Memory that this program and its workers share. */
static uint32_t *create_shared(void)
{
	uint32_t *word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert(word != MAP_FAILED);
	return word;
}

Test(record_foreign_file, the_copies_of_all_workers_have_one_bound)
{
	uint32_t *is_over = create_shared();

	rp_foreign_file_limits = (struct rp_foreign_file_limits){
		.wait_ns = WAIT_NS,
		.copy_bytes = 6000, .copies_bytes = 10000, .copies_all = true,
	};
	cr_expect(opens(6000));
	/* The worker of the first copy waits, so another one makes the next copies. */
	cr_expect(!call(1, true, is_over));
	cr_expect(!opens(5000));
	cr_expect(opens(3000));
	cr_expect(*rp_bounded_number() == 9000);
	__atomic_store_n(is_over, 1u, __ATOMIC_RELEASE);
}

Test(record_foreign_file, a_call_that_waits_refuses_its_source_alone_until_it_is_over)
{
	uint32_t *is_over = create_shared();
	int next;

	cr_assert(call(1, false, is_over));
	cr_expect(!call(1, true, is_over));
	cr_expect(!call(1, false, is_over));
	cr_expect(call(2, false, is_over));
	next = next_descriptor();
	__atomic_store_n(is_over, 1u, __ATOMIC_RELEASE);
	while (!call(1, false, is_over))
		(void)poll(NULL, 0, 1);
	cr_expect(*rp_bounded_number() == 7);
	/* The late reply had a descriptor. */
	cr_expect(next_descriptor() == next);
	/* The number of workers that wait is bounded, and they end with this program. */
	*is_over = 0;
	for (uint64_t source = 1; source < 100; source++)
		cr_expect(!call(source, true, is_over));
	cr_expect(!call(1000, false, is_over));
}

struct processes {
	pid_t worker, spawner;
};

static int find_processes(const void *data, void *reply)
{
	(void)data;
	*(struct processes *)reply = (struct processes){ getpid(), getppid() };
	return -1;
}

static struct processes get_processes(void)
{
	struct processes reply;
	const struct rp_bounded_call bounded = {
		.source = 1, .limit_ns = WAIT_NS, .run = find_processes,
		.request = "", .request_bytes = 1, .reply = &reply, .reply_bytes = sizeof(reply),
	};
	int fd;

	cr_assert(rp_bounded_call(&bounded, &fd));
	return reply;
}

Test(record_foreign_file, signals_of_a_terminal_end_neither_the_workers_nor_their_spawner)
{
	static const int signals[] = { SIGINT, SIGQUIT, SIGHUP, SIGTERM };
	uint32_t *is_over = create_shared();	/* before the spawner, which inherits it */
	const struct processes processes = get_processes();

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		cr_assert(kill(processes.worker, signals[i]) == 0);
		cr_assert(kill(processes.spawner, signals[i]) == 0);
	}
	/* The worker takes the first call, and the spawner forks another one for the second. */
	cr_expect(!call(1, true, is_over));
	cr_expect(call(2, false, is_over));
	cr_expect(!rp_bounded_is_missing());
	__atomic_store_n(is_over, 1u, __ATOMIC_RELEASE);
}

struct surroundings {
	char folder[8];
	int has_file, policy, nice;
};

static int find_surroundings(const void *data, void *reply)
{
	struct surroundings *found = reply;

	found->has_file = fcntl(*(const int *)data, F_GETFD) != -1;
	found->policy = sched_getscheduler(0);
	found->nice = getpriority(PRIO_PROCESS, 0);
	if (!getcwd(found->folder, sizeof(found->folder)))
		found->folder[0] = '\0';
	return -1;
}

Test(record_foreign_file, a_worker_has_the_priority_of_the_recorder_but_not_its_files_and_folder)
{
	const int fd = dup(STDERR_FILENO);
	struct surroundings reply;
	const struct rp_bounded_call bounded = {
		.source = 1, .limit_ns = WAIT_NS, .run = find_surroundings,
		.request = &fd, .request_bytes = sizeof(fd), .reply = &reply,
		.reply_bytes = sizeof(reply),
	};
	int none;

	cr_assert(fd > STDERR_FILENO && chdir("/tmp") == 0);
	cr_assert(rp_bounded_call(&bounded, &none));
	cr_expect(reply.has_file == 0);
	cr_expect_str_eq(reply.folder, "/");
	rp_scheduling_raise();
	cr_expect(reply.policy == sched_getscheduler(0));
	cr_expect(reply.nice == getpriority(PRIO_PROCESS, 0));
	close(fd);
}

Test(record_foreign_file, a_stopped_worker_delays_one_call_until_it_runs_again)
{
	const uint64_t limit_ns = rp_bounded_begin_limit_ns;
	const struct processes processes = get_processes();

	cr_expect(!rp_bounded_is_missing());
	kill(processes.worker, SIGSTOP);
	rp_bounded_begin_limit_ns = LIMIT_NS;
	cr_expect(!call(1, false, NULL));
	cr_expect(rp_bounded_is_missing());
	/* The next calls fail immediately; otherwise they would succeed within this limit. */
	rp_bounded_begin_limit_ns = limit_ns;
	cr_expect(!call(2, false, NULL));
	kill(processes.worker, SIGCONT);
	while (!call(2, false, NULL))
		(void)poll(NULL, 0, 1);
	cr_expect(*rp_bounded_number() == 7);
}

/* Stop the worker that serves the next call, so that its reply comes too late. */
static pid_t stop_next_worker(void)
{
	const pid_t worker = get_processes().worker;

	kill(worker, SIGSTOP);
	rp_bounded_begin_limit_ns = LIMIT_NS;
	return worker;
}

static void continue_worker(pid_t worker)
{
	rp_bounded_begin_limit_ns = WAIT_NS;
	kill(worker, SIGCONT);
}

Test(record_foreign_file, late_replies_without_a_copy_do_not_change_the_sum_of_copies)
{
	struct stat file;
	pid_t worker;

	rp_foreign_file_limits = (struct rp_foreign_file_limits){
		.wait_ns = WAIT_NS,
		.copy_bytes = 6000, .copies_bytes = 10000, .copies_all = true,
	};
	cr_expect(opens(6000));
	worker = stop_next_worker();
	cr_expect(rp_foreign_file_open("/nowhere", 0, getpid(), 0, &file) == -1);
	continue_worker(worker);
	while (!opens(1))
		(void)poll(NULL, 0, 1);
	cr_expect(*rp_bounded_number() == 6001);
	worker = stop_next_worker();
	cr_expect(!opens(5000));
	continue_worker(worker);
	while (!opens(1))
		(void)poll(NULL, 0, 1);
	cr_expect(*rp_bounded_number() == 6002);
}

Test(record_foreign_file, a_file_that_waits_refuses_those_of_its_device_in_all_processes)
{
	uint32_t *is_over = create_shared();
	struct stat file;
	pid_t worker;

	rp_foreign_file_limits.wait_ns = WAIT_NS;
	/* Two workers are idle. */
	cr_expect(!call(1, true, is_over));
	cr_expect(call(2, false, is_over));
	__atomic_store_n(is_over, 1u, __ATOMIC_RELEASE);
	while (!call(1, false, is_over))
		(void)poll(NULL, 0, 1);
	worker = stop_next_worker();
	cr_expect(rp_foreign_file_open(path, 0, 10, 5, &file) == -1);
	rp_bounded_begin_limit_ns = WAIT_NS;
	cr_expect(rp_foreign_file_open(path, 0, 11, 5, &file) == -1);
	cr_expect(rp_foreign_file_open(path, 0, 10, 6, &file) >= 0);
	cr_expect(rp_foreign_file_open(path, 0, 10, 0, &file) >= 0);
	cr_expect(rp_foreign_file_open(path, 0, 5, 0, &file) >= 0);
	continue_worker(worker);
}

static uint32_t *over_after_signals;

static void count_signal(int signal)
{
	static int count;

	(void)signal;
	if (++count == 3)
		__atomic_store_n(over_after_signals, 1u, __ATOMIC_RELEASE);
}

Test(record_foreign_file, signals_of_the_caller_do_not_end_its_call)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	const struct sigaction action = { .sa_handler = count_signal };

	over_after_signals = create_shared();
	rp_bounded_start();
	cr_assert(sigaction(SIGALRM, &action, NULL) == 0);
	cr_assert(setitimer(ITIMER_REAL, &often, NULL) == 0);
	cr_expect(call_within(WAIT_NS, 1, true, over_after_signals));
	cr_assert(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
}

Test(record_foreign_file, a_worker_that_was_killed_is_reported)
{
	kill(get_processes().worker, SIGKILL);
	while (call(1, false, NULL))
		(void)poll(NULL, 0, 1);
	cr_expect(rp_bounded_is_missing());
	cr_expect(call(1, false, NULL));
}

static int end_worker(const void *data, void *reply)
{
	(void)data;
	(void)reply;
	return kill(getpid(), SIGKILL);
}

/* As the workers of a killed spawner do, which may serve a call at that moment. */
Test(record_foreign_file, a_worker_that_is_killed_in_a_call_is_reported)
{
	uint32_t reply;
	const struct rp_bounded_call bounded = {
		.source = 1, .limit_ns = WAIT_NS, .run = end_worker,
		.request = "", .request_bytes = 1, .reply = &reply, .reply_bytes = sizeof(reply),
	};
	int fd;

	cr_expect(!rp_bounded_call(&bounded, &fd));
	cr_expect(rp_bounded_is_missing());
	cr_expect(call(1, false, NULL));
}

Test(record_foreign_file, a_spawner_that_was_killed_is_reported)
{
	kill(get_processes().spawner, SIGKILL);
	while (call(1, false, NULL))
		(void)poll(NULL, 0, 1);
	cr_expect(rp_bounded_is_missing());
	cr_expect(!call(1, false, NULL));
}
