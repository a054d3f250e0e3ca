/* SPDX-License-Identifier: MIT */
#include "modules/inbox/inbox.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/event.h>

__thread struct inbox_thread rp_inbox_thread;

static pid_t own_id;			/* of the process; 0 before the constructor */
static uintptr_t engine_low, engine_high;	/* addresses of libringpipe */

pid_t rp_inbox_thread_id(void)
{
	if (INBOX_UNLIKELY(rp_inbox_thread.id == 0))
		rp_inbox_thread.id = (pid_t)syscall(SYS_gettid);
	return rp_inbox_thread.id;
}

uint64_t rp_inbox_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *rp_inbox_find_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

void *rp_inbox_next(const char *name)
{
	void *next = rp_inbox_find_next(name);

	if (!next)
		abort();
	return next;
}

void *rp_inbox_next_version(const char *name, const char *version)
{
	void *next = dlvsym(RTLD_NEXT, name, version);

	return next ? next : rp_inbox_next(name);
}

bool rp_inbox_is_vfork_child(void)
{
	return own_id && (pid_t)syscall(SYS_getpid) != own_id;
}

static int find_engine(struct dl_phdr_info *info, size_t size, void *data)
{
	const uintptr_t inside = (uintptr_t)rp_event_write;
	uintptr_t low = UINTPTR_MAX, high = 0;

	(void)size;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		low = start < low ? start : low;
		high = start + segment->p_memsz > high ? start + segment->p_memsz : high;
	}
	if (inside < low || inside >= high)
		return 0;
	engine_low = low;
	__atomic_store_n(&engine_high, high, __ATOMIC_RELEASE);
	return 1;
}

bool rp_inbox_is_engine(const void *caller)
{
	if (!__atomic_load_n(&engine_high, __ATOMIC_ACQUIRE))
		dl_iterate_phdr(find_engine, NULL);
	return (uintptr_t)caller >= engine_low && (uintptr_t)caller < engine_high;
}

static void be_child(void)
{
	rp_inbox_thread.id = 0;
	own_id = getpid();
}

void rp_inbox_init(void)
{
	(void)rp_inbox_is_engine(NULL);
	own_id = getpid();
	pthread_atfork(NULL, NULL, be_child);
}
