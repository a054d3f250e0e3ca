/* SPDX-License-Identifier: MIT */
/*
 * Answers the command `ringpipe` with any bytes: the command prints the result, or reports the
 * error. reader_fuzz.c shows how to run it; link all of src/ except the tool's main.c.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "input.h"
#include "tools/client/proc.h"
#include "tools/cli/tool.h"

static struct {
	int listen_fd;
	char pid[16];			/* the process that seems to own the socket */
	const uint8_t *bytes;
	size_t size;
} server = { .listen_fd = -1 };

static void *serve(void *data)
{
	char request[4096];
	int fd;

	(void)data;
	while ((fd = accept(server.listen_fd, NULL, NULL)) >= 0) {
		if (recv(fd, request, sizeof(request), 0) > 0)
			(void)!send(fd, server.bytes, server.size, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* A process without a socket that ends with this one. */
static pid_t spawn_sleeper(void)
{
	char parent[32];
	char name[] = "tail", follow[] = "-f", nothing[] = "/dev/null";
	char *const arguments[] = { name, parent, follow, nothing, NULL };
	extern char **environ;
	pid_t pid;

	snprintf(parent, sizeof(parent), "--pid=%d", getpid());
	if (posix_spawnp(&pid, "tail", NULL, NULL, arguments, environ) != 0)
		abort();
	return pid;
}

static void remove_folder(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", getenv("TMPDIR"));
	kill((pid_t)atoi(server.pid), SIGKILL);
	(void)!system(command);
}

static void start(void)
{
	static char folder[] = "/tmp/rp-reply-XXXXXX";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t pid = spawn_sleeper();
	struct rp_proc process;
	pthread_t thread;

	if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1) != 0 ||
	    rp_proc_read(pid, &process) != 0)
		abort();
	snprintf(server.pid, sizeof(server.pid), "%d", pid);
	atexit(remove_folder);
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "%s/dotnet-diagnostic-%d-%llu-socket", folder, pid,
		 (unsigned long long)process.start_time);
	server.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(server.listen_fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(server.listen_fd, 16) != 0 ||
	    pthread_create(&thread, NULL, serve, NULL) != 0 || !freopen("/dev/null", "w", stdout))
		abort();
}

/* The first byte selects the command: seldom `ps`, which examines all processes. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *operands[] = { server.pid, NULL };
	struct rp_tool_options options = { .operands = operands, .operand_count = 1 };

	if (server.listen_fd < 0)
		start();
	if (size == 0)
		return 0;
	server.bytes = bytes + 1;
	server.size = size - 1;
	options.format = bytes[0] & 1 ? RP_FORMAT_JSON :
			 bytes[0] & 8 ? RP_FORMAT_CSV : RP_FORMAT_TEXT;
	if (bytes[0] & 6)
		(void)rp_command_list(&options);
	else
		(void)rp_command_ps(&(struct rp_tool_options){ .format = options.format });
	return 0;
}
