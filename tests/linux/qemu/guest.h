/* SPDX-License-Identifier: MIT */
/*
 * For programs that run alone in a virtual machine: the kernel's files, a client of the diagnostics
 * socket, and a reader of tracepoints like perf's.
 */
#ifndef LINUX_GUEST_H
#define LINUX_GUEST_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "../../process/check.h"

#define TRACING "/sys/kernel/tracing"
#define EVENTS TRACING "/events/user_events/"

static inline void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	check(fd >= 0);
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		printf("# %s: %s: %s\n", path, text, strerror(errno));
		check(!"a write to a file of the kernel");
	}
	close(fd);
}

static inline void clear_trace(void)
{
	int fd = open(TRACING "/trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	check(fd >= 0);
	close(fd);
}

static inline void switch_tracepoint(const char *name, bool on)
{
	char path[256];

	snprintf(path, sizeof(path), EVENTS "%s/enable", name);
	put_file(path, on ? "1" : "0");
}

static inline bool has_tracepoint(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), EVENTS "%s/id", name);
	return access(path, F_OK) == 0;
}

/* A message of the diagnostics protocol that is being built. */
struct message {
	uint8_t bytes[8192];
	size_t size;
};

static inline void put(struct message *message, const void *bytes, size_t size)
{
	check(message->size + size <= sizeof(message->bytes));
	memcpy(message->bytes + message->size, bytes, size);
	message->size += size;
}

static inline void put_u8(struct message *message, uint8_t value)
{
	put(message, &value, sizeof(value));
}

static inline void put_u32(struct message *message, uint32_t value)
{
	put(message, &value, sizeof(value));
}

static inline void put_u64(struct message *message, uint64_t value)
{
	put(message, &value, sizeof(value));
}

/* ASCII only; an empty string as record-trace sends it. */
static inline void put_string(struct message *message, const char *text)
{
	size_t units = strlen(text) ? strlen(text) + 1 : 0;

	put_u32(message, (uint32_t)units);
	for (size_t i = 0; i < units; i++)
		put(message, (uint8_t[]){ (uint8_t)text[i], 0 }, 2);
}

static inline void begin_message(struct message *message, uint8_t set, uint8_t id)
{
	message->size = 0;
	put(message, "DOTNET_IPC_V1", 14);
	put(message, (uint8_t[]){ 0, 0, set, id, 0, 0 }, 6);
}

static inline int connect_to(pid_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char pattern[64];
	glob_t found = { 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0);
	snprintf(pattern, sizeof(pattern), "/tmp/dotnet-diagnostic-%d-*-socket", (int)pid);
	wait_until(glob(pattern, 0, NULL, &found) == 0);
	strncpy(address.sun_path, found.gl_pathv[0], sizeof(address.sun_path) - 1);
	globfree(&found);
	wait_until(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

/* Sends the message, and then the descriptor `passed` unless that is -1. Return: the connection. */
static inline int send_to(pid_t pid, struct message *message, int passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec piece = { &byte, sizeof(byte) };
	struct msghdr header = {
		.msg_iov = &piece, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int fd = connect_to(pid);

	message->bytes[14] = (uint8_t)message->size;
	message->bytes[15] = (uint8_t)(message->size >> 8);
	check(write(fd, message->bytes, message->size) == (ssize_t)message->size);
	if (passed >= 0) {
		CMSG_FIRSTHDR(&header)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&header)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&header)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &passed, sizeof(passed));
		check(sendmsg(fd, &header, 0) == 1);
	}
	return fd;
}

static inline void receive(int fd, void *bytes, size_t size)
{
	for (size_t n = 0; n < size;) {
		ssize_t r = read(fd, (char *)bytes + n, size - n);

		check(r > 0);
		n += (size_t)r;
	}
}

/* Return: 0, or the HRESULT; `size` bytes of payload on success. */
static inline uint32_t reply_of(int fd, void *payload, size_t size)
{
	uint8_t header[20];
	uint32_t hresult;

	receive(fd, header, sizeof(header));
	if (header[17] == 0) {
		receive(fd, payload, size);
		return 0;
	}
	receive(fd, &hresult, sizeof(hresult));
	return hresult;
}

/* Reads a tracepoint like perf: the records of this thread, or of this process. */
struct perf {
	int fd;
	struct perf_event_mmap_page *page;
	size_t bytes;		/* size of the data after the page */
};

static inline struct perf perf_open(const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .sample_period = 1,
		.sample_type = PERF_SAMPLE_RAW, .wakeup_events = 1,
	};
	struct perf perf = { .bytes = 256 << 12 };
	char path[256], id[32] = "";
	int fd;

	snprintf(path, sizeof(path), EVENTS "%s/id", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	check(fd >= 0 && read(fd, id, sizeof(id) - 1) > 0);
	close(fd);
	attr.config = strtoull(id, NULL, 10);
	perf.fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	check(perf.fd >= 0);
	perf.page = mmap(NULL, 4096 + perf.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, perf.fd, 0);
	check(perf.page != MAP_FAILED);
	return perf;
}

static inline void perf_close(struct perf *perf)
{
	munmap(perf->page, 4096 + perf->bytes);
	close(perf->fd);
}

static inline void perf_copy(const struct perf *perf, uint64_t from, void *bytes, size_t size)
{
	const uint8_t *data = (const uint8_t *)perf->page + 4096;

	for (size_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = data[(from + i) % perf->bytes];
}

/* Return: the size of the next record's fields, without the kernel's own; 0 without a record. */
static inline size_t perf_next(struct perf *perf, uint8_t *fields, size_t space)
{
	uint64_t head = __atomic_load_n(&perf->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = perf->page->data_tail;
	struct perf_event_header header;
	uint32_t size;

	if (tail == head)
		return 0;
	perf_copy(perf, tail, &header, sizeof(header));
	check(header.type == PERF_RECORD_SAMPLE);
	perf_copy(perf, tail + sizeof(header), &size, sizeof(size));
	check(size > 8 && size - 8 <= space);
	perf_copy(perf, tail + sizeof(header) + sizeof(size) + 8, fields, size - 8);
	__atomic_store_n(&perf->page->data_tail, tail + header.size, __ATOMIC_RELEASE);
	return size - 8;
}

#endif
