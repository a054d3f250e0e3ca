/* SPDX-License-Identifier: MIT */
/*
 * What of the cost can be counted and is the same each time: instructions of an event, stepped
 * through one by one by a parent; its system calls; what the process allocates while events come.
 *
 *	exact			prints the figures
 *	exact FILE COUNT	writes so many events of 32 bytes to a file, for exact.py
 *
 * Exit: 77 with a reason where they cannot be counted.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define WARM 100u
#define STEPPED 15u		/* events of each row; the median is the figure */
#define CALLS 2000u		/* of each row, looking for system calls */
#define BURST 20000u
#define RING (256u << 20)

#if defined(__x86_64__)

#if defined(__clang__)
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)
#define COMPILER "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." \
	TEXT(__clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

RP_PROVIDER(nobody, "Bench-Nobody");
RP_EVENT(nobody, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

RP_PROVIDER(bench, "Bench-Exact");
RP_EVENT(bench, empty, 1, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(bench, bytes8, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));
RP_EVENT(bench, bytes32, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(bench, text, 4, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_STRING(s));
RP_EVENT(bench, blob, 5, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));
RP_COUNTER(bench, added, NULL, NULL);

RP_PROVIDER(flight, "Bench-Flight");
RP_EVENT(flight, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

RP_PROVIDER(both, "Bench-Both");
RP_EVENT(both, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static char room[4096];
static const char *volatile customer = "a customer's name";
static struct rp_activity activity;

static void nothing(void)
{
}

static void disabled(void)
{
	nobody_bytes32(1, 2, 3, 4);
}

static void empty(void)
{
	bench_empty();
}

static void bytes8(void)
{
	bench_bytes8(1);
}

static void bytes32(void)
{
	bench_bytes32(1, 2, 3, 4);
}

static void text(void)
{
	bench_text(1, customer);
}

static void blob512(void)
{
	bench_blob(room, 512);
}

static void overwriting(void)
{
	flight_bytes32(1, 2, 3, 4);
}

static void two_sessions(void)
{
	both_bytes32(1, 2, 3, 4);
}

static void count(void)
{
	bench_added_add(1);
}

static const struct row {
	const char *name;
	void (*run)(void);
	bool writes;		/* into the session that is waited for */
} rows[] = {
	{ "nothing", nothing, false },
	{ "disabled event", disabled, false },
	{ "event 0 B", empty, true },
	{ "event 8 B", bytes8, true },
	{ "event 32 B", bytes32, true },
	{ "event with a string", text, true },
	{ "event 512 B", blob512, true },
	{ "event 32 B, overwriting", overwriting, false },
	{ "event 32 B, two sessions", two_sessions, false },
	{ "counter", count, false },
	/* The last: it is the thread's from then on. */
	{ "event 32 B with activity id", bytes32, true },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Allocations of this process: the linker has the library and libc call these. */
static bool counting;
static unsigned int by_writer, by_others;
static __thread bool is_writer __attribute__((tls_model("initial-exec")));

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static void allocates(void)
{
	if (__atomic_load_n(&counting, __ATOMIC_RELAXED))
		__atomic_fetch_add(is_writer ? &by_writer : &by_others, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	allocates();
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocates();
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocates();
	return __libc_realloc(old, size);
}

/* The parent looks at what happens between the two breakpoints. */
static __attribute__((noinline)) void measure(const struct row *row, unsigned int times)
{
	__asm__ volatile("int3" : : : "memory");
	for (unsigned int i = 0; i < times; i++)
		row->run();
	__asm__ volatile("int3" : : : "memory");
}

static void write_bursts(struct rp_session *session, uint64_t written)
{
	/* The first burst may make the drain thread's buffers as large as they get. */
	for (unsigned int burst = 0; burst < 4; burst++) {
		for (unsigned int row = 0; row < ROWS; row++) {
			for (unsigned int i = 0; i < BURST / 10; i++)
				rows[row].run();
			written += rows[row].writes ? BURST / 10 : 0;
		}
		bench_settle(session, written);
		__atomic_store_n(&counting, true, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&counting, false, __ATOMIC_RELAXED);
}

/* The process that is looked at. */
static int run_traced(void)
{
	struct rp_session *session = bench_start("Bench-Exact", "/dev/null", RING, 0);
	struct rp_session *recorder = bench_start("Bench-Flight", NULL, RING, RP_SESSION_OVERWRITE);
	struct rp_session *one = bench_start("Bench-Both", "/dev/null", RING, 0);
	struct rp_session *two = bench_start("Bench-Both", "/dev/null", RING, 0);
	uint64_t written = 0;

	is_writer = true;
	rp_activity_create(&activity.id);
	for (unsigned int row = 0; row < ROWS; row++) {
		if (row == ROWS - 1)
			rp_activity_set(&activity);
		for (unsigned int i = 0; i < WARM; i++)
			rows[row].run();
		for (unsigned int i = 0; i < STEPPED; i++)
			measure(&rows[row], 1);
		measure(&rows[row], CALLS);
		written += rows[row].writes ? WARM + STEPPED + CALLS : 0;
		bench_settle(session, written);
	}
	write_bursts(session, written);
	rp_session_stop(two, NULL);
	rp_session_stop(one, NULL);
	rp_session_stop(recorder, NULL);
	rp_session_stop(session, NULL);
	figure("allocations after start, writer", by_writer, "calls");
	figure("allocations after start, other threads", by_others, "calls");
	return 0;
}

/* Code of this program and of the library; that of libc is the processor's. */
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

/* Goes on, until the child stops again. Return: whether it did, and did not end. */
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
 * A step is a stop, which would restart a section for ever: before the kernel looks, the thread's
 * word that names the section is zero, and nothing is restarted.
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
 * `cmpq %rax, %fs:8(%rcx)`, the look whether anything came between two sessions. It would find the
 * word that leave_section() took away; without us nothing came between, so that is its answer.
 * Return: whether it was that.
 */
static bool look_for_it(pid_t child, uint64_t at, long code)
{
	void *flags = (void *)offsetof(struct user, regs.eflags);
	const long zero_flag = 0x40;

	if ((code & 0xffffffffff) != 0x0841394864)
		return false;
	ptrace(PTRACE_POKEUSER, child, flags,
	       (void *)(ptrace(PTRACE_PEEKUSER, child, flags, NULL) | zero_flag));
	ptrace(PTRACE_POKEUSER, child, (void *)offsetof(struct user, regs.rip), (void *)(at + 5));
	return true;
}

/* From one breakpoint to the other. Return: instructions of ours, or -1. */
static double step_through(pid_t child)
{
	void *rip = (void *)offsetof(struct user, regs.rip);
	uint64_t last = 0, at;
	unsigned int seen = 0;
	int status;

	for (;;) {
		errno = 0;
		at = (uint64_t)ptrace(PTRACE_PEEKUSER, child, rip, NULL);
		if (errno)
			return -1;
		/* A string instruction stops after each of its rounds. */
		if (at != last && is_own(at)) {
			long code = ptrace(PTRACE_PEEKTEXT, child, at, NULL);

			if ((code & 0xff) == 0xcc)
				return seen;
			seen++;
			saw_rdtsc |= (code & 0xffff) == 0x310f;
			last = at;
			if (look_for_it(child, at, code))
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

static int watch_row(pid_t child, double *ret_instructions, double *ret_calls)
{
	double rounds[STEPPED];
	int status;

	for (unsigned int i = 0; i < STEPPED; i++) {
		if (!go_on(child, PTRACE_CONT, &status))
			return -ECHILD;
		rounds[i] = step_through(child);
		if (rounds[i] < 0 || !go_on(child, PTRACE_CONT, &status))
			return -ECHILD;
	}
	sort_rounds(rounds, STEPPED);
	*ret_instructions = rounds[STEPPED / 2];
	if (!go_on(child, PTRACE_CONT, &status))
		return -ECHILD;
	*ret_calls = watch_calls(child);
	return *ret_calls < 0 ? -ECHILD : 0;
}

static int watch(pid_t child)
{
	double instructions[ROWS], calls[ROWS];
	int status;

	for (unsigned int row = 0; row < ROWS; row++) {
		if (watch_row(child, &instructions[row], &calls[row]) != 0)
			return 1;
	}
	if (!saw_rdtsc) {
		fputs("exact: the processor's clock is not the kernel's here\n", stderr);
		return 77;
	}
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return 1;
	/* Which compiler's instructions these are, and of which path. */
	printf("%s, library %s, %s\n", COMPILER, BENCH_LIBRARY,
	       saw_section ? "sections" : "fallback");
	for (unsigned int row = 1; row < ROWS; row++) {
		char name[64];

		figure(rows[row].name, instructions[row] - instructions[0], "instructions");
		snprintf(name, sizeof(name), "%s, %u times", rows[row].name, CALLS);
		figure(name, calls[row], "system calls");
	}
	return 0;
}

static int write_file(const char *path, unsigned int events)
{
	struct rp_session_stats stats = { .size = sizeof(stats) };
	struct rp_session *session = bench_start("Bench-Exact", path, RING, 0);

	for (unsigned int i = 0; i < events; i++)
		bench_bytes32(i, i, i, i);
	rp_session_stop(session, &stats);
	return stats.delivered == events ? 0 : 1;
}

/*
 * Without sections a thread looks for a ring from the one its number says, and a session may have
 * fewer: a process whose number leads to one that is always there.
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
	cpu_set_t here;
	pid_t child;
	int status;

	if (argc == 3)
		return write_file(argv[1], (unsigned int)atoi(argv[2]));
	dl_iterate_phdr(find_own, NULL);
	child = fork_countable();
	if (child == 0) {
		CPU_ZERO(&here);
		CPU_SET(sched_getcpu(), &here);
		sched_setaffinity(0, sizeof(here), &here);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		exit(run_traced());
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
