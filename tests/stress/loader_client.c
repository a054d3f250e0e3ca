/* SPDX-License-Identifier: MIT */
/*
 * A client of the diagnostics socket. It sends each command with which a client starts or stops
 * something, or asks for something, except the sessions of user_events, for which
 * tests/linux/qemu/loading.c boots a kernel.
 */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
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
#define DUMP_MINI 1u
#define FAILED 0x80004005u
#define PIECE_BYTES 65536u

enum { NETTRACE_4 = 1, SERVER = 0xff, DEFINITION = 1 };

/* A process has one recorder of clients, one dump and one perf map at a time. */
static pthread_mutex_t single = PTHREAD_MUTEX_INITIALIZER;

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

static void put_u64(struct message *message, uint64_t number)
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

static void begin(struct message *message, enum loader_command command)
{
	const uint8_t header[HEADER_BYTES] = "DOTNET_IPC_V1";

	message->size = 0;
	put(message, header, sizeof(header));
	message->bytes[16] = (uint8_t)(command >> 8);
	message->bytes[17] = (uint8_t)command;
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

/* Return: a connection on which the request was sent. */
static int ask(const struct loader_kind *kind, struct message *message)
{
	const uint16_t size = (uint16_t)message->size;
	int fd = connect_to_self(kind);

	memcpy(message->bytes + 14, &size, sizeof(size));
	loader_check(send(fd, message->bytes, message->size, MSG_NOSIGNAL) == (ssize_t)size, kind,
		     "a request", -errno);
	return fd;
}

/*
 * A dump stops the thread, and recv(2) then returns early.
 * Return: whether the bytes came; false: the connection has ended.
 */
static bool get_unless_end(const struct loader_kind *kind, int fd, void *bytes, size_t size)
{
	size_t done = 0;
	ssize_t got;

	do {
		got = recv(fd, (char *)bytes + done, size - done, 0);
		loader_check(got > 0 || (got == 0 && done == 0), kind, "a reply", -errno);
		done += (size_t)got;
	} while (got > 0 && done < size);
	return got > 0;
}

static void get(const struct loader_kind *kind, int fd, void *bytes, size_t size)
{
	loader_check(get_unless_end(kind, fd, bytes, size), kind, "a reply", 0);
}

static void get_ok(const struct loader_kind *kind, int fd)
{
	uint8_t header[HEADER_BYTES];

	get(kind, fd, header, sizeof(header));
	loader_check(header[16] == SERVER && header[17] == 0, kind, "what it replied", header[17]);
}

/* Return: the number in the reply. */
static uint64_t get_number(const struct loader_kind *kind, int fd)
{
	uint64_t number;

	get_ok(kind, fd);
	get(kind, fd, &number, sizeof(number));
	return number;
}

/* Return: whether there was a piece of the stream, which has not ended. */
static bool read_piece(const struct loader_kind *kind, int fd)
{
	char piece[PIECE_BYTES];
	ssize_t got = recv(fd, piece, sizeof(piece), 0);

	loader_check(got >= 0, kind, "a stream", -errno);
	return got > 0;
}

static void read_to_end(const struct loader_kind *kind, int fd)
{
	while (read_piece(kind, fd))
		;
	close(fd);
}

/* A request whose reply is an OK. */
static void ask_for_ok(const struct loader_kind *kind, struct message *message)
{
	int fd = ask(kind, message);

	get_ok(kind, fd);
	read_to_end(kind, fd);
}

/* A request whose reply is a number. */
static uint64_t ask_for_number(const struct loader_kind *kind, struct message *message)
{
	int fd = ask(kind, message);
	uint64_t number = get_number(kind, fd);

	read_to_end(kind, fd);
	return number;
}

static void put_providers(const struct loader_kind *kind, struct message *message, bool filters)
{
	struct rp_session_provider *providers;
	size_t count;
	int ret = rp_providers_parse(kind->providers ? kind->providers : LOADER_ALL, &providers,
				     &count, NULL);

	loader_check(ret == 0, kind, "reading its providers", ret);
	put_u32(message, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		put_u64(message, providers[i].keywords);
		put_u32(message, providers[i].level);
		put_text(message, providers[i].name);
		put_text(message, providers[i].filter_data ? providers[i].filter_data : "");
		if (!filters)
			continue;
		/* All events but 2, the libraries' `other`. */
		put(message, (const uint8_t[]){ 0 }, 1);
		put_u32(message, 1);
		put_u32(message, 2);
	}
	free(providers);
}

/* Puts the payload that the CollectTracing command `like` has. */
static void put_session(const struct loader_kind *kind, struct message *message,
			enum loader_command like)
{
	const uint8_t stacks = (kind->flags & RP_SESSION_STACKS) != 0, rundown = kind->rundown;

	if (like >= LOADER_COLLECT_5)
		put_u32(message, 0);		/* a stream */
	put_u32(message, kind->command == LOADER_FLIGHT ? RP_SESSION_OVERWRITE_MIN >> 20 : 1);
	put_u32(message, kind->format ? kind->format : NETTRACE_4);
	if (like == LOADER_COLLECT_2 || like == LOADER_COLLECT_3)
		put(message, &rundown, 1);
	if (like >= LOADER_COLLECT_4)
		put_u64(message, rundown ? UINT64_MAX : 0);
	if (like >= LOADER_COLLECT_3)
		put(message, &stacks, 1);
	put_providers(kind, message, like >= LOADER_COLLECT_5);
	if (like == LOADER_COLLECT_6)
		put_u32(message, kind->option);	/* 1: writers wait for space */
}

/* Starts the kind's session. Return: its connection. */
static int start(const struct loader_kind *kind)
{
	enum loader_command like = LOADER_COLLECT_4;
	struct message message;
	char path[256];

	begin(&message, kind->command);
	if (kind->command == LOADER_ROLL) {
		put_text(&message, loader_path(kind, path));
		put_u64(&message, RP_SESSION_ROLL_MIN);
	} else if (kind->command == LOADER_FLIGHT) {
		put_u32(&message, kind->option);	/* 1: in files, 2: coarse times */
	} else if (kind->command == LOADER_COLLECT_WITH_OPTIONS) {
		put_u32(&message, kind->option);	/* milliseconds for which writers wait */
		put_u32(&message, (kind->flags & RP_SESSION_COARSE) != 0);
	} else if (kind->command == LOADER_FILTERED_BATCHES) {
		like = LOADER_COLLECT_5;
	} else if (kind->command != LOADER_BATCHES) {
		like = kind->command;
	}
	put_session(kind, &message, like);
	return ask(kind, &message);
}

/* Return: the connection on which the server replies when the session has ended. */
static int ask_to_stop(const struct loader_kind *kind, uint64_t session)
{
	struct message message;

	begin(&message, LOADER_STOP_TRACING);
	put_u64(&message, session);
	return ask(kind, &message);
}

static void expect_end(const struct loader_kind *kind, int control, uint64_t session)
{
	loader_check(get_number(kind, control) == session, kind, "the session that ended", 0);
	close(control);
}

void loader_collect(const struct loader_kind *kind)
{
	int stream = start(kind), control;
	uint64_t session = get_number(kind, stream);
	struct message message;

	loader_check(read_piece(kind, stream), kind, "the beginning of the stream", 0);
	loader_wait(ROUNDS);
	begin(&message, LOADER_STATS);
	put_u64(&message, session);
	ask_for_ok(kind, &message);
	control = ask_to_stop(kind, session);
	read_to_end(kind, stream);
	expect_end(kind, control, session);
}

void loader_collect_and_leave(const struct loader_kind *kind)
{
	int stream = start(kind);

	(void)get_number(kind, stream);
	loader_wait(ROUNDS);
	close(stream);
	loader_wait(ROUNDS);
}

/* Reads a frame of a session with batches, and answers a definition. Return: its kind; 0: none. */
static uint32_t read_frame(const struct loader_kind *kind, int fd)
{
	const char answer = 0;
	char content[PIECE_BYTES];
	uint32_t frame[2];		/* the kind, and the bytes that follow */

	if (!get_unless_end(kind, fd, frame, sizeof(frame)))
		return 0;
	loader_check(frame[1] <= sizeof(content), kind, "the size of a frame", (int)frame[1]);
	get(kind, fd, content, frame[1]);
	/* After the last frame, no answer is read any more. */
	if (frame[0] == DEFINITION)
		(void)send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
	return frame[0];
}

void loader_collect_batches(const struct loader_kind *kind)
{
	int stream = start(kind), control;
	uint64_t session = get_number(kind, stream), probe;

	get(kind, stream, &probe, sizeof(probe));
	while (read_frame(kind, stream) != DEFINITION)
		;
	loader_wait(ROUNDS);
	control = ask_to_stop(kind, session);
	while (read_frame(kind, stream) != 0)
		;
	close(stream);
	expect_end(kind, control, session);
}

void loader_fly(const struct loader_kind *kind)
{
	struct message message;
	uint64_t session;
	int fd;

	pthread_mutex_lock(&single);
	fd = start(kind);
	session = get_number(kind, fd);
	close(fd);
	loader_wait(ROUNDS);
	if (kind->command == LOADER_FLIGHT) {
		begin(&message, LOADER_SNAPSHOT);
		put_u64(&message, session);
		loader_check(ask_for_number(kind, &message) == session, kind, "a snapshot", 0);
		loader_wait(ROUNDS);
	}
	begin(&message, LOADER_STOP_FLIGHT);
	loader_check(ask_for_number(kind, &message) == session, kind, "the end of its flight", 0);
	pthread_mutex_unlock(&single);
}

/* The code is not that of a function: only its name and its bytes are written. */
void loader_write_perf_map(const struct loader_kind *kind)
{
	static const char code[16];
	struct message message;
	char path[64];
	int ret;

	pthread_mutex_lock(&single);
	begin(&message, LOADER_ENABLE_PERF_MAP);
	put_u32(&message, kind->option);
	ask_for_ok(kind, &message);
	ret = rp_code_add(code, sizeof(code), "loader");
	loader_check(ret == 0, kind, "rp_code_add", ret);
	loader_wait(ROUNDS);
	begin(&message, LOADER_DISABLE_PERF_MAP);
	ask_for_ok(kind, &message);
	ret = rp_code_remove(code);
	loader_check(ret == 0, kind, "rp_code_remove", ret);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	loader_check(unlink(path) == 0, kind, path, -errno);
	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", (int)getpid());
	unlink(path);
	pthread_mutex_unlock(&single);
}

/* A system that forbids ptrace(2) makes the dump fail. */
void loader_dump(const struct loader_kind *kind)
{
	struct { uint8_t header[HEADER_BYTES]; uint32_t result; } reply;
	struct message message;
	char path[256];
	int fd;

	pthread_mutex_lock(&single);
	begin(&message, kind->command);
	put_text(&message, loader_path(kind, path));
	put_u32(&message, DUMP_MINI);
	put_u32(&message, 0);
	fd = ask(kind, &message);
	get(kind, fd, &reply, sizeof(reply));
	loader_check(reply.header[17] == 0 || reply.result == FAILED, kind, "a dump",
		     (int)reply.result);
	read_to_end(kind, fd);
	unlink(path);
	pthread_mutex_unlock(&single);
	loader_wait(ROUNDS);
}

static int accept_variable(const char *name, const char *value, void *data)
{
	(void)name;
	(void)value;
	(void)data;
	return 0;
}

void loader_ask(const struct loader_kind *kind)
{
	struct message message;

	if (kind->command == LOADER_SET_VARIABLE)
		rp_host_set_environment_callback(accept_variable, NULL);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		begin(&message, kind->command);
		if (kind->command == LOADER_SET_VARIABLE) {
			put_text(&message, "LOADER_VARIABLE");
			put_text(&message, "loader");
		}
		ask_for_ok(kind, &message);
		loader_wait(1);
	}
}
