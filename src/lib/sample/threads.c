/* SPDX-License-Identifier: MIT */
#include "sample/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"

#define PROBES 8u	/* candidate places of a thread */

struct rp_sampled *rp_threads;
uint32_t *rp_threads_used;
uint32_t rp_threads_count;

static uint64_t pass;

int rp_thread_file(uint32_t id, const char *name, char *ret_text, size_t size)
{
	char path[64];
	ssize_t bytes;
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/self/task/%u/%s", id, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	bytes = read(fd, ret_text, size - 1);
	ret = bytes < 0 ? -errno : (int)bytes;
	close(fd);
	if (ret >= 0)
		ret_text[ret] = '\0';
	return ret;
}

/* Pages of the table that no thread uses take no memory. */
static int make_table(void)
{
	size_t bytes = RP_THREADS_MAX * sizeof(*rp_threads);
	size_t list_bytes = RP_THREADS_MAX * sizeof(*rp_threads_used);
	char *memory;

	if (rp_threads)
		return 0;
	memory = mmap(NULL, bytes + list_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	rp_threads_used = (uint32_t *)(void *)(memory + bytes);
	rp_store_release(&rp_threads, (struct rp_sampled *)(void *)memory);
	return 0;
}

/* The place of thread `id`, or with `make` a free place for it; NULL: there is none. */
static struct rp_sampled *place_of(uint32_t id, bool make)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct rp_sampled *thread = &rp_threads[(id + i) % RP_THREADS_MAX];

		if (thread->id == (make ? 0 : id))
			return thread;
	}
	return NULL;
}

static void see(uint32_t id, const struct rp_thread_visitor *visitor)
{
	struct rp_sampled *thread = place_of(id, false);

	if (!thread) {
		thread = place_of(id, true);
		if (!thread)
			return;
		rp_store_relaxed(&thread->id, id);
		rp_threads_used[rp_threads_count++] = (uint32_t)(thread - rp_threads);
		visitor->came(thread);
	}
	thread->pass = pass;
}

static void drop(uint32_t at, const struct rp_thread_visitor *visitor)
{
	struct rp_sampled *thread = &rp_threads[rp_threads_used[at]];

	visitor->went(thread);
	thread->cpu_ns = 0;
	thread->has_timer = false;
	thread->is_named = false;
	thread->beginning = RP_BEGUN;
	thread->name[0] = '\0';
	rp_store_relaxed(&thread->awake, 0);
	rp_store_relaxed(&thread->id, 0);
	rp_threads_used[at] = rp_threads_used[--rp_threads_count];
}

int rp_threads_scan(const struct rp_thread_visitor *visitor)
{
	struct dirent *entry;
	int ret = make_table();
	DIR *directory;

	if (ret != 0)
		return ret;
	directory = opendir("/proc/self/task");
	if (!directory)
		return -errno;
	pass++;
	while ((entry = readdir(directory)) != NULL) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (id != 0)
			see(id, visitor);
	}
	closedir(directory);
	for (uint32_t at = rp_threads_count; at > 0; at--) {
		if (rp_threads[rp_threads_used[at - 1]].pass != pass)
			drop(at - 1, visitor);
	}
	return 0;
}

void rp_threads_clear(const struct rp_thread_visitor *visitor)
{
	while (rp_threads_count > 0)
		drop(rp_threads_count - 1, visitor);
}

void rp_threads_forget(void)
{
	/*
	 * The child inherits no timers. fork() may have interrupted a scan, so start with a new
	 * table.
	 */
	rp_threads = NULL;
	rp_threads_used = NULL;
	rp_threads_count = 0;
}
