/* SPDX-License-Identifier: MIT */
/*
 * usage: interrupted PLUGIN
 *
 * A library loaded at run time writes the first event of a thread, in a signal handler that
 * interrupted malloc. The malloc of this program raises the signal itself, and detects whether it
 * is called again before it has returned.
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

static __thread int armed __attribute__((tls_model("initial-exec")));
static __thread int inside __attribute__((tls_model("initial-exec")));
static unsigned int reentered;

static void enter(void)
{
	if (inside)
		__atomic_fetch_add(&reentered, 1, __ATOMIC_RELAXED);
}

static void raise_if_armed(void)
{
	if (!armed)
		return;
	armed = 0;
	inside = 1;
	raise(SIGUSR1);
	inside = 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* A sanitizer keeps its own malloc, which calls these hooks before it returns. */
void __sanitizer_malloc_hook(const volatile void *memory, size_t size);
void __sanitizer_free_hook(const volatile void *memory);

void __sanitizer_malloc_hook(const volatile void *memory, size_t size)
{
	(void)memory, (void)size;
	enter();
	raise_if_armed();
}

void __sanitizer_free_hook(const volatile void *memory)
{
	(void)memory;
	enter();
}
#else
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

void *malloc(size_t size)
{
	enter();
	raise_if_armed();
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	enter();
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	enter();
	return __libc_realloc(memory, size);
}

void free(void *memory)
{
	enter();
	__libc_free(memory);
}
#endif

/* Called through this pointer, because the compiler might remove a direct call. */
static void *(*volatile allocate)(size_t) = malloc;

static int (*plugin_call)(uint32_t number);
static uint32_t number;
static int results[2];

static void on_signal(int signal)
{
	(void)signal;
	results[0] = plugin_call(number++);
	results[1] = plugin_call(number++);
}

static void *in_thread(void *data)
{
	void *memory;

	(void)data;
	armed = 1;
	memory = allocate(100);
	check(!armed);
	free(memory);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_listener *listener;
	pthread_t thread;
	void *handle;

	check(argc == 2);
	listener = listen_to("Test-Plugin");
	handle = dlopen(argv[1], RTLD_NOW);
	check(handle);
	plugin_call = (int (*)(uint32_t))(uintptr_t)dlsym(handle, "plugin_call");
	check(plugin_call);
	check(sigaction(SIGUSR1, &action, NULL) == 0);
	for (uint32_t i = 0; i < 100; i++) {
		check(pthread_create(&thread, NULL, in_thread, NULL) == 0);
		check(pthread_join(thread, NULL) == 0);
		check(results[0] == 0 && results[1] == 0);
	}
	check(number == 200);
	check(reentered == 0);
	check(rp_listener_drain(listener) == 0);
	for (uint32_t i = 0; i < number; i++) {
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		check(memcmp(event.payload, &i, sizeof(i)) == 0);
		check(event.thread != (uint32_t)getpid());
	}
	check(rp_listener_stop(listener, &stats) == 0);
	check(stats.lost == 0);
	/* Check that malloc and free call enter(), without which the test could not fail. */
	inside = 1;
	free(allocate(1));
	inside = 0;
	check(reentered == 2);
	return 0;
}
