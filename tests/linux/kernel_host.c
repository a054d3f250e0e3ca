/* SPDX-License-Identifier: MIT */
/*
 * Runs one command for each line of standard input, in a new thread, whose id is in the answer.
 * Each command is a request with a separate activity:
 *
 *	syscalls N	N times getppid(2), in a tight loop
 *	sleeps N	N times 2 ms asleep
 *	faults N	N fresh pages written to
 *	disk PATH N	N bytes, a multiple of 4096, written and fsync(2)
 *
 * It answers with the thread's gettid(2) when the command is done. Its first line is its pid. It
 * prints the pid again as soon as a session enables its events.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(kernel_host, "Kernel-Host");
RP_EVENT_EX(kernel_host, request_start, (RP_ID(1), RP_KEYWORDS(1), RP_OPCODE(RP_OPCODE_START)),
	    RP_STRING(work));
RP_EVENT_EX(kernel_host, request_stop, (RP_ID(2), RP_KEYWORDS(1), RP_OPCODE(RP_OPCODE_STOP)),
	    RP_STRING(work));

struct work {
	char name[16];
	char path[256];
	unsigned long count;
	long thread;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void sleep_often(unsigned long count)
{
	const struct timespec time = { .tv_nsec = 2000000 };

	while (count--)
		nanosleep(&time, NULL);
}

static void touch(unsigned long pages)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *bytes = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		fail("mmap");
	/* One fault would map a whole huge page. */
	madvise((void *)bytes, pages * page, MADV_NOHUGEPAGE);
	for (unsigned long i = 0; i < pages; i++)
		bytes[i * page] = 1;
	munmap((void *)bytes, pages * page);
}

/* Bypasses the page cache, which a kernel thread may write back instead of this thread. */
static void write_out(const char *path, unsigned long size)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	int fd = open(path, flags | O_DIRECT, 0600);
	void *bytes;

	if (fd < 0 && errno == EINVAL)
		fd = open(path, flags, 0600);
	if (posix_memalign(&bytes, 4096, size))
		fail("posix_memalign");
	memset(bytes, 1, size);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || fsync(fd))
		fail(path);
	close(fd);
	free(bytes);
}

static void *run(void *argument)
{
	struct work *work = argument;
	struct rp_activity outer;

	work->thread = syscall(SYS_gettid);
	rp_activity_begin(&outer);
	kernel_host_request_start(work->name);
	if (!strcmp(work->name, "syscalls"))
		for (unsigned long i = 0; i < work->count; i++)
			syscall(SYS_getppid);
	else if (!strcmp(work->name, "sleeps"))
		sleep_often(work->count);
	else if (!strcmp(work->name, "faults"))
		touch(work->count);
	else if (!strcmp(work->name, "disk"))
		write_out(work->path, work->count);
	kernel_host_request_stop(work->name);
	rp_activity_end(&outer);
	return NULL;
}

static void report(long number)
{
	printf("%ld\n", number);
	fflush(stdout);
}

int main(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	char line[512];

	report(getpid());
	while (!kernel_host_request_start_enabled())
		nanosleep(&nap, NULL);
	report(getpid());
	while (fgets(line, sizeof(line), stdin)) {
		struct work work = { .count = 0 };
		pthread_t thread;

		if (sscanf(line, "disk %255s %lu", work.path, &work.count) == 2)
			strcpy(work.name, "disk");
		else if (sscanf(line, "%15s %lu", work.name, &work.count) < 1)
			return 2;
		if (pthread_create(&thread, NULL, run, &work))
			fail("pthread_create");
		pthread_join(thread, NULL);
		report(work.thread);
	}
	return 0;
}
