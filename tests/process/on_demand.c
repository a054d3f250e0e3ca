/* SPDX-License-Identifier: MIT */
/*
 * usage: on_demand COMMAND [CASE]
 *
 * RP_DIAGNOSTICS_ON_DEMAND: a process polls a descriptor until a client connects. Each case runs in
 * a forked child, because a process keeps the thread. The cases with variables of the environment
 * run in this program, executed again with the name of the case. COMMAND is `ringpipe`.
 */
#include "check.h"
#include "counting.h"
#include "self_client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define EVENTS 1000u
#define CALLERS 8
#define NOBODY 65534

RP_DIAGNOSTICS(RP_DIAGNOSTICS_ON_DEMAND);

RP_PROVIDER(host, "Test-On-Demand");
RP_EVENT(host, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(serial));

static const char *command;
static char *program;
static char folder[] = "/tmp/rp-on-demand-XXXXXX";

static unsigned int count_threads(void)
{
	return count_entries("/proc/self/task") - 2;	/* `.` and `..` */
}

static unsigned int count_sockets(void)
{
	DIR *directory = opendir(getenv("TMPDIR"));
	struct dirent *entry;
	unsigned int count = 0;

	check(directory);
	while ((entry = readdir(directory)))
		count += strstr(entry->d_name, "-diagnostic-") != NULL;
	closedir(directory);
	return count;
}

static bool is_readable(int fd, int most_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, most_ms) == 1 && (ready.revents & POLLIN);
}

/* Poll the descriptor with an event loop as that of a server, and start the thread. */
static void serve_first_client(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int loop = epoll_create1(EPOLL_CLOEXEC);

	check(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0);
	check(epoll_wait(loop, &event, 1, PATIENCE_S * 1000) == 1);
	check(count_threads() == 1);
	check(rp_diagnostics_dispatch() == 0);
	check(count_threads() == 2);
	check(close(loop) == 0);
}

/* Send ResumeRuntime, and wait for the reply, which only the thread of the library sends. */
static void ask_thread(void)
{
	int fd = ask(4, 1, "", 0);
	char reply[64];

	check(is_readable(fd, PATIENCE_S * 1000) && recv(fd, reply, sizeof(reply), 0) > 0);
	check(close(fd) == 0);
}

static void start_thread(void)
{
	int fd = rp_diagnostics_fd(), client;

	check(fd >= 0);
	client = ask(4, 1, "", 0);
	serve_first_client(fd);
	check(close(client) == 0);
}

static int exit_status_of_child(void (*body)(void))
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		body();
		exit(0);
	}
	check(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void run_in_child(void (*body)(void))
{
	check(exit_status_of_child(body) == 0);
}

static void process_has_no_socket_and_no_thread_until_it_asks(void)
{
	int fd;

	check(count_threads() == 1 && count_sockets() == 0);
	fd = rp_diagnostics_fd();
	check(fd >= 0 && count_threads() == 1 && count_sockets() == 1);
	check(rp_diagnostics_fd() == fd);
}

static void exit_with_2_if_readable(void)
{
	exit(is_readable(rp_diagnostics_fd(), 0) ? 2 : 0);
}

/* Another `ringpipe ps` of this machine may be the client of some of the processes. */
static void descriptor_is_not_readable_without_a_client(void)
{
	int attempts = 10;

	while (exit_status_of_child(exit_with_2_if_readable) != 0)
		check(--attempts > 0);
}

static void thread_starts_for_the_first_client_and_serves_the_next_ones(void)
{
	int fd = rp_diagnostics_fd(), client = ask(4, 1, "", 0);
	char reply[64];

	serve_first_client(fd);
	check(is_readable(client, PATIENCE_S * 1000));
	check(recv(client, reply, sizeof(reply), 0) > 0 && close(client) == 0);
	ask_thread();
	check(rp_diagnostics_fd() == -EALREADY);
	check(rp_diagnostics_dispatch() == 0 && count_threads() == 2);
}

static void client_that_has_left_starts_the_thread_too(void)
{
	int fd = rp_diagnostics_fd();

	check(fd >= 0 && close(ask(4, 1, "", 0)) == 0);
	serve_first_client(fd);
	ask_thread();
}

static void start_in_child(void)
{
	check(count_threads() == 1);
	start_thread();
	ask_thread();
}

static void forked_child_polls_a_descriptor_of_its_own(void)
{
	start_thread();
	check(count_sockets() == 1);
	run_in_child(start_in_child);
	check(count_sockets() == 1);
	ask_thread();
}

static void exit_removes_the_socket(void)
{
	run_in_child(start_thread);
	check(count_sockets() == 0);
	run_in_child(process_has_no_socket_and_no_thread_until_it_asks);
	check(count_sockets() == 0);
}

static void *dispatch(void *start)
{
	pthread_barrier_wait(start);
	check(rp_diagnostics_dispatch() == 0);
	return NULL;
}

static void calls_of_several_threads_start_one_thread(void)
{
	pthread_t callers[CALLERS];
	pthread_barrier_t start;

	check(pthread_barrier_init(&start, NULL, CALLERS) == 0);
	for (int i = 0; i < CALLERS; i++)
		check(pthread_create(&callers[i], NULL, dispatch, &start) == 0);
	for (int i = 0; i < CALLERS; i++)
		check(pthread_join(callers[i], NULL) == 0);
	/* A thread that was joined may still be in the list for a moment. */
	wait_until(count_threads() == 2);
	ask_thread();
}

static void closed_descriptors_are_opened_again(void)
{
	check(rp_diagnostics_fd() >= 0);
	closefrom(3);
	check(count_sockets() == 1);
	start_thread();
	ask_thread();
}

/* The host has a file of its own under each number of the library. */
static void replaced_descriptors_stay_the_hosts(void)
{
	int ends[2], fd = rp_diagnostics_fd();
	char byte;

	check(fd >= 0 && pipe(ends) == 0);
	for (int number = 3; number < ends[0]; number++)
		check(dup2(ends[0], number) == number);
	start_thread();
	ask_thread();
	check(write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'x');
	for (int number = 3; number < ends[0]; number++)
		check(fcntl(number, F_GETFD) == 0);
}

static void prepared_process_has_the_thread(void)
{
	struct rp_prepare_options options = RP_PREPARE_OPTIONS_INIT;

	options.what = RP_PREPARE_STATIC_KEYS;
	check(rp_prepare(&options) == 0 && rp_prepare(&options) == 0);
	check(count_threads() == 2 && rp_diagnostics_fd() == -EALREADY);
	ask_thread();
}

static void socket_belongs_to_the_user_that_the_process_has_then(void)
{
	uid_t user = getuid() == 0 ? NOBODY : getuid();
	struct dirent *entry;
	struct stat file;
	DIR *sockets;

	check(chmod(folder, 0777) == 0 && setgid(getgid()) == 0 && setuid(user) == 0);
	check(count_sockets() == 0 && rp_diagnostics_fd() >= 0);
	sockets = opendir(folder);
	check(sockets);
	while ((entry = readdir(sockets)) && !strstr(entry->d_name, "-diagnostic-"))
		;
	check(entry && fstatat(dirfd(sockets), entry->d_name, &file, 0) == 0);
	check(file.st_uid == user && (file.st_mode & 0777) == 0600);
	check(closedir(sockets) == 0);
	start_thread();
	ask_thread();
}

static void write_events(void)
{
	int fd = rp_diagnostics_fd();

	check(fd >= 0);
	serve_first_client(fd);
	wait_until(host_mark_enabled());
	for (uint32_t i = 0; i < EVENTS; i++)
		check(host_mark(i) == 0);
}

static void collect_records_a_process_that_polls(void)
{
	char path[64], line[512];
	uint64_t events, lost;
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		write_events();
		exit(0);
	}
	wait_until(count_sockets() == 1);
	snprintf(path, sizeof(path), "%s/t.nettrace", folder);
	snprintf(line, sizeof(line), "'%s' collect -q --providers Test-On-Demand -o '%s' -p %d",
		 command, path, (int)child);
	check(system(line) == 0);
	check(waitpid(child, &status, 0) == child && status == 0);
	count_trace(path, "Test-On-Demand", &events, &lost);
	check(events == EVENTS && lost == 0);
	check(unlink(path) == 0);
}

static void without_diagnostics(void)
{
	struct rp_prepare_options options = RP_PREPARE_OPTIONS_INIT;

	options.what = RP_PREPARE_SESSIONS;
	check(rp_diagnostics_fd() == -ENOTCONN && rp_diagnostics_dispatch() == -ENOTCONN);
	check(rp_prepare(&options) == 0 && rp_diagnostics_fd() == -ENOTCONN);
	check(count_sockets() == 0);
}

static void without_folder(void)
{
	check(rp_diagnostics_fd() == -ENOTCONN && rp_diagnostics_dispatch() == -ENOTCONN);
	check(count_threads() == 1);
}

static void missing_folder_gives_no_descriptor(void)
{
	check(setenv("TMPDIR", "/nowhere/at/all", 1) == 0);
	run_in_child(without_folder);
}

/* A child has only the ports that connect. */
static void with_port_at_a_path(void)
{
	check(count_threads() == 2 && rp_diagnostics_fd() == -EALREADY);
	ask_thread();
	run_in_child(start_in_child);
}

static void with_port_that_connects(void)
{
	check(count_threads() == 2 && rp_diagnostics_fd() == -EALREADY);
	check(rp_diagnostics_dispatch() == 0);
	ask_thread();
}

static void with_session(void)
{
	int fd = rp_diagnostics_fd();

	check(host_mark_enabled() && fd >= 0 && count_threads() == 2);
	check(host_mark(0) == 0);
	check(rp_diagnostics_dispatch() == 0 && count_threads() == 3);
	ask_thread();
}

static const struct other {
	const char *name, *variable, *value;
	void (*body)(void);
} others[] = {
	{ "without_diagnostics", "RINGPIPE_DIAGNOSTICS", "0", without_diagnostics },
	{ "with_port_at_a_path", "RINGPIPE_PORTS", "port,listen,nosuspend", with_port_at_a_path },
	{ "with_port_that_connects", "RINGPIPE_PORTS", "none,connect,nosuspend",
	  with_port_that_connects },
	{ "with_session", "RINGPIPE_CONFIG", "Test-On-Demand", with_session },
};

static const struct other *other;

static void execute_again(void)
{
	char *const arguments[] = { program, (char *)command, (char *)other->name, NULL };

	check(chdir(folder) == 0 && setenv("RINGPIPE_OUTPUT", "/dev/null", 1) == 0);
	check(setenv(other->variable, other->value, 1) == 0);
	execv(program, arguments);
	check(!"execv");
}

static const struct {
	const char *name;
	void (*body)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(process_has_no_socket_and_no_thread_until_it_asks),
	CASE(descriptor_is_not_readable_without_a_client),
	CASE(thread_starts_for_the_first_client_and_serves_the_next_ones),
	CASE(client_that_has_left_starts_the_thread_too),
	CASE(forked_child_polls_a_descriptor_of_its_own),
	CASE(exit_removes_the_socket),
	CASE(calls_of_several_threads_start_one_thread),
	CASE(closed_descriptors_are_opened_again),
	CASE(replaced_descriptors_stay_the_hosts),
	CASE(prepared_process_has_the_thread),
	CASE(socket_belongs_to_the_user_that_the_process_has_then),
	CASE(collect_records_a_process_that_polls),
	CASE(missing_folder_gives_no_descriptor),
};

#define CASES (sizeof(cases) / sizeof(cases[0]))
#define OTHERS (sizeof(others) / sizeof(others[0]))

int main(int argc, char **argv)
{
	check(argc >= 2);
	program = realpath(argv[0], NULL);	/* Valgrind has another /proc/self/exe */
	command = argv[1];
	check(program);
	for (size_t i = 0; argc == 3 && i < OTHERS; i++) {
		if (strcmp(argv[2], others[i].name) == 0)
			others[i].body();
	}
	if (argc == 3)
		return 0;
	check(mkdtemp(folder) && setenv("TMPDIR", folder, 1) == 0);
	printf("1..%zu\n", CASES + OTHERS);
	for (size_t i = 0; i < CASES; i++) {
		fflush(stdout);
		run_in_child(cases[i].body);
		printf("ok %zu - %s\n", i + 1, cases[i].name);
	}
	for (size_t i = 0; i < OTHERS; i++) {
		fflush(stdout);
		other = &others[i];
		run_in_child(execute_again);
		printf("ok %zu - %s\n", CASES + i + 1, other->name);
	}
	check(rmdir(folder) == 0);
	return 0;
}
