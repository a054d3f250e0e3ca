/* SPDX-License-Identifier: MIT */
/*
 * A child never uses or frees memory that another thread of its parent had freed before the fork.
 *
 * Each free() by the library's threads stops the calling thread, unless that thread holds a mutex
 * that the fork handlers would wait for. Then the main thread forks. Freed memory is filled with a
 * pattern and not returned to the allocator. The child checks the pattern after its fork handlers,
 * and again after it has stopped the session that the parent was stopping. A second free of the
 * memory ends the child.
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PROVIDER "Test-Freeing"
#define PATTERN 0xfb
#define FREED_MAX 4096u

RP_PROVIDER(freeing, PROVIDER);
RP_EVENT(freeing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_COUNTER(freeing, calls, NULL, NULL);

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

/* The memory that the library's threads have freed since `armed`. */
static struct {
	unsigned char *memory;		/* atomic; NULL: the entry is not filled in yet */
	size_t size;
} freed[FREED_MAX];
static uint32_t freed_count;		/* atomic */
static bool armed;			/* atomic */

static uintptr_t library_begin, library_end;
static sem_t turn;			/* held by the thread that has stopped */
static sem_t news, go;			/* wake the main thread; wake the stopped thread */
static bool has_stopped;		/* atomic: a thread has stopped at a free */
static bool is_over;			/* atomic: the session has been stopped */
static bool is_session_freed;		/* the stopping thread has freed it, or is freeing it */
static pid_t stopping_thread;		/* atomic */

static bool is_called;			/* the library, too, calls this file's free() */

/* The compiler inlines a direct call, and valgrind replaces the function, so call a pointer. */
static void (*volatile free_by_address)(void *) = free;

static __thread unsigned int mutexes __attribute__((tls_model("initial-exec")));

static int call_next(int (**next)(pthread_mutex_t *), const char *name, pthread_mutex_t *mutex)
{
	int (*found)(pthread_mutex_t *) = __atomic_load_n(next, __ATOMIC_RELAXED);

	if (!found) {
		*(void **)&found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(next, found, __ATOMIC_RELAXED);
	}
	return found(mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);

	mutexes++;
	return call_next(&next, __func__, mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);

	mutexes--;
	return call_next(&next, __func__, mutex);
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
}

static bool is_armed(void)
{
	return __atomic_load_n(&armed, __ATOMIC_ACQUIRE) && gettid() != getpid();
}

/* Get the usable size from the chunk's header; valgrind replaces malloc_usable_size(3). */
static size_t usable_size(const void *memory)
{
	size_t header = ((const size_t *)memory)[-1];
	bool is_mapped = header & 2;

	return (header & ~(size_t)7) - (is_mapped ? 2 : 1) * sizeof(header);
}

static void check_freed_memory(void)
{
	for (uint32_t i = 0; i < __atomic_load_n(&freed_count, __ATOMIC_ACQUIRE); i++) {
		const unsigned char *memory = __atomic_load_n(&freed[i].memory, __ATOMIC_ACQUIRE);

		for (size_t at = 0; memory && at < freed[i].size; at++)
			check(memory[at] == PATTERN && "freed memory keeps its pattern");
	}
}

static void check_not_freed(const void *memory)
{
	for (uint32_t i = 0; i < __atomic_load_n(&freed_count, __ATOMIC_ACQUIRE); i++)
		check(__atomic_load_n(&freed[i].memory, __ATOMIC_ACQUIRE) != memory);
}

static void keep_freed(unsigned char *memory)
{
	uint32_t i = __atomic_fetch_add(&freed_count, 1, __ATOMIC_ACQ_REL);

	check(i < FREED_MAX);
	freed[i].size = usable_size(memory);
	memset(memory, PATTERN, freed[i].size);
	__atomic_store_n(&freed[i].memory, memory, __ATOMIC_RELEASE);
}

/* Let the main thread fork if the caller is the library and holds no mutex. */
static void let_fork(uintptr_t caller)
{
	if (mutexes || caller < library_begin || caller >= library_end)
		return;
	wait_for(&turn);
	if (is_armed()) {
		if (gettid() == __atomic_load_n(&stopping_thread, __ATOMIC_RELAXED))
			is_session_freed = true;
		__atomic_store_n(&has_stopped, true, __ATOMIC_RELEASE);
		sem_post(&news);
		wait_for(&go);
	}
	sem_post(&turn);
}

static void free_memory(void *memory, uintptr_t caller)
{
	is_called = true;
	if (!memory)
		return;
	check_not_freed(memory);
	if (!is_armed()) {
		__libc_free(memory);
		return;
	}
	keep_freed(memory);
	let_fork(caller);
}

void *malloc(size_t size)
{
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return __libc_calloc(count, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return __libc_memalign(alignment, size);
}

void free(void *memory)
{
	free_memory(memory, (uintptr_t)__builtin_return_address(0));
}

void *realloc(void *memory, size_t size)
{
	void *moved;

	if (!memory || !is_armed())
		return __libc_realloc(memory, size);
	moved = __libc_malloc(size);
	if (!moved)
		return NULL;
	memcpy(moved, memory, usable_size(memory) < size ? usable_size(memory) : size);
	free_memory(memory, (uintptr_t)__builtin_return_address(0));
	return moved;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t begin = UINTPTR_MAX, end = 0, function = *(const uintptr_t *)data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + part->p_memsz > end ? at + part->p_memsz : end;
	}
	if (function < begin || function >= end)
		return 0;
	library_begin = begin;
	library_end = end;
	return 1;
}

static void (*work)(struct rp_session *session);

static void *run_work(void *session)
{
	work(session);
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	sem_post(&news);
	return NULL;
}

static void fork_and_check(struct rp_session *session)
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		alarm(PATIENCE_S);
		check_freed_memory();
		if (!is_session_freed)
			(void)rp_session_stop(session, NULL);
		check_freed_memory();
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child);
	check(status == 0);
}

static void disarm(void)
{
	__atomic_store_n(&armed, false, __ATOMIC_SEQ_CST);
	while (sem_trywait(&turn) != 0) {
		if (__atomic_exchange_n(&has_stopped, false, __ATOMIC_ACQ_REL))
			sem_post(&go);
		poll(NULL, 0, 1);
	}
	while (sem_trywait(&news) == 0)
		;
	is_session_freed = is_over = false;
	sem_post(&turn);
}

/* Run a function on a separate thread. Return: how often the main thread forked meanwhile. */
static unsigned int fork_while(void (*run)(struct rp_session *session), struct rp_session *session)
{
	unsigned int forks = 0;
	pthread_t thread;

	work = run;
	__atomic_store_n(&armed, true, __ATOMIC_SEQ_CST);
	check(pthread_create(&thread, NULL, run_work, session) == 0);
	for (;;) {
		wait_for(&news);
		if (__atomic_exchange_n(&has_stopped, false, __ATOMIC_ACQ_REL)) {
			fork_and_check(session);
			forks++;
			sem_post(&go);
		} else if (__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
			break;
		}
	}
	check(pthread_join(thread, NULL) == 0);
	disarm();
	return forks;
}

static struct rp_session *start(const char *providers, const char *output, const char *folder,
				uint32_t flags)
{
	struct rp_session_options options = {
		.size = sizeof(options), .output_path = output, .output_fd = -1,
		.recover_path = folder, .flags = flags,
		.buffer_bytes = flags & RP_SESSION_OVERWRITE ? RP_SESSION_OVERWRITE_MIN :
				RP_SESSION_BUFFER_MIN,
	};
	struct rp_session_provider *wanted;
	struct rp_session *session;

	check(rp_providers_parse(providers, &wanted, &options.provider_count, NULL) == 0);
	options.providers = wanted;
	check(rp_session_start(&options, &session) == 0);
	free(wanted);
	for (uint64_t serial = 0; serial < 100; serial++)
		check(freeing_mark(serial) == 0);
	freeing_calls_add(1);
	return session;
}

static int result;			/* returned by the stop */

static void stop(struct rp_session *session)
{
	__atomic_store_n(&stopping_thread, gettid(), __ATOMIC_RELAXED);
	result = rp_session_stop(session, NULL);
}

static void session_that_ends(const char *providers, const char *output, const char *folder,
			      uint32_t flags)
{
	/* The library frees at least the session's memory, name and configuration. */
	check(fork_while(stop, start(providers, output, folder, flags)) > 5);
	check(result == 0);
}

/* This session leaves the files of its rings for recovery. */
static void session_whose_output_fails(const char *output, const char *folder)
{
	struct rp_session *session = start(PROVIDER, output, folder, 0);
	struct rlimit before, none;

	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	none = (struct rlimit){ 0, before.rlim_max };
	check(setrlimit(RLIMIT_FSIZE, &none) == 0);
	check(fork_while(stop, session) > 5);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	check(result == -EFBIG);
}

static void on_state(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	(void)provider, (void)state, (void)data;
}

static void use_dynamic_provider(struct rp_session *session)
{
	static const struct rp_event_decl event_decl = {
		.size = sizeof(event_decl), .id = 1, .name = "dynamic",
	};
	static const struct rp_counter_decl counter_decl = {
		.size = sizeof(counter_decl), .name = "dynamic", .kind = RP_COUNTER_HISTOGRAM,
	};
	struct rp_provider *provider;
	struct rp_counter *counter;
	struct rp_event *event;

	(void)session;
	check(rp_provider_create("Test-Freeing-Dynamic", on_state, NULL, &provider) == 0);
	check(rp_event_create(provider, &event_decl, &event) == 0);
	check(rp_counter_create(provider, &counter_decl, &counter) == 0);
	check(rp_counter_destroy(counter) == 0);
	check(rp_provider_destroy(provider) == 0);
}

static const char *plugin;

static void load_and_unload(struct rp_session *session)
{
	void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

	(void)session;
	check(library);
	check(dlclose(library) == 0);
}

static void take_snapshot(struct rp_session *session)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	check(fd >= 0);
	check(rp_session_snapshot(session, NULL, fd, NULL) == 0);
	check(close(fd) == 0);
}

static void use_listener(struct rp_session *session)
{
	struct rp_listener *listener = listen_to(PROVIDER);
	struct rp_session_provider other = { .size = sizeof(other), .name = "Test-Other" };

	(void)session;
	check(rp_listener_set_providers(listener, &other, 1) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
}

/* Two more sessions run meanwhile. One of them has state events and rings in files. */
static void work_beside_sessions(const char *output, const char *folder)
{
	static void (*const works[])(struct rp_session *session) = {
		use_dynamic_provider, load_and_unload, take_snapshot, use_listener,
	};
	struct rp_session *recorder = start("*", NULL, folder, RP_SESSION_OVERWRITE);
	struct rp_session *session = start("*::5:EventCounterIntervalSec=1", output, NULL, 0);
	unsigned int forks = 0;

	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		forks += fork_while(works[i], recorder);
	check(forks > 10);
	check(rp_session_stop(session, NULL) == 0);
	check(rp_session_stop(recorder, NULL) == 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(path);
}

int main(int argc, char **argv)
{
	uintptr_t function = (uintptr_t)dlsym(RTLD_DEFAULT, "rp_session_stop");
	char directory[] = "/tmp/rp-freeing-XXXXXX", trace[64];

	free_by_address(NULL);
	check(argc == 2);
	plugin = argv[1];
	if (!is_called) {
		puts("valgrind has free() itself");
		return SKIPPED;
	}
	alarm(2 * PATIENCE_S);
	check(dl_iterate_phdr(find_library, &function) == 1);
	sem_init(&turn, 0, 1);
	sem_init(&news, 0, 0);
	sem_init(&go, 0, 0);
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	session_that_ends(PROVIDER, trace, NULL, 0);
	session_that_ends(PROVIDER, trace, directory, 0);
	session_that_ends(PROVIDER, NULL, NULL, RP_SESSION_OVERWRITE);
	session_that_ends(PROVIDER, NULL, directory, RP_SESSION_OVERWRITE);
	session_that_ends(PROVIDER "::5:EventCounterIntervalSec=1", trace, NULL, 0);
	session_whose_output_fails(trace, directory);
	work_beside_sessions(trace, directory);
	check(nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
	return 0;
}
