/* SPDX-License-Identifier: MIT */
/*
 * Answers the command `ringpipe` with any bytes: the command prints the result, or reports the
 * error. reader_fuzz.c shows how to run it; link all of src/ except the tool's main.c.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "input.h"
#include "tools/client/proc.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe/ps.h"

static struct {
	int listen_fd;
	struct rp_target target;	/* this process, which owns the socket */
	size_t commands;
	pthread_mutex_t lock;		/* of all below */
	size_t answers;
	const uint8_t *bytes;
	size_t size;
} server;

static void *serve(void *data)
{
	char request[4096];
	int fd;

	(void)data;
	while ((fd = accept(server.listen_fd, NULL, NULL)) >= 0) {
		if (recv(fd, request, sizeof(request), 0) > 0) {
			pthread_mutex_lock(&server.lock);
			(void)!send(fd, server.bytes, server.size, MSG_NOSIGNAL);
			server.answers++;
			pthread_mutex_unlock(&server.lock);
		}
		close(fd);
	}
	return NULL;
}

static void remove_folder(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", getenv("TMPDIR"));
	rp_target_fini(&server.target);
	(void)!system(command);
	/* A command that does not ask the server has read none of the bytes. */
	if (server.answers < server.commands / 2)
		abort();
}

/* Also in a process that AFL++ forked after the first input: it has no thread that answers. */
static void start(void)
{
	const bool is_first = server.target.pid == 0;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/rp-reply-XXXXXX";
	const pid_t pid = getpid();
	struct rp_proc process;
	pthread_t thread;

	if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1) != 0 ||
	    rp_proc_read(pid, &process) != 0)
		abort();
	if (is_first)
		atexit(remove_folder);
	server.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "%s/dotnet-diagnostic-%d-%llu-socket", folder, pid,
		 (unsigned long long)process.start_time);
	if (bind(server.listen_fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(server.listen_fd, 16) != 0 || pthread_mutex_init(&server.lock, NULL) != 0 ||
	    pthread_create(&thread, NULL, serve, NULL) != 0)
		abort();
	rp_target_fini(&server.target);
	server.commands = server.answers = 0;
	if (rp_target_look(pid, &server.target) != 1 || !freopen("/dev/null", "w", stdout))
		abort();
}

/* A command may end before the server has answered, and then the bytes of its input are freed. */
static void set_answer(const uint8_t *bytes, size_t size)
{
	pthread_mutex_lock(&server.lock);
	server.bytes = bytes;
	server.size = size;
	pthread_mutex_unlock(&server.lock);
}

/* The first byte selects the command. `ps` asks this process alone, not those of the machine. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_tool_options options = { 0 };
	const struct rp_target_list list = { .rows = &server.target, .count = 1 };

	if (server.target.pid != getpid())
		start();
	if (size == 0)
		return 0;
	options.pid = server.target.pid;
	set_answer(bytes + 1, size - 1);
	options.format = bytes[0] & 1 ? RP_FORMAT_JSON :
			 bytes[0] & 8 ? RP_FORMAT_CSV : RP_FORMAT_TEXT;
	if (bytes[0] & 6)
		(void)rp_command_list(&options);
	else
		(void)rp_ps_print(&list, options.format);
	set_answer(NULL, 0);
	server.commands++;
	return 0;
}
