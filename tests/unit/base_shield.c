/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/shield.h"

static volatile sig_atomic_t caught;
static volatile pid_t sender;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	caught = number;
	sender = info->si_pid;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	action.sa_sigaction = on_signal;
	cr_assert_eq(sigaction(SIGPIPE, &action, NULL), 0);
	cr_assert_eq(sigaction(SIGXFSZ, &action, NULL), 0);
	caught = 0;
	sender = 0;
}

static void write_to_nobody(void)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	close(fds[0]);
	cr_assert_eq(write(fds[1], "x", 1), -1);
	cr_assert_eq(errno, EPIPE);
	close(fds[1]);
}

/* Sends the signal from another process, which has ended when this returns. */
static pid_t send_from_a_child(int number)
{
	pid_t child = fork();

	if (child == 0)
		_exit(kill(getppid(), number) != 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	return child;
}

Test(shield, signal_of_a_write_is_consumed)
{
	struct rp_shield outer, inner;

	catch_signals();
	outer = rp_shield_raise();
	inner = rp_shield_raise();
	write_to_nobody();
	errno = ENOANO;
	rp_shield_lower(&inner);
	cr_expect_eq(errno, ENOANO);
	write_to_nobody();
	rp_shield_lower(&outer);
	cr_expect_eq(caught, 0);
	/* The mask is restored: without a shield the signal arrives. */
	write_to_nobody();
	cr_expect_eq(caught, SIGPIPE);
}

Test(shield, signal_of_another_process_is_delivered_with_its_sender)
{
	static const int numbers[] = { SIGPIPE, SIGXFSZ };

	for (int i = 0; i < 2; i++) {
		struct rp_shield shield;
		pid_t child;

		catch_signals();
		shield = rp_shield_raise();
		child = send_from_a_child(numbers[i]);
		cr_expect_eq(caught, 0);
		rp_shield_lower(&shield);
		cr_expect_eq(caught, numbers[i]);
		cr_expect_eq(sender, child);
	}
}

Test(shield, both_a_write_and_another_process_leave_the_one_signal)
{
	struct rp_shield shield;
	pid_t child;

	catch_signals();
	shield = rp_shield_raise();
	child = send_from_a_child(SIGPIPE);
	write_to_nobody();
	rp_shield_lower(&shield);
	cr_expect_eq(caught, SIGPIPE);
	cr_expect_eq(sender, child);
}

Test(shield, signal_that_was_pending_stays)
{
	struct rp_shield shield;
	sigset_t set;

	catch_signals();
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	raise(SIGPIPE);
	shield = rp_shield_raise();
	write_to_nobody();
	rp_shield_lower(&shield);
	cr_expect_eq(caught, 0);
	cr_assert_eq(sigpending(&set), 0);
	cr_expect_eq(sigismember(&set, SIGPIPE), 1);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	cr_assert_eq(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	cr_expect_eq(caught, SIGPIPE);
}
