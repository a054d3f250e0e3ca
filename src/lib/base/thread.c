/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/host_table.h"

#define STACK_BYTES (256u << 10)	/* in addition to what glibc needs */

uint32_t rp_thread_id_offset;
uint32_t rp_thread_stack_offset;

/* Maximum size of the main thread's stack, below the end in its thread descriptor. */
static uint64_t main_stack_bytes;

/* __pthread_get_minstack(), a private function of glibc; or NULL. */
static size_t (*minimum_stack)(const pthread_attr_t *);

static __thread struct {
	uint32_t id, process;
} cached __attribute__((tls_model("initial-exec")));

uint32_t rp_thread_id_slow(void)
{
	uint32_t process = (uint32_t)getpid();

	if (cached.process != process) {
		cached.id = (uint32_t)gettid();
		cached.process = process;
	}
	return cached.id;
}

/* The calling thread's descriptor, to which a pthread_t of glibc points. */
static const char *own_descriptor(void)
{
#if defined(__x86_64__)
	return __builtin_thread_pointer();
#else
	/* On other machines the thread pointer may point to the end of the descriptor. */
	return (const char *)pthread_self();
#endif
}

void rp_thread_init(void)
{
	/* {size in bits, count, offset} of the thread id in the descriptor, for libthread_db. */
	const uint32_t *where = dlvsym(RTLD_DEFAULT, "_thread_db_pthread_tid", "GLIBC_PRIVATE");
	struct rlimit limit;

	rp_thread_id_offset = 0;
	if (where && where[0] == 32 && where[2] > 0 && where[2] < 4096 &&
	    *(const uint32_t *)(own_descriptor() + where[2]) == (uint32_t)gettid())
		rp_thread_id_offset = where[2];

	*(void **)&minimum_stack = dlvsym(RTLD_DEFAULT, "__pthread_get_minstack", "GLIBC_PRIVATE");

	/* The kernel keeps at least 128 MB between the main stack and other mappings. */
	main_stack_bytes = 128u << 20;
	if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < main_stack_bytes)
		main_stack_bytes = limit.rlim_cur;
}

/* glibc puts all static TLS of the program and its libraries on the stack, whatever its size. */
static size_t stack_bytes(void)
{
	long page = sysconf(_SC_PAGESIZE);
	size_t needed = PTHREAD_STACK_MIN;

	if (minimum_stack)
		needed = minimum_stack(NULL);
	return (STACK_BYTES + needed + (size_t)page - 1) & ~((size_t)page - 1);
}

/*
 * Find where libc stores the stack bounds in the descriptor of a thread whose stack this library
 * chose. libc stores the bounds before the thread runs; the words around them change while it runs.
 */
__attribute__((no_sanitize("thread")))
static void learn_stack(pthread_t thread, const void *stack, size_t bytes)
{
	const uint64_t *words = (const uint64_t *)thread;

	if (rp_thread_stack_offset != 0)
		return;
	/* The descriptor has some 2.3 KB. An equal pair of values by chance is very unlikely. */
	for (unsigned int i = 0; i + 1 < 2048 / sizeof(*words); i++) {
		if (words[i] == (uint64_t)(uintptr_t)stack && words[i + 1] == bytes) {
			rp_thread_stack_offset = i * sizeof(*words);
			return;
		}
	}
}

__thread bool rp_thread_is_ours __attribute__((tls_model("initial-exec")));

/* The library's running threads; each entry is on its thread's stack. */
struct running {
	struct running *next;
	uint32_t id;
	const struct rp_host *host;	/* its `thread_begin` was called; or NULL */
};

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;
static struct running *running;
static unsigned int beginning;	/* created, but not in the list yet */

static void leave(void *data)
{
	const struct running *self = data;
	struct running **at = &running;

	pthread_mutex_lock(&running_lock);
	while (*at && *at != self)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	pthread_mutex_unlock(&running_lock);
	if (self->host && (!self->host->process_state ||
			   self->host->process_state(self->host->data) == RP_HOST_RUNNING))
		self->host->thread_end(self->host->data);
}

bool rp_thread_is_running(uint32_t id)
{
	const struct running *at;

	pthread_mutex_lock(&running_lock);
	for (at = running; at && at->id != id; at = at->next)
		;
	pthread_mutex_unlock(&running_lock);
	return at != NULL;
}

bool rp_thread_has_ended(uint32_t id)
{
	return syscall(SYS_tgkill, getpid(), id, 0) != 0 && errno == ESRCH;
}

/*
 * The kernel's encoding, which clock_getcpuclockid(3) also uses for processes: the inverted id
 * above three bits.
 */
clockid_t rp_thread_cpu_clock(uint32_t id)
{
	return (clockid_t)(~id << 3 | 6u);	/* 4: a thread's clock; 2: scheduled time */
}

int rp_thread_cpu_ns(uint32_t id, uint64_t *ret_ns)
{
	struct timespec time;

	if (clock_gettime(rp_thread_cpu_clock(id), &time) != 0)
		return -errno;
	*ret_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	return 0;
}

void rp_thread_forget_running(void)
{
	pthread_mutex_init(&running_lock, NULL);
	pthread_cond_init(&has_begun, NULL);
	running = NULL;
	beginning = 0;
}

static void count_beginning(int change)
{
	pthread_mutex_lock(&running_lock);
	beginning += (unsigned int)change;
	pthread_mutex_unlock(&running_lock);
}

void rp_thread_wait_begun(void)
{
	pthread_mutex_lock(&running_lock);
	while (beginning)
		pthread_cond_wait(&has_begun, &running_lock);
	pthread_mutex_unlock(&running_lock);
}

struct start {
	void *(*run)(void *);
	void *data;
	const char *name;	/* a literal */
};

/* Return: the host if it knows the thread now, and has to be called at the thread's end; or NULL */
static const struct rp_host *begin_for_host(const char *name)
{
	const struct rp_host *host = rp_host_running();

	if (host && host->thread_begin)
		host->thread_begin(name, host->data);
	return host && host->thread_end ? host : NULL;
}

static void *begin(void *data)
{
	struct start start = *(struct start *)data;
	struct running self = { .id = (uint32_t)gettid() };
	void *result;

	free(data);
	rp_thread_is_ours = true;
	pthread_mutex_lock(&running_lock);
	self.next = running;
	running = &self;
	beginning--;
	pthread_cond_broadcast(&has_begun);
	pthread_mutex_unlock(&running_lock);
	self.host = begin_for_host(start.name);
	/* A callback of the host may end the thread. */
	pthread_cleanup_push(leave, &self);
	result = start.run(start.data);
	pthread_cleanup_pop(1);
	return result;
}

static int create_masked(pthread_t *ret_thread, const pthread_attr_t *attr, const char *name,
			 void *(*run)(void *), void *data)
{
	struct start *start = malloc(sizeof(*start));
	sigset_t all, before;
	int ret;

	if (!start)
		return -ENOMEM;
	*start = (struct start){ run, data, name };
	count_beginning(1);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = rp_failed_with("pthread_create", pthread_create(ret_thread, attr, begin, start));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0) {
		count_beginning(-1);
		free(start);
	}
	return ret;
}

int rp_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data)
{
	int ret = create_masked(ret_thread, NULL, name, run, data);

	if (ret == 0)
		pthread_setname_np(*ret_thread, name);
	return ret;
}

int rp_thread_create(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data)
{
	pthread_attr_t attr;
	size_t bytes = stack_bytes();
	void *stack;
	int ret;

	stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		return rp_failed("mmap");
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, bytes);
	ret = create_masked(ret_thread, &attr, name, run, data);
	pthread_attr_destroy(&attr);
	if (ret != 0) {
		munmap(stack, bytes);
		return ret;
	}
	learn_stack(*ret_thread, stack, bytes);
	pthread_setname_np(*ret_thread, name);
	return 0;
}

int rp_thread_create_once(struct rp_thread_once *once, const char *name, void *(*run)(void *),
			  void *data)
{
	pthread_t thread;
	int ret = 0;

	pthread_mutex_lock(&once->starting);
	if (!once->started) {
		ret = rp_thread_create(&thread, name, run, data);
		if (ret == 0)
			pthread_detach(thread);
		once->started = ret == 0;
	}
	pthread_mutex_unlock(&once->starting);
	return ret;
}

bool rp_thread_once_forget(struct rp_thread_once *once)
{
	bool started = once->started;

	*once = (struct rp_thread_once)RP_THREAD_ONCE_INIT;
	return started;
}

bool rp_thread_stack_bounds(uint64_t *ret_low, uint64_t *ret_high)
{
	const uint64_t *pair = (const uint64_t *)(own_descriptor() + rp_thread_stack_offset);

	if (rp_thread_stack_offset == 0)
		return false;
	/* For the main thread, base is 0 and size is the stack's end: the sum is always right. */
	*ret_high = pair[0] + pair[1];
	*ret_low = pair[0] ? pair[0] : *ret_high - main_stack_bytes;
	return true;
}

__attribute__((no_sanitize("address")))
unsigned int rp_thread_stack(const void *frame, uint64_t *ret_frames, unsigned int max)
{
	uint64_t at = (uint64_t)(uintptr_t)frame, low, high;
	unsigned int count = 0;

	if (!rp_thread_stack_bounds(&low, &high))
		return 0;
	/* Everything between a live frame and the stack's end is mapped. */
	while (count < max && at > low && at % 8 == 0 && at <= high - 16) {
		const uint64_t *words = (const uint64_t *)(uintptr_t)at;

		if (words[1] < 4096)
			break;
		ret_frames[count++] = words[1];
		if (words[0] <= at)
			break;
		at = words[0];
	}
	return count;
}
