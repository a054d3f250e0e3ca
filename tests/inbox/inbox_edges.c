/* SPDX-License-Identifier: MIT */
/*
 * usage: inbox_edges PART. A program that uses libc at its limits; prints "ok" if all went well.
 *
 *	detached	threads that free the memory in which pthread_create(3) stored their ids
 *	kinds		handlers with one and with three arguments that replace each other
 *	vfork		a child of vfork(2) that installs a handler, and sets its name
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2000u
#define CHANGES 30000u
#define PAGE_BYTES 4096u

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	printf("failed: %s\n", what);
	exit(1);
}

static void *unmap(void *data)
{
	munmap(data, PAGE_BYTES);
	return NULL;
}

static void detach_threads(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (unsigned int i = 0; i < THREADS; i++) {
		void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t *thread = page;

		require(page != MAP_FAILED, "mmap");
		/* The machine may have no space for more threads at the moment. */
		while (pthread_create(thread, &attributes, unmap, page) != 0)
			sched_yield();
	}
}

static bool is_over;
static unsigned int wrong;

static void handle(int number)
{
	wrong += number != SIGUSR1;
}

static void handle_info(int number, siginfo_t *info, void *context)
{
	const bool is_address = (uintptr_t)info >= PAGE_BYTES && (uintptr_t)context >= PAGE_BYTES;

	wrong += number != SIGUSR1 || !is_address || info->si_signo != SIGUSR1;
}

static void *send_signals(void *data)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		pthread_kill(*(const pthread_t *)data, SIGUSR1);
	return NULL;
}

static void change_kinds(void)
{
	const struct sigaction plain = { .sa_handler = handle };
	const struct sigaction with_info = { .sa_sigaction = handle_info, .sa_flags = SA_SIGINFO };
	pthread_t self = pthread_self(), sender;
	struct sigaction old;

	sigaction(SIGUSR1, &plain, NULL);
	require(pthread_create(&sender, NULL, send_signals, &self) == 0, "pthread_create");
	for (unsigned int i = 0; i < CHANGES; i++) {
		sigaction(SIGUSR1, &with_info, &old);
		require(old.sa_handler == handle, "the handler before");
		sigaction(SIGUSR1, &plain, &old);
		require(old.sa_sigaction == handle_info, "the handler with information before");
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	pthread_join(sender, NULL);
	require(wrong == 0, "the arguments of handlers");
}

static volatile sig_atomic_t calls_of_parent, calls_of_child;

static void count_parent(int number)
{
	(void)number;
	calls_of_parent++;
}

static void count_child(int number)
{
	(void)number;
	calls_of_child++;
}

/* Programs use vfork(2) like this, although POSIX lets a child call execve(2) and _exit(2) only. */
static void use_vfork(void)
{
	const struct sigaction of_parent = { .sa_handler = count_parent };
	const struct sigaction of_child = { .sa_handler = count_child };
	pid_t child;

	sigaction(SIGUSR1, &of_parent, NULL);
	child = vfork();
	if (child == 0) {
		sigaction(SIGUSR1, &of_child, NULL);
		prctl(PR_SET_NAME, "child");
		_exit(0);
	}
	require(waitpid(child, NULL, 0) == child, "waitpid");
	raise(SIGUSR1);
	require(calls_of_parent == 1 && calls_of_child == 0, "the handler of the parent");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{ "detached", detach_threads }, { "kinds", change_kinds }, { "vfork", use_vfork },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
			parts[i].run();
			puts("ok");
			return 0;
		}
	}
	return 2;
}
