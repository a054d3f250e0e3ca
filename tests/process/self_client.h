/* SPDX-License-Identifier: MIT */
/* A client of this process, on the thread that serves clients. */
#ifndef PROCESS_SELF_CLIENT_H
#define PROCESS_SELF_CLIENT_H

#include <sys/socket.h>
#include <sys/un.h>

#include "check.h"

/* Send a request. Return: the connection. */
static inline int ask(uint8_t group, uint8_t id, const void *payload, uint16_t bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint8_t message[64] = "DOTNET_IPC_V1";
	uint16_t size = (uint16_t)(20 + bytes);
	unsigned long long key;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	FILE *stat = fopen("/proc/self/stat", "r");

	/* Field 22 is the start time; the program's name contains no blank. */
	check(stat && fscanf(stat, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			     "%*s %*s %*s %*s %*s %*s %llu", &key) == 1 && fclose(stat) == 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/dotnet-diagnostic-%d-%llu-socket",
		 getenv("TMPDIR"), (int)getpid(), key);
	check(fd >= 0);
	check(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
	memcpy(message + 14, &size, 2);
	message[16] = group;
	message[17] = id;
	memcpy(message + 20, payload, bytes);
	check(send(fd, message, size, MSG_NOSIGNAL) == size);
	return fd;
}

static inline void serve(int fd)
{
	char reply[64];

	while (recv(fd, reply, sizeof(reply), MSG_DONTWAIT) <= 0) {
		check(rp_diagnostics_dispatch() == 0);
		poll(NULL, 0, 1);
	}
	check(close(fd) == 0);
}

#endif
