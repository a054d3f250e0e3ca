/* SPDX-License-Identifier: MIT */
/*
 * Counts reproducible costs: the instructions of an event, single-stepped by a parent process; its
 * system calls, and those of the drain thread for a pass; and the allocations of the process while
 * events are written.
 *
 *	exact FILE			prints the figures; the file is for the drain thread
 *	exact compiler			prints the compiler and the options of the library
 *	exact FILE KIND COUNT		writes COUNT events of a kind to the file, for exact.py
 *
 * Exit: 77, after printing the reason, if the costs cannot be counted here.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "clock.h"
#include "exact.h"
#include "session.h"

#define WARM 50u
#define STEPPED 4u		/* successive events of each way; the figure is their mean */
#define STEPPED_MANY 64u	/* … for ways whose cost varies within this many events */
#define CALLS 1000u		/* of each way, to find system calls */
#define BURSTS 3u
#define TRIES 3u		/* a pass may do additional work by chance, so the minimum counts */

#if defined(__x86_64__)

#if defined(__clang__)
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)
#define COMPILER "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." \
	TEXT(__clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

/* The parent observes what happens between two breakpoints. */
static __attribute__((noinline)) void stop_for_parent(void)
{
	__asm__ volatile("int3" : : : "memory");
}

static __attribute__((noinline)) void measure(const struct exact_way *way, unsigned int times)
{
	__asm__ volatile("int3" : : : "memory");
	for (unsigned int i = 0; i < times; i++)
		way->run();
	__asm__ volatile("int3" : : : "memory");
}

static unsigned int steps_of(const struct exact_way *way)
{
	return way->first ? 1 : way->many ? STEPPED_MANY : STEPPED;
}

/* Return: how many events went to the session that exact_settle() waits for. */
static uint64_t run_way(const struct exact_way *way)
{
	unsigned int warm = way->first ? 0 : WARM;

	if (way->begin)
		way->begin();
	exact_count_allocations(EXACT_WRITER, true);
	for (unsigned int i = 0; i < warm; i++)
		way->run();
	measure(way, steps_of(way));
	measure(way, CALLS);
	exact_count_allocations(EXACT_WRITER, false);
	if (way->end)
		way->end();
	return way->writes ? warm + steps_of(way) + CALLS : 0;
}

/*
 * The first burst, in a separate pass, grows the drain thread's buffers to their final size: later
 * bursts have the same size or come in parts.
 */
static void write_bursts(uint64_t written)
{
	for (unsigned int burst = 0; burst < BURSTS; burst++) {
		for (unsigned int i = 0; i < exact_way_count; i++) {
			const struct exact_way *way = &exact_ways[i];

			if (way->once)
				continue;
			if (way->begin)
				way->begin();
			exact_count_allocations(EXACT_WRITER, true);
			for (unsigned int j = 0; j < CALLS; j++)
				way->run();
			exact_count_allocations(EXACT_WRITER, false);
			if (way->end)
				way->end();
			written += way->writes ? CALLS : 0;
		}
		if (burst == 0)
			exact_let_go();
		exact_settle(written);
		exact_count_allocations(EXACT_OTHERS, true);
	}
	exact_count_allocations(EXACT_OTHERS, false);
}

static const unsigned int passes[] = { 1, 100000 };

#define PASSES (sizeof(passes) / sizeof(passes[0]))

/* The observed process. */
static int run_traced(const char *path)
{
	uint64_t written = 1;

	exact_start();
	/* The cost of the loop itself. */
	measure(&exact_ways[0], 1);
	measure(&exact_ways[0], 2);
	for (unsigned int i = 1; i < exact_way_count; i++)
		written += run_way(&exact_ways[i]);
	write_bursts(written);
	exact_stop();
	for (unsigned int i = 0; i < PASSES; i++) {
		for (unsigned int j = 0; j < TRIES; j++)
			exact_pass(path, passes[i], stop_for_parent);
	}
	printf("any machine\n");
	figure("allocations after start, writer", exact_allocations(EXACT_WRITER), "calls");
	figure("allocations after start, other threads", exact_allocations(EXACT_OTHERS), "calls");
	return 0;
}

/* Code of this program and of the library; libc's code depends on the processor. */
static struct {
	uint64_t from, to;
} own[4];
static unsigned int own_count;

static int find_own(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	if (info->dlpi_name[0] && !strstr(info->dlpi_name, "libringpipe.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || own_count == 4)
			continue;
		own[own_count].from = info->dlpi_addr + segment->p_vaddr;
		own[own_count++].to = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
	}
	return 0;
}

static bool is_own(uint64_t at)
{
	for (unsigned int i = 0; i < own_count; i++) {
		if (at >= own[i].from && at < own[i].to)
			return true;
	}
	return false;
}

static bool saw_section, saw_rdtsc;

static bool is_rdtsc(const uint8_t *code)
{
	const bool is_rdtscp = code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9;

	return is_rdtscp || (code[0] == 0x0f && code[1] == 0x31);
}

/* Continues the child until its next stop. Return: false if it ended instead. */
static bool go_on(pid_t child, int how, int *ret_status)
{
	int signal = 0;

	for (;;) {
		if (ptrace(how, child, NULL, (void *)(intptr_t)signal) != 0 ||
		    waitpid(child, ret_status, 0) != child || !WIFSTOPPED(*ret_status))
			return false;
		signal = WSTOPSIG(*ret_status);
		if ((signal & 0x7f) == SIGTRAP)
			return true;
	}
}

/*
 * A single step is an interruption, which would restart a critical section forever. So the parent
 * clears the thread's rseq_cs before the kernel looks at it, and the section is not restarted.
 */
static void leave_section(pid_t child)
{
	uint64_t area = (uint64_t)(uintptr_t)__builtin_thread_pointer() + (uint64_t)__rseq_offset;
	void *word = (void *)(uintptr_t)(area + offsetof(struct rseq, rseq_cs));

	if (__rseq_size == 0 || ptrace(PTRACE_PEEKDATA, child, word, NULL) == 0)
		return;
	saw_section = true;
	ptrace(PTRACE_POKEDATA, child, word, NULL);
}

/*
 * `cmpq %rax, %fs:8(%rcx)` or (%rdx) checks whether the thread was interrupted between two
 * sessions. It would find the rseq_cs that leave_section() cleared; the parent supplies the result
 * of an uninterrupted thread. Return: whether the instruction was that comparison.
 */
static bool look_for_it(pid_t child, uint64_t at)
{
	void *flags = (void *)offsetof(struct user, regs.eflags);
	const long zero_flag = 0x40;
	uint64_t code;

	/* The child is a fork of this process, so its code is readable here. */
	memcpy(&code, (const void *)(uintptr_t)at, sizeof(code));
	if ((code & 0xffffffffff) != 0x0841394864 && (code & 0xffffffffff) != 0x0842394864)
		return false;
	ptrace(PTRACE_POKEUSER, child, flags,
	       (void *)(ptrace(PTRACE_PEEKUSER, child, flags, NULL) | zero_flag));
	ptrace(PTRACE_POKEUSER, child, (void *)offsetof(struct user, regs.rip), (void *)(at + 5));
	return true;
}

/*
 * Steps from one breakpoint to the next. Return: instructions of the library and this program, or
 * -1.
 */
static double step_through(pid_t child)
{
	void *rip = (void *)offsetof(struct user, regs.rip);
	uint64_t last = 0, at;
	unsigned int seen = 0;
	const uint8_t *code;
	int status;

	for (;;) {
		errno = 0;
		at = (uint64_t)ptrace(PTRACE_PEEKUSER, child, rip, NULL);
		if (errno)
			return -1;
		/* A repeated string instruction stops after each repetition. */
		if (at != last && is_own(at)) {
			/* The child is a fork of this process, so its code is readable here. */
			code = (const uint8_t *)(uintptr_t)at;
			if (*code == 0xcc)
				return seen;
			seen++;
			saw_rdtsc |= is_rdtsc(code);
			last = at;
			if (look_for_it(child, at))
				continue;
		}
		last = at;
		leave_section(child);
		if (!go_on(child, PTRACE_SINGLESTEP, &status))
			return -1;
	}
}

/* Return: system calls of `CALLS` events, or -1. */
static double watch_calls(pid_t child)
{
	unsigned int stops = 0;
	int status;

	while (go_on(child, PTRACE_SYSCALL, &status)) {
		if (WSTOPSIG(status) == SIGTRAP)
			return stops / 2;
		stops++;
	}
	return -1;
}

/* Runs from one breakpoint to the next; the child is before the first. */
static int go_to_breakpoint(pid_t child)
{
	int status;

	return go_on(child, PTRACE_CONT, &status) ? 0 : -ECHILD;
}

static int step_measured(pid_t child, double *ret_instructions)
{
	if (go_to_breakpoint(child) != 0)
		return -ECHILD;
	*ret_instructions = step_through(child);
	return *ret_instructions < 0 ? -ECHILD : go_to_breakpoint(child);
}

/* `alone` and `each` are the cost of measuring, without events and per event. */
static int watch_way(pid_t child, const struct exact_way *way, double alone, double each)
{
	unsigned int steps = steps_of(way);
	double instructions, calls;
	char name[96];

	if (step_measured(child, &instructions) != 0 || go_to_breakpoint(child) != 0)
		return -ECHILD;
	calls = watch_calls(child);
	if (calls < 0)
		return -ECHILD;
	figure(way->name, (instructions - alone) / steps - each, "instructions");
	snprintf(name, sizeof(name), "%s, %u times", way->name, CALLS);
	figure(name, calls, "system calls");
	return 0;
}

static pid_t find_drain_thread(pid_t child)
{
	char path[64], name[32];
	struct dirent *entry;
	pid_t found = 0;
	DIR *threads;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task", child);
	threads = opendir(path);
	while (threads && !found && (entry = readdir(threads))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.10s/comm", child, entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) &&
		    strcmp(name, "ringpipe-drain\n") == 0)
			found = atoi(entry->d_name);
		if (file)
			fclose(file);
	}
	if (threads)
		closedir(threads);
	return found;
}

/* The drain thread's calls, from its release until it sleeps after its last write. */
struct drained {
	unsigned int calls, before_sleep;
	bool writes, writer_done, sleeps;
};

static void note_call(pid_t drain, struct drained *drained)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, drain, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	drained->sleeps = info.entry.nr == SYS_futex &&
			  (info.entry.args[1] & 0x7f) == FUTEX_WAIT;
	if (drained->sleeps && drained->writes) {
		drained->calls = drained->before_sleep;
		drained->writes = false;
	} else if (!drained->sleeps && info.entry.nr != SYS_clock_nanosleep) {
		drained->before_sleep++;
	}
	drained->writes |= info.entry.nr == SYS_write;
}

static int watch_pass(pid_t child, pid_t drain, double *ret_calls)
{
	struct drained drained = { 0 };
	int status;
	pid_t pid;

	if (go_to_breakpoint(child) != 0 ||
	    ptrace(PTRACE_SEIZE, drain, NULL, PTRACE_O_TRACESYSGOOD) != 0 ||
	    ptrace(PTRACE_INTERRUPT, drain, NULL, NULL) != 0 ||
	    waitpid(drain, &status, __WALL) != drain ||
	    ptrace(PTRACE_SYSCALL, drain, NULL, NULL) != 0 ||
	    ptrace(PTRACE_CONT, child, NULL, NULL) != 0)
		return -ECHILD;
	while (!drained.writer_done || !drained.sleeps) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 || !WIFSTOPPED(status))
			return -ECHILD;
		if (pid == child) {
			drained.writer_done = true;
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			note_call(drain, &drained);
		if (ptrace(PTRACE_SYSCALL, drain, NULL, NULL) != 0)
			return -ECHILD;
	}
	ptrace(PTRACE_INTERRUPT, drain, NULL, NULL);
	if (waitpid(drain, &status, __WALL) != drain)
		return -ECHILD;
	ptrace(PTRACE_DETACH, drain, NULL, NULL);
	*ret_calls = drained.calls;
	return 0;
}

static int watch_passes(pid_t child)
{
	pid_t drain = find_drain_thread(child);
	double tries[TRIES];
	char name[96];

	for (unsigned int i = 0; i < PASSES; i++) {
		for (unsigned int j = 0; j < TRIES; j++) {
			if (watch_pass(child, drain, &tries[j]) != 0)
				return -ECHILD;
		}
		sort_rounds(tries, TRIES);
		snprintf(name, sizeof(name), "drain thread, a pass over %u event%s to a file",
			 passes[i], passes[i] == 1 ? "" : "s");
		figure(name, tries[0], "system calls");
	}
	return 0;
}

/* Whether the machine supports restartable sequences, whether or not the library uses them. */
static bool expects_sections(void)
{
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return BENCH_RSEQ && __rseq_size > 0 && commands > 0 &&
	       (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}

static int watch(pid_t child)
{
	double once, twice;
	int status;

	if (step_measured(child, &once) != 0 || step_measured(child, &twice) != 0)
		return 1;
	/* Names the compiler and the write path of these instructions. */
	printf("%s, library %s, %s\n", COMPILER, BENCH_LIBRARY,
	       expects_sections() ? "sections" : "fallback");
	for (unsigned int i = 1; i < exact_way_count; i++) {
		if (watch_way(child, &exact_ways[i], 2 * once - twice, twice - once) != 0)
			return 1;
	}
	if (!saw_rdtsc) {
		fputs("exact: the processor's clock is not the kernel's here\n", stderr);
		return 77;
	}
	if (saw_section != expects_sections()) {
		fputs("exact: there are restartable sequences, and nothing uses them\n", stderr);
		return 1;
	}
	if (watch_passes(child) != 0)
		return 1;
	fflush(stdout);
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/*
 * Without rseq, the thread id selects the first ring to try, and a session may have fewer rings.
 * Forks until the process has an id whose ring always exists.
 */
static pid_t fork_countable(void)
{
	pid_t child;

	for (;;) {
		child = fork();
		if (child == 0 && getpid() % 8 != 0)
			_exit(0);
		if (child <= 0 || child % 8 == 0)
			return child;
		waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;

	if (argc == 4 && !expects_sections()) {
		fputs("without restartable sequences no time is coarse, the same each time\n",
		      stderr);
		return 77;
	}
	if (argc == 4)
		return exact_write_file(argv[1], argv[2], (unsigned int)atoi(argv[3]));
	if (argc == 2 && !strcmp(argv[1], "compiler"))
		return puts(COMPILER ", library " BENCH_LIBRARY) < 0;
	if (argc != 2) {
		fputs("usage: exact FILE [KIND COUNT] | compiler\n", stderr);
		return 2;
	}
	dl_iterate_phdr(find_own, NULL);
	/* On one processor, the switches between parent and child are faster. */
	bench_stay();
	child = fork_countable();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		exit(run_traced(argv[1]));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	if (!WIFSTOPPED(status)) {
		fputs("exact: no process may be traced here\n", stderr);
		return 77;
	}
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return watch(child);
}

#else

int main(void)
{
	fputs("exact: instructions are counted on x86-64 alone\n", stderr);
	return 77;
}

#endif
