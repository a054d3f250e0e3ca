/* SPDX-License-Identifier: MIT */
/*
 * perf-PID.map has a line for each piece of code: start and size in hex, and the name.
 *
 * jit-PID.dump, numbers in the machine's byte order:
 *
 *	header		u32 magic "JiTD", u32 version 1, u32 header bytes, u32 ELF machine, u32 0,
 *			u32 pid, u64 time, u64 flags 0
 *	record		u32 type, u32 record bytes, u64 time
 *	... type 0	load: u32 pid, u32 thread, u64 address, u64 address, u64 bytes, u64 index,
 *			name with its NUL, the code
 *	... type 3	close: nothing more
 *
 * Times are CLOCK_MONOTONIC, as with `perf record -k mono`. perf finds the file by the mapping of
 * its first page, which must be executable.
 *
 * Sources: tools/perf/Documentation/{jit-interface.txt,jitdump-specification.txt} of Linux.
 */
#include "diag/perfmap.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ringpipe/host.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/host_table.h"
#include "base/shield.h"
#include "base/thread.h"
#include "host/generated_code.h"
#include "host/methods.h"

#define PATH_BYTES 64u
#define JIT_MAGIC 0x4a695444u
#define JIT_VERSION 1u
#define JIT_LOAD 0u
#define JIT_CLOSE 3u

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

struct jit_header {
	uint32_t magic, version, total_size, machine, reserved, pid;
	uint64_t time_ns, flags;
};

struct jit_record {
	uint32_t id, total_size;
	uint64_t time_ns;
};

struct jit_load {
	struct jit_record record;
	uint32_t pid, tid;
	uint64_t address, code_address, bytes, index;
};

/*
 * The lock of the generated code is held while files are written, so that lines do not mix and no
 * code is removed meanwhile.
 */
static struct {
	int map_fd;
	int dump_fd;
	void *marker;			/* the mapping by which perf finds the dump */
	uint64_t index;
} state = { .map_fd = -1, .dump_fd = -1, .marker = MAP_FAILED };

static size_t marker_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_files(void)
{
	close_fd(&state.map_fd);
	close_fd(&state.dump_fd);
	if (state.marker != MAP_FAILED)
		munmap(state.marker, marker_bytes());
	state.marker = MAP_FAILED;
}

/* A child does not write to the parent's files, but it keeps the list of code. */
static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, close_files);
}

static void enter(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	rp_generated_code_lock();
}

/*
 * Another user may have created a file of that name in /tmp. Such a file is never opened. A file of
 * this user is removed first, which other users cannot do in a sticky folder.
 */
static int create(const char *path, int *ret_fd)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND;
	int fd = open(path, flags, 0600);
	struct stat file;

	if (fd < 0 && errno == EEXIST) {
		if (lstat(path, &file) < 0)
			return -errno;
		if (file.st_uid != geteuid() || !(S_ISREG(file.st_mode) || S_ISLNK(file.st_mode)))
			return -EEXIST;
		if (unlink(path) < 0)
			return -errno;
		fd = open(path, flags, 0600);
	}
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* Write all parts or fail: a partial write would corrupt the file, so the caller ends it. */
static int write_whole(int fd, struct iovec *parts, int count)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	size_t size = 0;
	ssize_t n;

	for (int i = 0; i < count; i++)
		size += parts[i].iov_len;
	do {
		n = writev(fd, parts, count);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -ENOSPC;
}

static int write_line(const struct rp_generated_code *code)
{
	char numbers[64];
	struct iovec parts[] = {
		{ numbers, 0 }, { code->name, strlen(code->name) }, { (char[]){ '\n' }, 1 },
	};

	parts[0].iov_len = (size_t)snprintf(numbers, sizeof(numbers), "%llx %llx ",
					    (unsigned long long)code->address,
					    (unsigned long long)code->bytes);
	return write_whole(state.map_fd, parts, 3);
}

static int write_load(const struct rp_generated_code *code, const void *bytes)
{
	const size_t name_bytes = strlen(code->name) + 1;
	struct jit_load load = {
		.record = { JIT_LOAD, (uint32_t)(sizeof(load) + name_bytes + code->bytes),
			    rp_clock_monotonic_ns() },
		.pid = (uint32_t)getpid(),
		.tid = (uint32_t)gettid(),
		.address = code->address,
		.code_address = code->address,
		.bytes = code->bytes,
		.index = state.index++,
	};
	struct iovec parts[] = {
		{ &load, sizeof(load) }, { code->name, name_bytes },
		{ (void *)(uintptr_t)bytes, code->bytes },
	};

	return write_whole(state.dump_fd, parts, 3);
}

/* Return: 0, or the first error. A file with an error is closed. */
static int write_copy(const struct rp_generated_code *code, const void *bytes)
{
	int map = state.map_fd >= 0 ? write_line(code) : 0;
	int dump = state.dump_fd >= 0 ? write_load(code, bytes) : 0;

	if (map < 0)
		close_fd(&state.map_fd);
	if (dump < 0)
		close_fd(&state.dump_fd);
	return map < 0 ? map : dump;
}

static int write_code(const struct rp_generated_code *code)
{
	return write_copy(code, (const void *)(uintptr_t)code->address);
}

static int open_map(void)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	return create(path, &state.map_fd);
}

static int open_dump(void)
{
	struct jit_header header = {
		.magic = JIT_MAGIC,
		.version = JIT_VERSION,
		.total_size = sizeof(header),
		.machine = MACHINE,
		.pid = (uint32_t)getpid(),
		.time_ns = rp_clock_monotonic_ns(),
	};
	struct iovec part = { &header, sizeof(header) };
	char path[PATH_BYTES];
	int r;

	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", getpid());
	r = create(path, &state.dump_fd);
	if (r == 0)
		r = write_whole(state.dump_fd, &part, 1);
	if (r < 0)
		return r;
	state.marker = mmap(NULL, marker_bytes(), PROT_READ | PROT_EXEC, MAP_PRIVATE,
			    state.dump_fd, 0);
	return state.marker == MAP_FAILED ? -errno : 0;
}

static void end_files(void)
{
	struct jit_record record = { JIT_CLOSE, sizeof(record), rp_clock_monotonic_ns() };
	struct iovec part = { &record, sizeof(record) };

	if (state.dump_fd >= 0)
		write_whole(state.dump_fd, &part, 1);
	close_files();
}

/*
 * Copies of the host's methods. The host lists them before the lock is taken, because it may hold
 * its own lock meanwhile, under which another thread calls rp_code_add().
 */
struct method_list {
	struct method {
		struct rp_generated_code code;	/* its address: see `copy` */
		void *copy;			/* of the machine code */
	} *items;
	size_t count, capacity;
};

static void see_method(const struct rp_host_method *method, void *data)
{
	struct method_list *list = data;
	struct method *grown, entry = { .code = { .address = method->start } };
	char text[RP_SYMBOL_NAME_MAX + 1];

	if (method->size < RP_HOST_METHOD_SIZE_V1 || !method->code ||
	    method->start >= method->end)
		return;
	rp_method_print(method, text);
	entry.code.bytes = method->end - method->start;
	entry.code.name = strdup(text);
	entry.copy = malloc(entry.code.bytes);
	grown = rp_array_reserve(list->items, list->count, &list->capacity, 1, sizeof(*grown));
	if (grown)
		list->items = grown;
	if (!grown || !entry.code.name || !entry.copy) {
		free(entry.code.name);
		free(entry.copy);
		return;
	}
	memcpy(entry.copy, method->code, entry.code.bytes);
	list->items[list->count++] = entry;
}

static void list_methods(struct method_list *list)
{
	const struct rp_host *host = rp_host_running();

	if (host && host->list_methods)
		host->list_methods(see_method, list, host->data);
}

/* Write the methods that are not registered with rp_code_add() too. */
static int write_methods(const struct method_list *list)
{
	int r = 0;

	for (size_t i = 0; i < list->count && r == 0; i++) {
		const struct method *method = &list->items[i];

		if (!rp_generated_code_has(method->code.address))
			r = write_copy(&method->code, method->copy);
	}
	return r;
}

static void free_methods(struct method_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].code.name);
		free(list->items[i].copy);
	}
	free(list->items);
}

/*
 * Create the files again, with all code known now: /tmp/perf-PID.map and /tmp/jit-PID.dump, where
 * perf expects them. PID is the process's pid in its own namespace. Existing files of these names
 * are deleted if this user owns them; their content is never written to. NONE is as
 * rp_perfmap_disable().
 *
 * Return: 0; -EINVAL: unknown type; -EEXIST: another user's file has the name; -errno of open(2),
 * write(2) or mmap(2) (-EPERM: /tmp is mounted noexec). After an error, nothing more is written.
 */
static int enable(uint32_t type)
{
	struct method_list methods = { NULL, 0, 0 };
	int r = 0;

	if (type > RP_PERFMAP_MAP)
		return -EINVAL;
	if (type != RP_PERFMAP_NONE)
		list_methods(&methods);
	enter();
	end_files();
	if (type == RP_PERFMAP_ALL || type == RP_PERFMAP_MAP)
		r = open_map();
	if (r == 0 && (type == RP_PERFMAP_ALL || type == RP_PERFMAP_JITDUMP))
		r = open_dump();
	if (r == 0)
		r = rp_generated_code_visit(write_code);
	if (r == 0)
		r = write_methods(&methods);
	if (r < 0)
		close_files();
	rp_generated_code_unlock();
	free_methods(&methods);
	return r;
}

void rp_perfmap_disable(void)
{
	enter();
	end_files();
	rp_generated_code_unlock();
}

enum rp_hresult rp_perfmap_command(struct rp_cursor *payload)
{
	uint32_t type;
	int r;

	if (rp_cursor_u32(payload, &type) < 0 || rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	r = enable(type);
	if (r == -EINVAL)
		return RP_HRESULT_INVALID_ARGUMENT;
	return r < 0 ? RP_HRESULT_FAIL : RP_HRESULT_OK;
}

RP_PUBLIC int rp_code_add(const void *address, size_t bytes, const char *name)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	const struct rp_generated_code *code;

	if (!name || !*name || !bytes)
		return -EINVAL;
	enter();
	code = rp_generated_code_put((uint64_t)(uintptr_t)address, bytes, name);
	if (code)
		(void)write_code(code);
	rp_generated_code_unlock();
	return code ? 0 : -ENOMEM;
}

RP_PUBLIC int rp_code_remove(const void *address)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	bool removed;

	enter();
	removed = rp_generated_code_remove((uint64_t)(uintptr_t)address);
	rp_generated_code_unlock();
	return removed ? 0 : -ENOENT;
}
