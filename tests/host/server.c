/* SPDX-License-Identifier: MIT */
/*
 * A host that clients ask. It reports each callback on standard output and obeys standard input:
 * "ending" makes the host shut down, "quit" ends the program.
 */
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "tiny.h"

RP_DIAGNOSTICS(RP_DIAGNOSTICS_WAIT);
RP_PROVIDER(server, "Tiny-Server");
RP_EVENT(server, line_read, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(line));

static int state = RP_HOST_RUNNING;

static int process_state(void *data)
{
	(void)data;
	return __atomic_load_n(&state, __ATOMIC_RELAXED);
}

static void start_up(void *data)
{
	(void)data;
	puts("started");
}

static void thread_begin(const char *name, void *data)
{
	(void)data;
	printf("thread %s\n", name);
}

static int command(const struct rp_host_command *request, struct rp_host_reply *reply, void *data)
{
	static const char byte = 'x';
	int ret = 0;

	(void)data;
	switch (request->id) {
	case 1:
		return rp_host_reply_put(reply, request->payload, request->payload_bytes);
	case 2:
		return request->payload_bytes ? -EINVAL : 0;
	case 3:
		return -EIO;
	case 4:
		for (int i = 0; i < 70000 && ret == 0; i++)
			ret = rp_host_reply_put(reply, &byte, 1);
		return ret == -EMSGSIZE ? 0 : -EIO;
	default:
		return -ENOSYS;
	}
}

int main(void)
{
	char line[256];
	struct rp_host host;

	setvbuf(stdout, NULL, _IOLBF, 0);
	tiny_init(&host);
	host.start_up = start_up;
	host.thread_begin = thread_begin;
	host.process_state = process_state;
	host.command = command;
	printf("registered %d\n", rp_host_register(&host));
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
		if (strcmp(line, "ending\n") == 0)
			__atomic_store_n(&state, RP_HOST_ENDING, __ATOMIC_RELAXED);
		server_line_read(line);
		printf("did %s", line);
	}
	return 0;
}
