/* SPDX-License-Identifier: MIT */
/* The tools read about other processes in /proc. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/client/proc.h"

#define PAGE 4096ul

/* In the new process, which ends with its parent. */
static __attribute__((noinline, noreturn)) void run(bool (*prepare)(void), int ready_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prepare && !prepare())
		_exit(1);
	(void)!write(ready_fd, "r", 1);
	for (;;)
		pause();
}

/*
 * Start a process that does nothing after the function. It ends if the function fails. Its stack
 * continues below the array, so no page of it has texts that the kernel put above the stack.
 */
static pid_t start(bool (*prepare)(void))
{
	char apart[4 * PAGE];
	int ready[2];
	char word;
	pid_t child;

	__asm__ volatile("" : : "r"(apart) : "memory");
	cr_assert(pipe2(ready, O_CLOEXEC) == 0);
	child = fork();
	cr_assert(child >= 0);
	if (child == 0)
		run(prepare, ready[1]);
	close(ready[1]);
	if (read(ready[0], &word, 1) != 1) {
		waitpid(child, NULL, 0);
		child = 0;
	}
	close(ready[0]);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(client_proc, a_process_descends_from_a_root_of_the_same_start_only)
{
	const pid_t child = start(NULL);
	struct rp_proc processes[2];
	struct rp_proc_roots roots = { .processes = processes, .count = 2 };

	cr_assert(rp_proc_read(getppid(), &processes[0]) == 0);
	cr_assert(rp_proc_read(getpid(), &processes[1]) == 0);
	processes[0].start_time++;
	cr_expect(rp_proc_descends(getpid(), &roots));
	cr_expect(rp_proc_descends(child, &roots));
	/* As if the ids had been those of processes that have ended. */
	processes[1].start_time--;
	cr_expect(!rp_proc_descends(getpid(), &roots));
	cr_expect(!rp_proc_descends(child, &roots));
	/* Without a root, all processes are wanted. */
	roots.count = 0;
	cr_expect(rp_proc_descends(child, &roots));
	end(child);
	roots.count = 2;
	cr_expect(!rp_proc_descends(child, &roots));
}

/* Get the addresses of the arguments and of the environment. Return: whether they are known. */
static bool find_texts(uintptr_t *ret_start, uintptr_t *ret_end)
{
	char stat[1024];
	const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	const char *at;
	unsigned long texts[4];		/* fields 48 to 51 */

	close(fd);
	if (size <= 0)
		return false;
	stat[size] = '\0';
	at = strrchr(stat, ')');
	for (int field = 2; at && field < 48; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %lu %lu %lu %lu", &texts[0], &texts[1], &texts[2],
			  &texts[3]) != 4 || !texts[0])
		return false;
	*ret_start = texts[0] & ~(PAGE - 1);
	*ret_end = (texts[3] + PAGE - 1) & ~(PAGE - 1);
	return true;
}

/* Remove the memory with the texts. userfaultfd(2) should provide it again, and never does. */
static bool lose_texts(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	const int fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	uintptr_t start, end;

	if (fault_fd < 0 || ioctl(fault_fd, UFFDIO_API, &api) < 0 || !find_texts(&start, &end))
		return false;
	range.range.start = start;
	range.range.len = end - start;
	return ioctl(fault_fd, UFFDIO_REGISTER, &range) == 0 &&
	       madvise((void *)start, end - start, MADV_DONTNEED) == 0;
}

Test(client_proc, texts_of_a_process_that_never_arrive_are_not_waited_for, .timeout = 60)
{
	const pid_t child = start(lose_texts);
	char *directory = NULL, *name, *command_line;

	if (!child)
		cr_skip("userfaultfd(2) is not permitted");
	/* The child had the same ones. */
	command_line = rp_proc_command_line(getpid());
	cr_assert(command_line && *command_line);
	free(command_line);
	command_line = rp_proc_command_line(child);
	cr_assert_not_null(command_line);
	cr_expect_str_eq(command_line, "");
	name = rp_proc_name(child);
	cr_assert_not_null(name);
	cr_expect_str_neq(name, "");
	(void)rp_proc_directory(child, &directory);
	cr_expect(rp_proc_code(child) != RP_PROC_NO_MEMORY);
	free(directory);
	free(name);
	free(command_line);
	end(child);
}
