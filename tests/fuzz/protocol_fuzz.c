/* SPDX-License-Identifier: MIT */
/*
 * Sends any bytes as a client of the diagnostics socket, which then closes its half of the
 * connection. The server answers or closes, and keeps serving. The whole server runs, including its
 * thread and sessions. reader_fuzz.c shows how to run it; link all of src/.
 *
 * Commands that write files at a path from the client are excluded.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define HEADER_BYTES 20u
#define MAGIC "DOTNET_IPC_V1"
#define SET_AT 16
#define SET_DUMP 0x01
#define SET_EVENTPIPE 0x02
#define SET_RINGPIPE 0x52
#define ID_AT 17
#define ID_DUMP 0x04
#define PATIENCE_SECONDS 60

RP_PROVIDER(fuzzed, "Fuzzed-Server");
RP_EVENT(fuzzed, ping, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(serial));

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint8_t process_info[HEADER_BYTES] = MAGIC "\0\x14\0\x04\0\0";

/* Field 22 of /proc/self/stat: an earlier process with this id may have left a socket. */
static unsigned long long start_ticks(void)
{
	FILE *file = fopen("/proc/self/stat", "r");
	unsigned long long ticks = 0;
	char text[1024] = "", *at;

	if (!file || !fgets(text, sizeof(text), file))
		abort();
	fclose(file);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%llu", &ticks) != 1)
		abort();
	return ticks;
}

/* Removes the map that the server writes for perf on request. */
static void remove_maps(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	(void)unlink(path);
	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", (int)getpid());
	(void)unlink(path);
}

/* The socket may exist before the server listens. */
static bool is_reached(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool reached = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

	close(fd);
	return reached;
}

/* The address of this process's server, which starts while the library is loaded. */
static const struct sockaddr_un *server_address(void)
{
	static struct sockaddr_un address;
	const char *directory = getenv("TMPDIR");

	if (address.sun_family)
		return &address;
	if (!directory || !*directory)
		directory = "/tmp";
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "%s/dotnet-diagnostic-%d-%llu-socket", directory, (int)getpid(), start_ticks());
	address.sun_family = AF_UNIX;
	while (!is_reached(&address))
		usleep(1000);
	atexit(remove_maps);
	return &address;
}

/* If the server does not answer, the fuzzer has found a bug. */
static int connect_to_server(void)
{
	const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	const struct sockaddr_un *address = server_address();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		abort();
	return fd;
}

/* Reads up to `space` bytes; fewer at the end of the stream. */
static size_t receive(int fd, uint8_t *bytes, size_t space)
{
	size_t size = 0;
	ssize_t n = 1;

	while (size < space && n > 0) {
		n = recv(fd, bytes + size, space - size, 0);
		if (n > 0)
			size += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0 && errno != ECONNRESET)
			abort();
	}
	return size;
}

/*
 * A reply is complete or absent. A session's stream ends when its client closes, so only its
 * beginning is read.
 */
static void take_reply(int fd)
{
	uint8_t reply[4096];
	size_t size = receive(fd, reply, HEADER_BYTES + 8);

	if (size == 0)
		return;
	if (size < HEADER_BYTES || memcmp(reply, MAGIC, sizeof(MAGIC)) != 0 ||
	    reply[SET_AT] != 0xff)
		__builtin_trap();
}

static void send_all(int fd, const uint8_t *bytes, size_t size)
{
	size_t sent = 0;
	ssize_t n = 0;

	while (sent < size && n >= 0) {
		n = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
	}
	shutdown(fd, SHUT_WR);
}

static void check_alive(void)
{
	uint8_t reply[HEADER_BYTES + 8];
	pid_t pid = 0;
	int fd = connect_to_server();

	send_all(fd, process_info, sizeof(process_info));
	if (receive(fd, reply, sizeof(reply)) != sizeof(reply))
		__builtin_trap();
	memcpy(&pid, reply + HEADER_BYTES, sizeof(pid));
	if (pid != getpid())
		__builtin_trap();
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static uint32_t serial;
	int fd;

	if (size > ID_AT && (bytes[SET_AT] == SET_DUMP ||
			     (bytes[SET_AT] == SET_RINGPIPE && bytes[ID_AT] == ID_DUMP)))
		return 0;
	fd = connect_to_server();
	send_all(fd, bytes, size);
	fuzzed_ping(serial);
	take_reply(fd);
	close(fd);
	if (++serial % 64 == 0)
		check_alive();
	return 0;
}
