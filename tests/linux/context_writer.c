/* SPDX-License-Identifier: MIT */
/*
 * usage: context_writer [-l LIBRARY] [-c FILE] [-t MS] [-x LIE]
 *
 * A program that knows nothing of ringpipe and publishes trace ids and attributes as
 * OpenTelemetry's OTEPs 4947 and 4719 say. Each of two threads has a request. The first thread has
 * the trace id of bytes 0x11 during request_one(), and the second thread has the trace id of bytes
 * 0x22 during request_two(). Between two requests, both run without_request().
 *
 * -l: the library that has the thread's pointer. -c: the bytes of the process's message. -t: time
 * to run. -x: what to publish wrongly, see `lies`.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_NS 30000000
#define PAGE 4096u
#define OUT_OF_LINE __attribute__((noinline, noclone))

struct record {
	uint8_t trace_id[16], span_id[8];
	uint8_t is_valid, flags;
	uint16_t attribute_bytes;
};

struct header {
	char signature[8];
	uint32_t version, bytes;
	uint64_t published_ns, address;
};

static const struct {
	const char *name;
	const char *what;
} lies[] = {
	{ "pointer", "the thread's pointer leads to unmapped memory" },
	{ "cut", "the record ends outside of mapped memory" },
	{ "invalid", "the record is marked as invalid" },
	{ "address", "the message is in unmapped memory" },
	{ "bytes", "the message has 4 GB" },
	{ "version", "the header has an unknown version" },
	{ "unfinished", "the header always changes" },
	{ "restless", "the message is replaced all the time" },
	{ "header", "the mapping cannot be read" },
};

#ifdef WITHOUT_VARIABLE
static void **(*context_slot)(void);
#else
void **context_slot(void);
#endif

static const char *lie = "";
static uint64_t end_ns;
static volatile uint64_t result;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int is_lie(const char *name)
{
	return strcmp(lie, name) == 0;
}

#define SPIN() do { \
	const uint64_t spin_end = now_ns(CLOCK_MONOTONIC) + REQUEST_NS; \
	while (now_ns(CLOCK_MONOTONIC) < spin_end) { \
		for (int i = 0; i < 1000; i++) \
			result += (uint64_t)i; \
	} \
} while (0)

OUT_OF_LINE static void request_one(void)
{
	SPIN();
	usleep(5000);
	result++;
}

OUT_OF_LINE static void request_two(void)
{
	SPIN();
	result++;
}

/* It differs from request_two(), or the compiler would make one function of both. */
OUT_OF_LINE static void without_request(void)
{
	SPIN();
	result += 2;
}

/* The record is the last thing in its page, or extends beyond it. */
static struct record *make_record(uint8_t byte)
{
	uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct record *record = (struct record *)(pages + PAGE - sizeof(*record));

	memset(record->trace_id, byte, sizeof(record->trace_id));
	memset(record->span_id, byte + 1, sizeof(record->span_id));
	record->is_valid = is_lie("invalid") ? 2 : 1;
	if (is_lie("cut"))
		record = (struct record *)(pages + PAGE - 24);
	munmap(pages + PAGE, PAGE);
	return is_lie("pointer") ? (struct record *)0x10 : record;
}

static void *serve(void *number)
{
	const int is_first = number == NULL;
	struct record *record = make_record(is_first ? 0x11 : 0x22);
	void *volatile *slot = context_slot();

	while (now_ns(CLOCK_MONOTONIC) < end_ns) {
		*slot = record;
		if (is_first)
			request_one();
		else
			request_two();
		*slot = NULL;
		without_request();
	}
	return NULL;
}

static void *read_file(const char *path, size_t *ret_bytes)
{
	struct stat file;
	int fd = open(path, O_RDONLY);
	void *bytes;

	if (fd < 0 || fstat(fd, &file) < 0)
		exit(2);
	bytes = malloc((size_t)file.st_size);
	if (read(fd, bytes, (size_t)file.st_size) != file.st_size)
		exit(2);
	close(fd);
	*ret_bytes = (size_t)file.st_size;
	return bytes;
}

static void fill(volatile struct header *header, void *message, size_t bytes)
{
	header->published_ns = 0;
	memcpy((char *)header->signature, "OTEL_CTX", 8);
	header->version = is_lie("version") ? 3 : 2;
	header->bytes = is_lie("bytes") ? UINT32_MAX : (uint32_t)bytes;
	header->address = is_lie("address") ? 0x1000 : (uint64_t)(uintptr_t)message;
	if (!is_lie("unfinished"))
		header->published_ns = now_ns(CLOCK_BOOTTIME);
}

struct published {
	struct header *header;
	void *message;
	size_t bytes;
};

static void *publish_again(void *data)
{
	const struct published *published = data;

	while (now_ns(CLOCK_MONOTONIC) < end_ns)
		fill(published->header, published->message, published->bytes);
	return NULL;
}

static void publish(const char *path)
{
	static struct published published;
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	pthread_t thread;

	published.message = read_file(path, &published.bytes);
	if (fd < 0 || ftruncate(fd, PAGE) < 0)
		exit(3);
	published.header = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	fill(published.header, published.message, published.bytes);
	if (is_lie("header"))
		mprotect(published.header, PAGE, PROT_NONE);
	if (is_lie("restless"))
		pthread_create(&thread, NULL, publish_again, &published);
}

static void load(const char *path)
{
#ifdef WITHOUT_VARIABLE
	void *library = dlopen(path, RTLD_NOW);

	if (!library)
		exit(4);
	*(void **)&context_slot = dlsym(library, "context_slot");
#else
	(void)path;
#endif
}

int main(int argc, char **argv)
{
	const char *message = NULL;
	uint64_t run_ms = 1000;
	pthread_t thread;
	int option;

	while ((option = getopt(argc, argv, "l:c:t:x:")) != -1) {
		switch (option) {
		case 'l':
			load(optarg);
			break;
		case 'c':
			message = optarg;
			break;
		case 't':
			run_ms = strtoull(optarg, NULL, 10);
			break;
		case 'x':
			lie = optarg;
			break;
		default:
			return 1;
		}
	}
	for (size_t i = 0; *lie && !is_lie(lies[i].name); i++) {
		if (i + 1 == sizeof(lies) / sizeof(lies[0]))
			return 1;
	}
	end_ns = now_ns(CLOCK_MONOTONIC) + run_ms * 1000000;
	if (message)
		publish(message);
	if (pthread_create(&thread, NULL, serve, (void *)1) != 0)
		return 5;
	serve(NULL);
	return pthread_join(thread, NULL);
}
