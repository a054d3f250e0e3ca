/* SPDX-License-Identifier: MIT */
/*
 * A program in C++ that knows nothing of ringpipe, and prints what it did: it allocates, throws,
 * handles signals, loads libraries, logs, and starts processes.
 *
 * usage: inbox_calls PART [LIBRARY]
 */
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		std::exit(1); \
	} \
} while (0)

extern char **environ;

namespace calls {

struct refusal {
	int number;
};

void throw_and_catch()
{
	for (int i = 0; i < 10; i++) {
		try {
			if (i % 2)
				throw refusal { i };
			throw std::runtime_error(std::to_string(i));
		} catch (const refusal &caught) {
			CHECK(caught.number == i);
		} catch (const std::runtime_error &caught) {
			CHECK(caught.what() == std::to_string(i));
		}
	}
}

struct block {
	char bytes[123456];
};

void allocate_and_delete()
{
	block *one = new block, *many = new block[3], *none;

	std::printf("allocated %zu %p %p\n", sizeof(block), (void *)one, (void *)many);
	none = new (std::nothrow) block[2];
	delete one;
	delete[] many;
	delete[] none;
}

volatile sig_atomic_t received, sender;

void handle(int number)
{
	received += number;
}

void handle_info(int number, siginfo_t *info, void *)
{
	received += number;
	sender = info->si_pid;
}

void signals()
{
	struct sigaction action = { }, old = { };

	action.sa_sigaction = handle_info;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
	CHECK(std::signal(SIGUSR2, handle) == SIG_DFL);
	CHECK(kill(getpid(), SIGUSR1) == 0 && sender == getpid());
	CHECK(raise(SIGUSR2) == 0 && received == SIGUSR1 + SIGUSR2);
	std::printf("signals %p %p %d\n", (void *)handle_info, (void *)handle, getpid());
	/* The program sees its own handlers and flags. */
	CHECK(sigaction(SIGUSR1, nullptr, &old) == 0 && old.sa_sigaction == handle_info);
	CHECK((old.sa_flags & (SA_SIGINFO | SA_RESTART)) == (SA_SIGINFO | SA_RESTART));
	action.sa_handler = handle;
	action.sa_flags = static_cast<int>(SA_RESETHAND);
	CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_sigaction == handle_info);
	CHECK(std::signal(SIGUSR2, SIG_IGN) == handle);
	CHECK(raise(SIGUSR1) == 0 && received == 2 * SIGUSR1 + SIGUSR2);
	CHECK(sigaction(SIGUSR1, nullptr, &old) == 0 && old.sa_handler == SIG_DFL);
	CHECK(std::signal(SIGUSR2, SIG_DFL) == SIG_IGN);
	CHECK(std::signal(-1, handle) == SIG_ERR && errno == EINVAL);
	CHECK(sigaction(SIGKILL, &action, nullptr) == -1 && errno == EINVAL);
}

void log()
{
	errno = ENOENT;
	syslog(LOG_USER | LOG_DEBUG, "order %d of %s: %m", 7, "Ada");
	syslog(LOG_DEBUG, "%01100d", 1);
}

void load(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW);

	CHECK(handle);
	std::printf("loaded %s %p\n", library, handle);
	CHECK(dlclose(handle) == 0);
	CHECK(!dlopen("/nonexistent/library.so", RTLD_NOW));
	CHECK(std::strstr(dlerror(), "/nonexistent/library.so"));
	CHECK(dlopen(nullptr, RTLD_NOW));
	handle = dlopen("libm.so.6", RTLD_NOW);
	CHECK(handle);
}

void wait_for(pid_t child, int expected)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

/* The arguments and the environment arrive as the caller gave them. */
void execute_with_list()
{
	char variable[] = "INBOX_TEST=5";
	char *const environment[] = { variable, nullptr };
	static const char script[] = "test \"$0$1$2$3$4$5$6$7\" = abcdefgh || exit 1; "
				     "exit ${INBOX_TEST-4}";

	for (volatile int kind = 0; kind < 3; kind = kind + 1) {
		pid_t child = vfork();

		if (child == 0 && kind == 0)
			execl("/bin/sh", "sh", "-c", script, "a", "b", "c", "d", "e", "f", "g",
			      "h", nullptr);
		else if (child == 0 && kind == 1)
			execlp("sh", "sh", "-c", script, "a", "b", "c", "d", "e", "f", "g", "h",
			       nullptr);
		else if (child == 0)
			execle("/bin/sh", "sh", "-c", script, "a", "b", "c", "d", "e", "f", "g",
			       "h", nullptr, environment);
		if (child == 0)
			_exit(1);
		wait_for(child, kind == 2 ? 5 : 4);
	}
}

void processes()
{
	char name[] = "true";
	char *const arguments[] = { name, nullptr };
	pid_t child = fork();

	if (child == 0)
		_exit(3);
	wait_for(child, 3);
	std::printf("forked %d\n", child);
	child = vfork();
	if (child == 0) {
		execv("/bin/true", arguments);
		_exit(1);
	}
	wait_for(child, 0);
	CHECK(posix_spawnp(&child, "true", nullptr, nullptr, arguments, environ) == 0);
	wait_for(child, 0);
	std::printf("spawned %d\n", child);
	CHECK(posix_spawn(&child, "/nonexistent", nullptr, nullptr, arguments, environ) == ENOENT);
	CHECK(execv("/nonexistent", arguments) == -1 && errno == ENOENT);
	CHECK(execl("/nonexistent/l", name, nullptr) == -1 && errno == ENOENT);
	CHECK(execlp("nonexistent-lp", name, "1", nullptr) == -1 && errno == ENOENT);
	CHECK(execle("/nonexistent/le", name, nullptr, environ) == -1 && errno == ENOENT);
	CHECK(fexecve(99, arguments, environ) == -1 && errno == EBADF);
	CHECK(execveat(AT_FDCWD, "/nonexistent/at", arguments, environ, 0) == -1 &&
	      errno == ENOENT);
	execute_with_list();
	std::fflush(stdout);
	unsetenv("RINGPIPE_CONFIG");
	execvp("true", arguments);
	CHECK(false);
}

} // namespace calls

int main(int argc, char **argv)
{
	const std::string part = argc > 1 ? argv[1] : "";

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	if (part == "throw")
		calls::throw_and_catch();
	else if (part == "new")
		calls::allocate_and_delete();
	else if (part == "signals")
		calls::signals();
	else if (part == "log")
		calls::log();
	else if (part == "load" && argc > 2)
		calls::load(argv[2]);
	else if (part == "processes")
		calls::processes();
	else
		return 2;
	return 0;
}
