/* SPDX-License-Identifier: MIT */
/*
 * Serves requests, one after another, and makes each slow in one known way. It prints a line for
 * each: its activity id, the cause, and the time of the request and of the cause by its own clock.
 *
 *	slow_host DIRECTORY REQUESTS SEED [FILE]
 *
 * Causes:
 *	lock		another thread holds a mutex
 *	disk		reads that bypass the page cache
 *	processor	a thread of higher priority uses this thread's processor
 *	page		a mapped file whose pages were dropped
 *	network		another process answers late, without events of its own
 *	callee		another process answers late; its span has the request's trace id
 *	sleep		the request sleeps
 *	program		the request computes
 *	fuse		reads of FILE, whose file system is slow; only with FILE
 *
 * Only the spans are events, so an explanation cannot use anything else that the program says.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(slow, "Test-Slow");
RP_SPAN(slow, request, RP_U32(number));
RP_SPAN(slow, answer, RP_U32(number));

#define PAGE 4096
#define BLOCK_BYTES ((ssize_t)(BLOCK_PAGES * PAGE))
#define BASE_NS 50000u			/* what each request computes, before and after */
#define FILE_PAGES 8192u
#define BLOCK_PAGES 256u		/* of a read that bypasses the page cache */
#define DIRECT_READS 4u
#define DROPPED_PAGES 24u
/* Above the other programs of the machine, which would add causes of their own. */
#define PRIORITY 5

enum cause { LOCK, DISK, PROCESSOR, PAGE_FAULT, NETWORK, CALLEE, SLEEP, PROGRAM, FUSE, CAUSES };

static const char *const names[CAUSES] = {
	"lock", "disk", "processor", "page", "network", "callee", "sleep", "program",
	"fuse",
};

static struct {
	pthread_mutex_t mutex;
	sem_t wanted, held;		/* of the thread that holds the mutex */
	sem_t compete;			/* of the thread that uses the processor */
	volatile uint64_t hold_ns, compete_ns;
	int files[2];			/* O_DIRECT, and for mappings */
	int fuse;			/* or -1 */
	volatile uint8_t *mapped;
	void *block;
	int dependency;
} host = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* A request to the other process. */
struct question {
	uint64_t delay_ns;
	uint32_t number;
	uint32_t has_context;
	char traceparent[RP_TRACEPARENT_SIZE];
};

static void check(bool condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	_exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void burn(uint64_t ns)
{
	const uint64_t end = now_ns() + ns;
	volatile unsigned int sum = 0;

	while (now_ns() < end)
		sum += 1;
}

static void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) }, NULL);
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
}

static void pin(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void set_priority(int priority)
{
	check(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ priority }) == 0,
	      "sched_setscheduler");
}

static void *hold_lock(void *data)
{
	for (;;) {
		wait_for(&host.wanted);
		pthread_mutex_lock(&host.mutex);
		sem_post(&host.held);
		sleep_ns(host.hold_ns);
		pthread_mutex_unlock(&host.mutex);
	}
	return data;
}

static void *compete(void *data)
{
	pin(0);
	set_priority(PRIORITY + 5);
	for (;;) {
		wait_for(&host.compete);
		burn(host.compete_ns);
	}
	return data;
}

/* The other process: answers each question after its delay. */
static void answer_questions(int fd)
{
	static const struct rp_activity none;
	struct question question;

	while (!slow_answer_start_enabled())
		sleep_ns(1000000);
	while (read(fd, &question, sizeof(question)) == sizeof(question)) {
		struct rp_activity context;
		struct rp_span span;
		uint8_t flags;

		if (question.has_context) {
			check(rp_traceparent_parse(question.traceparent,
						   strlen(question.traceparent), &context,
						   &flags) == 0, "traceparent");
			rp_activity_set(&context);
			slow_answer_begin(&span, question.number);
		}
		sleep_ns(question.delay_ns);
		if (question.has_context) {
			slow_answer_end(&span);
			rp_activity_set(&none);
		}
		check(write(fd, &question, 1) == 1, "write");
	}
	exit(0);
}

static void start_dependency(void)
{
	int ends[2];

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
	if (fork() == 0) {
		close(ends[0]);
		answer_questions(ends[1]);
	}
	close(ends[1]);
	host.dependency = ends[0];
}

static void ask(uint32_t number, uint64_t delay_ns, const struct rp_activity *context)
{
	struct question question = {
		.delay_ns = delay_ns, .number = number, .has_context = context != NULL,
	};
	char reply;

	if (context)
		rp_traceparent_print(context, 0, question.traceparent);
	check(write(host.dependency, &question, sizeof(question)) == sizeof(question), "write");
	check(read(host.dependency, &reply, 1) == 1, "read");
}

static void open_file(const char *directory)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/slow_host.data", directory);
	host.files[0] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(host.files[0] >= 0, path);
	check(posix_memalign(&host.block, PAGE, (size_t)BLOCK_BYTES) == 0, "posix_memalign");
	memset(host.block, 7, (size_t)BLOCK_BYTES);
	for (unsigned int i = 0; i < FILE_PAGES; i += BLOCK_PAGES)
		check(write(host.files[0], host.block, (size_t)BLOCK_BYTES) == BLOCK_BYTES,
		      "write");
	check(fsync(host.files[0]) == 0, "fsync");
	close(host.files[0]);
	host.files[0] = open(path, O_RDONLY | O_DIRECT);
	host.files[1] = open(path, O_RDONLY);
	check(host.files[0] >= 0 && host.files[1] >= 0, path);
	host.mapped = mmap(NULL, (size_t)FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, host.files[1],
			   0);
	check(host.mapped != MAP_FAILED, "mmap");
}

/* Pages far apart, so that no read fetches several. */
static size_t page_of(uint32_t number, unsigned int index)
{
	return (number + index) * BLOCK_PAGES % FILE_PAGES;
}

static void read_disk(uint32_t number)
{
	for (unsigned int i = 0; i < DIRECT_READS; i++)
		check(pread(host.files[0], host.block, (size_t)BLOCK_BYTES,
			    (off_t)(page_of(number, i) * PAGE)) == BLOCK_BYTES, "pread");
}

static unsigned int touch_pages(uint32_t number)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < DROPPED_PAGES; i++)
		sum += host.mapped[page_of(number, i) * PAGE];
	return sum;
}

static void prepare(enum cause cause, uint64_t ns)
{
	if (cause == PAGE_FAULT) {
		/* A page that is mapped cannot be dropped. */
		madvise((void *)host.mapped, (size_t)FILE_PAGES * PAGE, MADV_DONTNEED);
		check(posix_fadvise(host.files[1], 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
	} else if (cause == LOCK) {
		host.hold_ns = ns;
		sem_post(&host.wanted);
		wait_for(&host.held);
	}
}

static void be_slow(enum cause cause, uint32_t number, uint64_t ns,
		    const struct rp_activity *context)
{
	switch (cause) {
	case LOCK:
		pthread_mutex_lock(&host.mutex);
		pthread_mutex_unlock(&host.mutex);
		break;
	case DISK:
		read_disk(number);
		break;
	case PROCESSOR:
		/* Its thread has a higher priority and the same processor. */
		host.compete_ns = ns;
		sem_post(&host.compete);
		break;
	case PAGE_FAULT:
		touch_pages(number);
		break;
	case NETWORK:
	case CALLEE:
		ask(number, ns, cause == CALLEE ? context : NULL);
		break;
	case SLEEP:
		sleep_ns(ns);
		break;
	case FUSE:
		check(pread(host.fuse, host.block, PAGE, (off_t)number * PAGE) == PAGE, "pread");
		break;
	case PROGRAM:
	case CAUSES:
		burn(ns);
		break;
	}
}

static void serve(uint32_t number, enum cause cause, uint64_t ns)
{
	static const struct rp_activity none;
	struct rp_activity context;
	struct rp_span span;
	uint64_t start, slow, end, took;
	uint8_t flags;

	prepare(cause, ns);
	rp_traceparent_generate(&context, &flags);
	rp_activity_set(&context);
	start = now_ns();
	slow_request_begin(&span, number);
	burn(BASE_NS);
	slow = now_ns();
	be_slow(cause, number, ns, &context);
	took = now_ns() - slow;
	burn(BASE_NS);
	slow_request_end(&span);
	end = now_ns();
	rp_activity_set(&none);
	printf("%u %s %llu %llu\n", number, names[cause], (unsigned long long)(end - start),
	       (unsigned long long)took);
}

int main(int argc, char **argv)
{
	pthread_t holder, competitor;
	unsigned int requests, seed;

	check(argc == 4 || argc == 5, "usage: slow_host DIRECTORY REQUESTS SEED [FILE]");
	requests = (unsigned int)atoi(argv[2]);
	seed = (unsigned int)atoi(argv[3]);
	open_file(argv[1]);
	host.fuse = argc == 5 ? open(argv[4], O_RDONLY) : -1;
	check(argc == 4 || host.fuse >= 0, "FILE");
	set_priority(PRIORITY);
	start_dependency();
	sem_init(&host.wanted, 0, 0);
	sem_init(&host.held, 0, 0);
	sem_init(&host.compete, 0, 0);
	check(pthread_create(&holder, NULL, hold_lock, NULL) == 0, "pthread_create");
	check(pthread_create(&competitor, NULL, compete, NULL) == 0, "pthread_create");
	pin(0);
	while (!slow_request_start_enabled())
		sleep_ns(1000000);
	for (unsigned int i = 0; i < requests; i++) {
		const enum cause cause = (enum cause)
			(rand_r(&seed) % (host.fuse >= 0 ? CAUSES : FUSE));

		serve(i, cause, 2000000 + (uint64_t)rand_r(&seed) % 3000000);
	}
	fflush(stdout);
	close(host.dependency);
	wait(NULL);
	return 0;
}
