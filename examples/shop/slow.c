/* SPDX-License-Identifier: MIT */
#include "slow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "storage.h"
#include "supplier.h"

#define PAGE ((size_t)4096)
#define FILE_PAGES ((size_t)8192)
#define READ_PAGES ((size_t)256)	/* of a read that bypasses the page cache */
/* Pages this far apart, so that no read of one fetches another. */
#define STRIDE_PAGES ((size_t)251)
#define CLERKS 3u
#define WORK_NS 50000u			/* of a request whose processor another process uses */
#define DELAY_US_MAX 10000000ul
/* Real-time priorities: of the shop, and of the process that takes its processor. */
#define PRIORITY 5
#define HOG_PRIORITY 10
#define HOG_PROCESSOR 0

static struct {
	FILE *log;
	sem_t wanted, held;		/* of the clerks */
	_Atomic uint64_t hold_ns;	/* for which each clerk holds the lock */
	pthread_t clerks[CLERKS];
	unsigned int clerk_count;
	_Atomic bool is_ending;
	_Atomic bool is_awaited;	/* a request waits until a clerk holds the lock */
	void *block;			/* into which requests read; nothing uses the content */
	int direct, cached;		/* descriptors of the file; the first bypasses the cache */
	volatile uint8_t *mapped;
	_Atomic size_t next_page;
	int to_hog;
	pid_t hog;
} slow = { .direct = -1, .cached = -1, .to_hog = -1 };

static int set_priority(int priority)
{
	return sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ priority }) ? -errno : 0;
}

static void pin(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void compute(uint64_t ns)
{
	const uint64_t end_ns = shop_clock_ns() + ns;

	while (shop_clock_ns() < end_ns)
		;
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0 && errno == EINTR)
		;
}

static void *run_clerk(void *data)
{
	for (;;) {
		wait_for(&slow.wanted);
		if (slow.is_ending)
			return data;
		shop_storage_lock();
		if (atomic_exchange(&slow.is_awaited, false))
			sem_post(&slow.held);
		shop_sleep_ns(slow.hold_ns);
		shop_storage_unlock();
	}
}

static void queue_for_lock(void)
{
	shop_storage_lock();
	shop_storage_unlock();
}

static int read_disk(uint64_t ns)
{
	const uint64_t end_ns = shop_clock_ns() + ns;
	int ret = 0;

	while (ret == 0 && shop_clock_ns() < end_ns) {
		const size_t page = slow.next_page++ * READ_PAGES % FILE_PAGES;

		if (pread(slow.direct, slow.block, READ_PAGES * PAGE, (off_t)(page * PAGE)) < 0)
			ret = -errno;
	}
	return ret;
}

static void touch_pages(uint64_t ns)
{
	const uint64_t end_ns = shop_clock_ns() + ns;

	for (size_t i = 0; i < FILE_PAGES && shop_clock_ns() < end_ns; i++)
		(void)slow.mapped[slow.next_page++ * STRIDE_PAGES % FILE_PAGES * PAGE];
}

/* The process that takes a processor for as many nanoseconds as it reads. */
static void run_hog(int from_shop)
{
	uint64_t ns;

	while (read(from_shop, &ns, sizeof(ns)) == sizeof(ns))
		compute(ns);
	_exit(0);
}

static int start_hog(void)
{
	int ends[2], ret;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	slow.hog = fork();
	if (slow.hog < 0) {
		ret = -errno;
		close(ends[0]);
		close(ends[1]);
		return ret;
	}
	if (slow.hog == 0) {
		close(ends[1]);
		pin(HOG_PROCESSOR);
		if (set_priority(HOG_PRIORITY) < 0)
			_exit(1);
		run_hog(ends[0]);
	}
	close(ends[0]);
	slow.to_hog = ends[1];
	return 0;
}

static void lose_processor(uint64_t ns)
{
	if (write(slow.to_hog, &ns, sizeof(ns)) == sizeof(ns))
		compute(WORK_NS);
}

/*
 * Do what a cause needs; the time of the cause begins afterwards. The time in which the clerks of
 * an earlier request still pass the lock on is one of waiting for the lock, too.
 */
static void prepare(struct shop_slow *result, const char *cause, uint64_t ns,
		    cpu_set_t *ret_processors)
{
	uint64_t start_ns;

	sched_getaffinity(0, sizeof(*ret_processors), ret_processors);
	if (!strcmp(cause, "lock")) {
		slow.hold_ns = ns / CLERKS;
		slow.is_awaited = true;
		for (unsigned int i = 0; i < CLERKS; i++)
			sem_post(&slow.wanted);
		start_ns = shop_clock_ns();
		wait_for(&slow.held);
		result->waited_ns -= shop_clock_ns() - start_ns;
	} else if (!strcmp(cause, "processor")) {
		pin(HOG_PROCESSOR);
	} else if (!strcmp(cause, "page")) {
		/* The kernel drops no page that is mapped. */
		madvise((void *)slow.mapped, FILE_PAGES * PAGE, MADV_DONTNEED);
		posix_fadvise(slow.cached, 0, 0, POSIX_FADV_DONTNEED);
	}
}

static void undo(const char *cause, const cpu_set_t *processors)
{
	if (!strcmp(cause, "processor"))
		sched_setaffinity(0, sizeof(*processors), processors);
}

static void delay(const char *cause, uint64_t ns, const struct rp_activity *activity)
{
	if (!strcmp(cause, "lock"))
		queue_for_lock();
	else if (!strcmp(cause, "disk"))
		read_disk(ns);
	else if (!strcmp(cause, "processor"))
		lose_processor(ns);
	else if (!strcmp(cause, "page"))
		touch_pages(ns);
	else
		shop_supplier_ask(ns, activity);
}

/* Return: the cause that the header begins with, with the delay in nanoseconds; NULL: invalid. */
static const char *parse_header(const char *header, uint64_t *ret_ns)
{
	static const char *const causes[] = { "lock", "disk", "processor", "page", "supplier" };
	unsigned long delay_us;
	char *end;

	for (size_t i = 0; header && i < sizeof(causes) / sizeof(causes[0]); i++) {
		const size_t length = strlen(causes[i]);

		if (strncmp(header, causes[i], length) != 0 || header[length] != ' ')
			continue;
		errno = 0;
		delay_us = strtoul(header + length, &end, 10);
		if (errno || *end || delay_us > DELAY_US_MAX)
			return NULL;
		*ret_ns = delay_us * 1000;
		return causes[i];
	}
	return NULL;
}

void shop_slow_down(struct shop_slow *result, const char *header,
		    const struct rp_activity *activity)
{
	cpu_set_t processors;
	uint64_t ns, start_ns;
	const char *cause = slow.log ? parse_header(header, &ns) : NULL;

	if (!cause)
		return;
	result->waited_ns = shop_storage_waited_ns();
	prepare(result, cause, ns, &processors);
	start_ns = shop_clock_ns();
	delay(cause, ns, activity);
	result->added_ns = shop_clock_ns() - start_ns;
	result->cause = cause;
	undo(cause, &processors);
}

void shop_slow_record(const struct shop_slow *result, const struct rp_activity *activity,
		      uint64_t wall_ns)
{
	char traceparent[RP_TRACEPARENT_SIZE];
	uint64_t added_ns = result->added_ns;

	if (!result->cause)
		return;
	/* The request may have queued again when it read the database. */
	if (!strcmp(result->cause, "lock"))
		added_ns = shop_storage_waited_ns() - result->waited_ns;
	/* 00-TRACE-ID-… */
	rp_traceparent_print(activity, 0, traceparent);
	fprintf(slow.log, "%.32s %s %" PRIu64 " %" PRIu64 "\n", traceparent + 3, result->cause,
		wall_ns, added_ns);
}

/* The file's name vanishes, so that it ends with the shop. */
static int open_files(const char *log)
{
	char path[PATH_MAX];
	uint8_t *block;
	int ret;

	if ((size_t)snprintf(path, sizeof(path), "%s.data", log) >= sizeof(path))
		return -ENAMETOOLONG;
	slow.cached = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (slow.cached < 0)
		return -errno;
	slow.direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ret = slow.direct < 0 ? -errno : 0;
	unlink(path);
	/* A hole would be read without the disk. */
	block = ret ? NULL : calloc(FILE_PAGES, PAGE);
	if (ret == 0 && !block)
		ret = -ENOMEM;
	if (ret == 0)
		memset(block, 7, FILE_PAGES * PAGE);
	if (ret == 0 && (write(slow.cached, block, FILE_PAGES * PAGE) !=
			 (ssize_t)(FILE_PAGES * PAGE) || fsync(slow.cached) < 0))
		ret = errno ? -errno : -EIO;
	free(block);
	if (ret < 0)
		return ret;
	if (posix_memalign(&slow.block, PAGE, READ_PAGES * PAGE) != 0)
		return -ENOMEM;
	memset(slow.block, 7, READ_PAGES * PAGE);
	slow.mapped = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, slow.cached, 0);
	if (slow.mapped == MAP_FAILED) {
		slow.mapped = NULL;
		return -errno;
	}
	return 0;
}

static int start_clerks(void)
{
	int ret = 0;

	if (sem_init(&slow.wanted, 0, 0) < 0 || sem_init(&slow.held, 0, 0) < 0)
		return -errno;
	while (ret == 0 && slow.clerk_count < CLERKS) {
		ret = -pthread_create(&slow.clerks[slow.clerk_count], NULL, run_clerk, NULL);
		slow.clerk_count += ret == 0;
	}
	return ret;
}

int shop_slow_start(const char *log, char *error, size_t error_size)
{
	const char *what = log;
	int ret = open_files(log);

	if (ret == 0) {
		what = "a real-time priority";
		ret = set_priority(PRIORITY);
	}
	if (ret == 0) {
		what = "the processes of --slow";
		ret = start_hog();
	}
	if (ret == 0)
		ret = shop_supplier_start();
	if (ret == 0) {
		what = "the clerks";
		ret = start_clerks();
	}
	if (ret == 0) {
		what = log;
		slow.log = fopen(log, "we");
		ret = slow.log ? 0 : -errno;
	}
	if (ret == 0) {
		setvbuf(slow.log, NULL, _IOLBF, BUFSIZ);
		return 0;
	}
	snprintf(error, error_size, "%s: %s", what, strerror(-ret));
	return ret;
}

void shop_slow_stop(void)
{
	slow.is_ending = true;
	for (unsigned int i = 0; i < slow.clerk_count; i++)
		sem_post(&slow.wanted);
	while (slow.clerk_count > 0)
		pthread_join(slow.clerks[--slow.clerk_count], NULL);
	shop_supplier_stop();
	if (slow.to_hog >= 0)
		close(slow.to_hog);
	if (slow.hog > 0)
		waitpid(slow.hog, NULL, 0);
	if (slow.mapped)
		munmap((void *)slow.mapped, FILE_PAGES * PAGE);
	free(slow.block);
	if (slow.direct >= 0)
		close(slow.direct);
	if (slow.cached >= 0)
		close(slow.cached);
	if (slow.log)
		fclose(slow.log);
	slow.log = NULL;
}
