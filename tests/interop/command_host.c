/* SPDX-License-Identifier: MIT */
/*
 * A program for the commands of the diagnostics socket: prints its pid, then executes the lines of
 * its standard input, and answers each with a line.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

static volatile sig_atomic_t sigchlds;

static void on_sigchld(int number)
{
	(void)number;
	sigchlds++;
}

static int set_variable(const char *name, const char *value, void *data)
{
	(void)data;
	return (value ? setenv(name, value, 1) : unsetenv(name)) < 0 ? -errno : 0;
}

/* Waits for any child, as programs may do, and prints the result. */
static void print_children(void)
{
	pid_t pid = waitpid(-1, NULL, WNOHANG);

	printf("%d %s\n", (int)sigchlds, pid < 0 && errno == ECHILD ? "none" : "some");
}

/* Sleeps with register values that a debugger must find. */
static void *wait_for_ever(void *data)
{
	pthread_setname_np(pthread_self(), data);
#if defined(__x86_64__)
	for (;;)
		__asm__ volatile("movq $0x5ca1ab1e0ddba11, %%r12\n\tmovq %%r12, %%xmm7\n\t"
				 "movl $34, %%eax\n\tsyscall"	/* pause */
				 ::: "rax", "rcx", "r11", "r12", "xmm7", "memory");
#else
	for (;;)
		pause();
#endif
	return NULL;
}

static void start_threads(void)
{
	static char names[][16] = { "sleeper-one", "sleeper-two", "sleeper-three" };

	for (size_t i = 0; i < 3; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, wait_for_ever, names[i]);
		pthread_detach(thread);
	}
}

/* A text that is neither in the program's file nor in a register. */
static void put_secret(char *memory, const char *text)
{
	static const volatile char key = 1;

	for (size_t i = 0; text[i]; i++)
		memory[i] = (char)(text[i] ^ key);
}

static void make_memory(void)
{
	const size_t reserved = (size_t)1 << 40;
	char *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
	char *secret = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	mmap(NULL, reserved, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	put_secret(pages + 5000, "ufyu!up!cf!gpvoe");
	put_secret(pages + (1 << 20) - 4096, "bu!uif!mbtu!qbhf");
	madvise(secret, 1 << 16, MADV_DONTDUMP);
	put_secret(secret, "opu!up!cf!evnqfe");
}

static char *code;
static volatile int code_ends;

static void *run_code(void *data)
{
	((void (*)(volatile int *))(uintptr_t)code)(&code_ends);
	return data;
}

/* Code generated at run time: a loop that runs until its argument is not zero. */
static void make_code(const char *name)
{
#if defined(__x86_64__)
	/* 1: pause; cmpl $0, (%rdi); je 1b; ret */
	static const unsigned char loop[] = { 0xf3, 0x90, 0x83, 0x3f, 0x00, 0x74, 0xf9, 0xc3 };
	pthread_t thread;

	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, loop, sizeof(loop));
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	printf("%d %lx\n", rp_code_add(code, sizeof(loop), name), (unsigned long)code);
	pthread_create(&thread, NULL, run_code, NULL);
	pthread_detach(thread);
#else
	(void)name;
	(void)run_code;
	puts("no code for this machine");
#endif
}

/* Forks a child that also has the code and records more about it. */
static void fork_with_code(void)
{
	pid_t child = fork();

	if (child == 0) {
		rp_code_add(code + 64, 8, "in_the_child");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	puts("ok");
}

/* A thread that the kernel blocks until the child has ended. */
static void *wait_in_vfork(void *data)
{
	/* Not vfork(), which ThreadSanitizer replaces by fork(). */
	if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		/* Otherwise it would outlive a test that fails, and keep its pipes open. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return data;
}

static void obey(char *line)
{
	pthread_t thread;

	if (!strcmp(line, "allow")) {
		rp_host_set_environment_callback(set_variable, NULL);
		puts("ok");
	} else if (!strncmp(line, "get ", 4)) {
		puts(getenv(line + 4) ? getenv(line + 4) : "(none)");
	} else if (!strcmp(line, "threads")) {
		start_threads();
		make_memory();
		puts("ok");
	} else if (!strcmp(line, "vfork")) {
		pthread_create(&thread, NULL, wait_in_vfork, NULL);
		pthread_detach(thread);
		puts("ok");
	} else if (!strncmp(line, "code ", 5)) {
		make_code(line + 5);
	} else if (!strncmp(line, "more ", 5)) {
		printf("%d\n", rp_code_add(code + 16, 8, line + 5));
	} else if (!strcmp(line, "remove")) {
		printf("%d\n", rp_code_remove(code));
	} else if (!strcmp(line, "fork")) {
		fork_with_code();
	} else if (!strcmp(line, "children")) {
		print_children();
	} else {
		puts("what?");
	}
	fflush(stdout);
}

int main(void)
{
	char line[256];

	signal(SIGCHLD, on_sigchld);
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		obey(line);
	}
	return 0;
}
