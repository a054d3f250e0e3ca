/* SPDX-License-Identifier: MIT */
/*
 * usage: waiting PLUGIN LIBRARY
 *
 * Processes end in every possible way, and libraries and threads start and end, while writers wait
 * for space that no reader frees. Nothing may hang, and only events that such an end interrupts may
 * be lost. The timeout of a wait is an hour, so the test detects a wait that should have ended.
 */
#include "check.h"
#include "waiting.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HOUR_MS 3600000u
#define LAST_EVENTS 1000u

RP_PROVIDER(waiting, "Test-Waiting");
RP_EVENT(waiting, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

/* Results of the ending process, shared with the process that checks them. */
static struct {
	uint64_t taken[STREAMS];	/* writes that returned 0 */
	uint64_t before[STREAMS];	/* taken[] when all writers waited */
	uint64_t refused;		/* all other writes */
} *shared;

static const char *plugin_path, *library_path;
static int output_fd, word_fd;		/* the session's output; reports that all writers wait */
static struct rp_session *session;
static pthread_t threads[WRITERS];
static pid_t tids[WRITERS], last_tid;
static pthread_key_t key;
static bool writes_at_end;

static uint64_t look(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

static void write_marks(uint64_t stream, uint64_t count)
{
	static const uint8_t filling[FILLING_BYTES];
	uint64_t *taken = &shared->taken[stream];

	while (count--) {
		int ret = waiting_mark(stream, look(taken), filling, sizeof(filling));

		__atomic_fetch_add(ret == 0 ? taken : &shared->refused, 1, __ATOMIC_RELEASE);
		pthread_testcancel();
	}
}

static void *run_writer(void *data)
{
	uint64_t stream = (uint64_t)(uintptr_t)data;

	/* The key's destructor needs the value. */
	check(pthread_setspecific(key, (void *)(uintptr_t)(stream + 1)) == 0);
	__atomic_store_n(&tids[stream], gettid(), __ATOMIC_RELEASE);
	write_marks(stream, WRITER_EVENTS);
	return NULL;
}

static void write_after_its_end(void *data)
{
	if (writes_at_end)
		write_marks((uint64_t)(uintptr_t)data - 1, LAST_EVENTS);
}

/* Return: whether /proc shows the thread in futex(2). Writers sleep on no other futex. */
static bool waits(const pid_t *tid)
{
	pid_t known = __atomic_load_n(tid, __ATOMIC_ACQUIRE);
	long number = -1;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)known);
	file = known ? fopen(path, "r") : NULL;
	if (!file)
		return false;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_futex;
}

/* Return: whether all writers wait and the output is full. */
static bool all_wait(void)
{
	struct pollfd output = { .fd = output_fd, .events = POLLOUT };

	if (poll(&output, 1, 0) != 0)
		return false;
	for (size_t i = 0; i < WRITERS; i++) {
		if (!waits(&tids[i]))
			return false;
	}
	return true;
}

static void begin(uint32_t flags)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Waiting", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_fd = output_fd, .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.block_ms = HOUR_MS, .flags = flags,
	};

	check(rp_session_start(&options, &session) == 0);
	for (uintptr_t i = 0; i < WRITERS; i++)
		check(pthread_create(&threads[i], NULL, run_writer, (void *)i) == 0);
	wait_until(all_wait());
}

/* The other process begins to read when it receives this message. */
static void report_that_all_wait(void)
{
	for (size_t i = 0; i < STREAMS; i++)
		shared->before[i] = look(&shared->taken[i]);
	check(write(word_fd, "w", 1) == 1);
}

static void join_writers(void *expected)
{
	for (size_t i = 0; i < WRITERS; i++) {
		void *result;

		check(pthread_join(threads[i], &result) == 0);
		check(result == expected);
	}
}

static int by_exit(void)
{
	begin(0);
	report_that_all_wait();
	exit(0);
}

static int by_return_from_main(void)
{
	begin(0);
	report_that_all_wait();
	return 0;
}

static void *exit_after_writers(void *data)
{
	(void)data;
	join_writers(NULL);
	exit(0);
}

#if defined(__SANITIZE_THREAD__)
/* exit() does not join a writer whose wait has just ended. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_thread_leaks=0";
}
#endif

#if defined(__SANITIZE_ADDRESS__)
/* LeakSanitizer calls this. It cannot stop threads that are just ending, and then reports leaks. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

/* The writers continue after the main thread; the library's threads would run for ever. */
static int by_pthread_exit_of_main(void)
{
	pthread_t last;

	begin(0);
	check(pthread_create(&last, NULL, exit_after_writers, NULL) == 0);
	report_that_all_wait();
	pthread_exit(NULL);
}

static int by_immediate_exit(void)
{
	begin(0);
	report_that_all_wait();
	_exit(0);
}

static int by_kill(void)
{
	begin(0);
	report_that_all_wait();
	raise(SIGKILL);
	return 1;
}

static int by_exec(void)
{
	begin(0);
	report_that_all_wait();
	execl("/bin/true", "true", (char *)NULL);
	return 1;
}

static int after_cancellation(void)
{
	begin(0);
	for (size_t i = 0; i < WRITERS; i++)
		check(pthread_cancel(threads[i]) == 0);
	report_that_all_wait();
	join_writers(PTHREAD_CANCELED);
	return 0;
}

static int after_the_peer(void)
{
	begin(0);
	report_that_all_wait();
	join_writers(NULL);
	check(rp_session_stop(session, NULL) == -EPIPE);
	return 0;
}

static int after_stop(void)
{
	begin(0);
	report_that_all_wait();
	check(rp_session_stop(session, NULL) == 0);
	join_writers(NULL);
	return 0;
}

static int after_a_child(void)
{
	int status;
	pid_t child;

	begin(0);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		/* This process must not wait for anything, not even at its end. */
		close(word_fd);
		write_marks(MAIN_STREAM, LAST_EVENTS);
		shared->taken[MAIN_STREAM] = 0;
		exit(0);
	}
	check(waitpid(child, &status, 0) == child);
	check(status == 0);
	wait_until(all_wait());
	report_that_all_wait();
	join_writers(NULL);
	return 0;
}

static void write_at_exit(void)
{
	if (session)
		write_marks(MAIN_STREAM, LAST_EVENTS);
}

/* This destructor runs before those of the libraries that the program needs. */
__attribute__((destructor)) static void on_exit_of_program(void)
{
	if (session && writes_at_end)
		write_marks(MAIN_STREAM, LAST_EVENTS);
}

static int with_destructors_that_write(void)
{
	writes_at_end = true;
	begin(0);
	check(atexit(write_at_exit) == 0);
	report_that_all_wait();
	join_writers(NULL);
	return 0;
}

static int with_libraries_that_go(void)
{
	void *handle, *own;

	begin(0);
	own = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	check(own && handle);
	check(dlclose(handle) == 0);
	check(dlclose(own) == 0);
	wait_until(all_wait());
	report_that_all_wait();
	join_writers(NULL);
	return 0;
}

static void *load_and_unload(void *data)
{
	void *handle;

	(void)data;
	__atomic_store_n(&last_tid, gettid(), __ATOMIC_RELEASE);
	handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	check(handle);
	check(dlclose(handle) == 0);
	return NULL;
}

/* Loading holds a lock that the drain thread must not need to free space, even with stacks. */
static int with_a_constructor_that_waits(void)
{
	pthread_t loader;

	begin(RP_SESSION_STACKS);
	check(pthread_create(&loader, NULL, load_and_unload, NULL) == 0);
	wait_until(waits(&last_tid) && all_wait());
	report_that_all_wait();
	check(pthread_join(loader, NULL) == 0);
	join_writers(NULL);
	return 0;
}

enum fate {
	STOPPED,		/* the trace is complete, but lacks the writers' last events */
	COMPLETE,		/* the trace has all events */
	CUT,			/* the trace lacks its end */
	UNREAD,			/* no reader received the trace */
};

static const struct {
	const char *name;
	int (*run)(void);
	enum fate fate;
	int status;
} ends[] = {
	{ "exit", by_exit, STOPPED, 0 },
	{ "return from main", by_return_from_main, STOPPED, 0 },
	{ "pthread_exit of main", by_pthread_exit_of_main, COMPLETE, 0 },
	{ "_exit", by_immediate_exit, CUT, 0 },
	{ "SIGKILL", by_kill, CUT, SIGKILL },
	{ "exec", by_exec, CUT, 0 },
	{ "cancellation", after_cancellation, COMPLETE, 0 },
	{ "peer gone", after_the_peer, UNREAD, 0 },
	{ "session stop", after_stop, STOPPED, 0 },
	{ "fork", after_a_child, COMPLETE, 0 },
	{ "destructors", with_destructors_that_write, COMPLETE, 0 },
	{ "dlclose", with_libraries_that_go, COMPLETE, 0 },
	{ "constructor", with_a_constructor_that_waits, COMPLETE, 0 },
};

/* Read the trace. Each stream starts at 0 and has no gap. */
static void read_trace(int from, int expected, uint64_t ret_counts[STREAMS])
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int ret;

	check(rp_reader_open_fd(from, &reader) == 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		uint64_t ids[2];

		if (strcmp(event.type->provider, "Test-Waiting") != 0)
			continue;
		check(event.payload_bytes >= sizeof(ids));
		memcpy(ids, event.payload, sizeof(ids));
		check(ids[0] < STREAMS);
		check(ids[1] == ret_counts[ids[0]]);
		ret_counts[ids[0]]++;
	}
	check(ret == expected);
	rp_reader_get_stats(reader, &stats);
	check(stats.lost == 0);
	rp_reader_close(reader);
}

/* A process may end between a write and the count of that write. */
static void compare(enum fate fate, const uint64_t counts[STREAMS])
{
	for (size_t i = 0; i < PLUGIN_STREAM; i++) {
		uint64_t taken = look(&shared->taken[i]);

		if (fate == COMPLETE)
			check(counts[i] == taken);
		if (fate == STOPPED)
			check(counts[i] >= shared->before[i] && counts[i] <= taken + 1);
		if (fate == CUT)
			check(counts[i] <= taken + 1);
	}
	check(look(&shared->refused) == 0);
}

static void follow(size_t index, pid_t child, int from, int word)
{
	enum fate fate = ends[index].fate;
	uint64_t counts[STREAMS] = { 0 };
	char letter;
	int status;

	check(read(word, &letter, 1) == 1);
	if (fate != UNREAD)
		read_trace(from, fate == CUT ? -ENODATA : 0, counts);
	close(from);
	close(word);
	check(waitpid(child, &status, 0) == child);
	check(status == ends[index].status);
	if (fate != UNREAD)
		compare(fate, counts);
	if (ends[index].run == with_a_constructor_that_waits)
		check(counts[PLUGIN_STREAM] == 2 * PLUGIN_EVENTS);
	if (ends[index].run == with_destructors_that_write)
		check(counts[MAIN_STREAM] == 2 * LAST_EVENTS &&
		      counts[0] == WRITER_EVENTS + LAST_EVENTS);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	plugin_path = argv[1];
	library_path = argv[2];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	check(shared != MAP_FAILED);
	check(pthread_key_create(&key, write_after_its_end) == 0);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		int trace[2], word[2];
		pid_t child;

		printf("%s\n", ends[i].name);
		fflush(stdout);
		memset(shared, 0, sizeof(*shared));
		check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, trace) == 0);
		check(pipe2(word, O_CLOEXEC) == 0);
		child = fork();
		check(child >= 0);
		close(trace[child != 0]);
		close(word[child != 0]);
		if (child == 0) {
			alarm(2 * PATIENCE_S);
			output_fd = trace[1];
			word_fd = word[1];
			return ends[i].run();
		}
		follow(i, child, trace[0], word[0]);
	}
	return 0;
}
