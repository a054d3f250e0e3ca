/* SPDX-License-Identifier: MIT */
/* A client of the diagnostics socket: it collects, and stops what it collects. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "loader.h"

#define HEADER_BYTES 20u
#define ROUNDS 5u

enum { EVENT_PIPE = 2, STOP_TRACING = 1, COLLECT_TRACING_3 = 4, NETTRACE = 1, SERVER = 0xff };

struct message {
	uint8_t bytes[1024];
	size_t size;
};

static void put(struct message *message, const void *bytes, size_t size)
{
	if (message->size + size > sizeof(message->bytes))
		abort();
	memcpy(message->bytes + message->size, bytes, size);
	message->size += size;
}

static void put_u32(struct message *message, uint32_t number)
{
	put(message, &number, sizeof(number));
}

/* Writes UTF-16 with its length, including the NUL. */
static void put_text(struct message *message, const char *text)
{
	put_u32(message, (uint32_t)strlen(text) + 1);
	do
		put(message, (const uint8_t[]){ (uint8_t)*text, 0 }, 2);
	while (*text++);
}

static void begin(struct message *message, uint8_t command)
{
	const uint8_t header[HEADER_BYTES] = "DOTNET_IPC_V1";

	message->size = 0;
	put(message, header, sizeof(header));
	message->bytes[16] = EVENT_PIPE;
	message->bytes[17] = command;
}

/* A killed process with the same id may have left a socket on which no process listens. */
static int connect_to_self(const struct loader_kind *kind)
{
	const char *folder = getenv("TMPDIR");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error = ENOENT;
	char pattern[256];
	glob_t found = { 0 };

	snprintf(pattern, sizeof(pattern), "%s/dotnet-diagnostic-%d-*-socket",
		 folder ? folder : "/tmp", (int)getpid());
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; error != 0 && i < found.gl_pathc; i++) {
		snprintf(address.sun_path, sizeof(address.sun_path), "%s", found.gl_pathv[i]);
		error = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
	}
	globfree(&found);
	loader_check(error == 0, kind, "connecting to its socket", -error);
	return fd;
}

static void ask(const struct loader_kind *kind, int fd, struct message *message)
{
	uint16_t size = (uint16_t)message->size;

	memcpy(message->bytes + 14, &size, sizeof(size));
	loader_check(send(fd, message->bytes, message->size, MSG_NOSIGNAL) == (ssize_t)size, kind,
		     "a request", -errno);
}

/* Return: the number in the reply. */
static uint64_t get_reply(const struct loader_kind *kind, int fd)
{
	uint8_t reply[HEADER_BYTES + sizeof(uint64_t)];
	uint64_t number;

	loader_check(recv(fd, reply, sizeof(reply), MSG_WAITALL) == (ssize_t)sizeof(reply), kind,
		     "a reply", -errno);
	loader_check(reply[16] == SERVER && reply[17] == 0, kind, "what it replied", reply[17]);
	memcpy(&number, reply + HEADER_BYTES, sizeof(number));
	return number;
}

static void put_providers(const struct loader_kind *kind, struct message *message)
{
	struct rp_session_provider *providers;
	size_t count;
	int ret = rp_providers_parse(kind->providers ? kind->providers : "*", &providers, &count,
				     NULL);

	loader_check(ret == 0, kind, "reading its providers", ret);
	put_u32(message, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		put(message, &providers[i].keywords, sizeof(providers[i].keywords));
		put_u32(message, providers[i].level);
		put_text(message, providers[i].name);
		put_text(message, providers[i].filter_data ? providers[i].filter_data : "");
	}
	free(providers);
}

void loader_collect(const struct loader_kind *kind)
{
	int stream = connect_to_self(kind), control;
	struct message message;
	char piece[65536];
	uint64_t session;
	uint8_t stacks = (kind->flags & RP_SESSION_STACKS) != 0, rundown = 0;
	ssize_t got;

	begin(&message, COLLECT_TRACING_3);
	put_u32(&message, 1);
	put_u32(&message, NETTRACE);
	put(&message, &rundown, 1);
	put(&message, &stacks, 1);
	put_providers(kind, &message);
	ask(kind, stream, &message);
	session = get_reply(kind, stream);
	got = recv(stream, piece, sizeof(piece), 0);
	loader_check(got > 0, kind, "the beginning of the stream", -errno);
	loader_wait(ROUNDS);
	control = connect_to_self(kind);
	begin(&message, STOP_TRACING);
	put(&message, &session, sizeof(session));
	ask(kind, control, &message);
	while ((got = recv(stream, piece, sizeof(piece), 0)) > 0)
		;
	loader_check(got == 0, kind, "the end of the stream", -errno);
	loader_check(get_reply(kind, control) == session, kind, "the session that ended", 0);
	close(control);
	close(stream);
}
