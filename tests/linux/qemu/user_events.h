/* SPDX-License-Identifier: MIT */
/* A client that requests a session of the kernel's user_events, and reads its records. */
#ifndef LINUX_USER_EVENTS_H
#define LINUX_USER_EVENTS_H

#include "guest.h"

#include <sys/wait.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(guest, "Guest-Events");
RP_EVENT(guest, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text),
	 RP_F64(value), RP_BOOL(flag));
RP_EVENT(guest, other, 2, RP_LEVEL_VERBOSE, 0x2, RP_U64(serial));
RP_EVENT(guest, blob, 3, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(bytes));

/* The library that the tests load. */
extern const char *plugin_path;

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(name) { #name, name }
#define COUNT(rows) (sizeof(rows) / sizeof(*rows))

/* same_events.c */
void file_listener_and_tracepoints_hold_the_same(void);

/* loading.c */
void loading_set_libraries(const char *const *paths, unsigned int count);
void libraries_come_and_go_while_sessions_start_and_end(void);

/* typed_events.c */
extern const struct test typed_tests[];
extern const size_t typed_test_count;

#define OK 0u
#define FAIL 0x80004005u
#define INVALID_ARGUMENT 0x80070057u
#define BAD_ENCODING 0x80131384u
#define NOT_SUPPORTED 0x80131515u
#define BYTES_MAX 8184	/* of a record */

static inline int events_file(void)
{
	int fd = open(TRACING "/user_events_data", O_RDWR | O_CLOEXEC);

	check(fd >= 0);
	return fd;
}

/* A client's options for one provider. */
struct wish {
	const char *provider;
	uint64_t keywords;
	uint32_t level;
	uint32_t without;		/* an id to filter out, 0: none */
	const char *tracepoint;		/* for events that are in no set */
	const char *set;		/* a tracepoint for one id */
	uint32_t set_id;
	uint32_t set_id_again;
};

static inline void put_wish(struct message *message, const struct wish *wish)
{
	put_u64(message, wish->keywords);
	put_u32(message, wish->level);
	put_string(message, wish->provider);
	put_string(message, "");
	put_u8(message, 0);
	put_u32(message, wish->without != 0);
	if (wish->without)
		put_u32(message, wish->without);
	put_string(message, wish->tracepoint ? wish->tracepoint : "");
	put_u32(message, wish->set != NULL);
	if (wish->set) {
		put_string(message, wish->set);
		put_u32(message, wish->set_id_again ? 2 : 1);
		put_u32(message, wish->set_id);
		if (wish->set_id_again)
			put_u32(message, wish->set_id_again);
	}
}

/* Return: the connection, with the session's id or an error read from it. */
static inline int ask(const struct wish *wishes, uint32_t count, int passed, uint32_t *ret_hresult,
	       uint64_t *ret_id)
{
	struct message message;
	int fd;

	begin_message(&message, 0x02, 0x06);
	put_u32(&message, 1);
	put_u64(&message, 0);
	put_u32(&message, count);
	for (uint32_t i = 0; i < count; i++)
		put_wish(&message, &wishes[i]);
	fd = send_to(getpid(), &message, passed);
	if (passed < 0)
		check(write(fd, "", 1) == 1);
	*ret_hresult = reply_of(fd, ret_id, sizeof(*ret_id));
	return fd;
}

static inline int start(const struct wish *wish)
{
	int passed = events_file(), fd;
	uint32_t hresult;
	uint64_t id = 0;

	fd = ask(wish, 1, passed, &hresult, &id);
	check(hresult == OK && id != 0);
	close(passed);
	return fd;
}

/* Ends the session, and waits until the kernel has forgotten its tracepoint. */
static inline void end(int session, const char *tracepoint)
{
	close(session);
	wait_until(!has_tracepoint(tracepoint));
}

/* One parsed record. */
struct record {
	uint8_t version;
	uint16_t id;
	const uint8_t *metadata, *activity, *related, *payload;
	uint32_t metadata_bytes, payload_bytes;
};

static inline uint32_t u32_at(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline struct record take_apart(const uint8_t *fields, size_t size)
{
	struct record record = {
		.version = fields[0], .id = (uint16_t)(fields[1] | fields[2] << 8),
	};
	uint32_t extension = u32_at(fields + 3), payload = u32_at(fields + 7);
	const uint8_t *at = fields + 7 + (extension & 0xffff), *end = at + (extension >> 16);

	record.payload = fields + 11 + (payload & 0xffff);
	record.payload_bytes = payload >> 16;
	check(end <= fields + size && record.payload + record.payload_bytes <= fields + size);
	while (at < end) {
		switch (*at++) {
		case 1:
			record.metadata_bytes = u32_at(at);
			record.metadata = at + 4;
			at += 4 + record.metadata_bytes;
			break;
		case 2:
			record.activity = at;
			at += 16;
			break;
		case 3:
			record.related = at;
			at += 16;
			break;
		default:
			check(!"a label of the extension");
		}
		check(at <= end);
	}
	return record;
}

static inline struct record next_record(struct perf *perf, uint8_t *fields)
{
	size_t size;

	wait_until((size = perf_next(perf, fields, BYTES_MAX)) > 0);
	return take_apart(fields, size);
}

/* Compares UTF-16 with an ASCII text and its NUL. Return: the position after it. */
static const uint8_t *expect_text(const uint8_t *at, const char *text)
{
	for (size_t i = 0; i <= strlen(text); i++, at += 2)
		check(at[0] == (uint8_t)text[i] && at[1] == 0);
	return at;
}

static inline int start_all(const char *tracepoint)
{
	const struct wish wish = { .provider = "Guest-Events", .keywords = UINT64_MAX, .level = 5,
				   .tracepoint = tracepoint };

	return start(&wish);
}

static inline void expect_mark(const struct record *record, uint64_t serial, const char *text,
			double value, uint32_t flag)
{
	const uint8_t *at = record->payload;

	check(record->version == 1 && record->id == 1);
	check(memcmp(at, &serial, 8) == 0);
	at = expect_text(at + 8, text);
	check(memcmp(at, &value, 8) == 0 && memcmp(at + 8, &flag, 4) == 0);
	check(at + 12 == record->payload + record->payload_bytes);
}

static inline bool kernel_complained(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool found = false;
	char line[4096];
	ssize_t n;

	check(fd >= 0);
	while ((n = read(fd, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		if (strstr(line, "user_events: ") || strstr(line, "WARNING: ") ||
		    strstr(line, "BUG: ")) {
			printf("# %s", line);
			found = true;
		}
	}
	close(fd);
	return found;
}

static inline void expect_child(pid_t child)
{
	int status = -1;

	check(child > 0 && waitpid(child, &status, 0) == child);
	check(status == 0);
}

#endif
