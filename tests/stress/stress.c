/* SPDX-License-Identifier: MIT */
#include "stress.h"
#include "../leave_rseq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define COMPLAINTS_MAX 20u

static uint8_t filling[STRESS_BLOB_MAX + 256];
static char folder[128];
static char test_name[160];
static unsigned int tests, failures, complaints, is_bad;

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a + 1) * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u;

	x = (x ^ (x >> 30)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Size and content are functions of stream and serial, so the reader can compute them. */
static size_t blob_bytes(const struct stress_stream *stream, uint64_t hash)
{
	if (stream->least_bytes)
		return stream->least_bytes +
		       (hash >> 16) % (STRESS_BLOB_MAX - stream->least_bytes);
	if (hash % 1000 == 0)
		return (hash >> 16) % STRESS_BLOB_MAX;
	return hash & 1 ? 0 : (hash >> 16) % 48;
}

__attribute__((constructor)) static void fill(void)
{
	for (size_t i = 0; i < sizeof(filling); i++)
		filling[i] = (uint8_t)(i * 7 + (i >> 8));
}

void stress_books_init(struct stress_books *books, size_t count, uint64_t space,
		       stress_writer write)
{
	uint64_t power = 1;

	if (count > STRESS_STREAMS_MAX)
		abort();
	while (power < space)
		power *= 2;
	books->count = count;
	books->streams = aligned_alloc(64, count * sizeof(*books->streams));
	if (!books->streams)
		abort();
	memset(books->streams, 0, count * sizeof(*books->streams));
	for (size_t i = 0; i < count; i++) {
		books->streams[i].write = write;
		books->streams[i].id = i;
		books->streams[i].space = power;
		books->streams[i].fate = stress_alloc(power, 1);
		books->streams[i].seen = stress_alloc(power, 1);
	}
}

void stress_books_fini(struct stress_books *books)
{
	for (size_t i = 0; i < books->count; i++) {
		free(books->streams[i].fate);
		free(books->streams[i].seen);
	}
	free(books->streams);
}

enum stress_fate stress_write(struct stress_stream *stream)
{
	uint64_t serial = stream->next;
	uint64_t hash = mix(stream->id, serial);
	enum stress_fate fate;
	int ret;

	/* Sequentially consistent: switching.c compares it with the calls that start and stop. */
	__atomic_store_n(&stream->next, serial + 1, __ATOMIC_SEQ_CST);
	ret = stream->write(stream->id, serial, filling + (hash & 255), blob_bytes(stream, hash));
	fate = ret == 0 ? STRESS_OK : ret == -ENOBUFS ? STRESS_LOST :
	       ret == -EMSGSIZE ? STRESS_REFUSED : STRESS_WRONG;
	stream->fate[serial & (stream->space - 1)] = (uint8_t)fate;
	__atomic_store_n(&stream->done, serial + 1, __ATOMIC_SEQ_CST);
	return fate;
}

void stress_take(struct stress_books *books, struct stress_tally *tally, const void *payload,
		 size_t bytes)
{
	struct stress_stream *stream;
	uint64_t id, serial, hash, last;
	uint16_t length;
	uint8_t *seen;

	if (!stress_check(bytes >= 18, "an event of %zu bytes", bytes))
		return;
	memcpy(&id, payload, 8);
	memcpy(&serial, (const char *)payload + 8, 8);
	memcpy(&length, (const char *)payload + 16, 2);
	if (!stress_check(id < books->count, "an event of stream %llu", (unsigned long long)id))
		return;
	tally->events++;
	stream = &books->streams[id];
	hash = mix(id, serial);
	stress_check(length == blob_bytes(stream, hash) && bytes == 18u + length &&
		     !memcmp((const char *)payload + 18, filling + (hash & 255), length),
		     "stream %llu, serial %llu: %zu bytes, damaged", (unsigned long long)id,
		     (unsigned long long)serial, bytes);
	last = tally->last_seen[id];
	stress_check(serial >= last, "stream %llu: serial %llu after %llu", (unsigned long long)id,
		     (unsigned long long)serial, (unsigned long long)last - 1);
	tally->last_seen[id] = serial + 1;
	if (!stress_check(serial < __atomic_load_n(&stream->next, __ATOMIC_SEQ_CST),
			  "stream %llu: serial %llu was never written", (unsigned long long)id,
			  (unsigned long long)serial))
		return;
	seen = &stream->seen[serial & (stream->space - 1)];
	stress_check(__atomic_load_n(seen, __ATOMIC_RELAXED) == 0,
		     "stream %llu: serial %llu a second time", (unsigned long long)id,
		     (unsigned long long)serial);
	__atomic_store_n(seen, tally->mark, __ATOMIC_RELAXED);
}

/* {u32 ring, string reason, u64 count}; strings are UTF-16 in a file. */
static void take_lost(struct stress_tally *tally, const void *payload, size_t bytes, bool wide)
{
	const uint8_t *at = payload;
	size_t unit = wide ? 2 : 1, length = 0;
	char reason[32] = "";
	uint64_t count;

	while (length + 1 < sizeof(reason) && 4 + (length + 1) * unit + 8 < bytes &&
	       at[4 + length * unit]) {
		reason[length] = (char)at[4 + length * unit];
		length++;
	}
	if (!stress_check(4 + (length + 1) * unit + 8 == bytes, "EventsLost of %zu bytes", bytes))
		return;
	memcpy(&count, at + bytes - 8, 8);
	stress_check(count > 0, "EventsLost tells of none");
	tally->reported += count;
	for (int i = 0; i < RP_LOSS_REASON_COUNT; i++) {
		if (!strcmp(reason, rp_loss_reason_name((enum rp_loss_reason)i))) {
			tally->reported_by[i] += count;
			return;
		}
	}
	stress_check(false, "EventsLost for the reason \"%s\"", reason);
}

void stress_take_from(struct stress_books *books, struct stress_tally *tally, const char *provider,
		      const void *payload, size_t bytes, bool wide)
{
	/* CoarseTime has one number. */
	if (!strcmp(provider, "ringpipe") && bytes == sizeof(uint64_t))
		tally->coarse_reported++;
	else if (!strcmp(provider, "ringpipe"))
		take_lost(tally, payload, bytes, wide);
	else
		stress_take(books, tally, payload, bytes);
}

int stress_next(struct rp_reader *reader, struct rp_reader_event *ret_event)
{
	int ret;

	do {
		ret = rp_reader_next(reader, ret_event);
	} while (ret == 1 && (!strcmp(ret_event->type->provider, "Universal.System") ||
			      !strcmp(ret_event->type->provider,
				      "Microsoft-DotNETCore-EventPipe")));
	return ret;
}

void stress_read(struct rp_reader *reader, struct stress_books *books,
		 struct stress_tally *tally)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	int ret;

	if (!tally->mark)
		tally->mark = 1;
	while ((ret = stress_next(reader, &event)) == 1)
		stress_take_from(books, tally, event.type->provider, event.payload,
				 event.payload_bytes, true);
	stress_check(ret == 0, "reading: %s (%s)", rp_reader_error(reader), strerror(-ret));
	rp_reader_get_stats(reader, &stats);
	tally->has_reader = true;
	tally->reader_lost = stats.lost;
	tally->unordered = stats.unordered;
	stress_check(stats.unordered == 0, "%llu events before the one in front of them",
		     (unsigned long long)stats.unordered);
}

bool stress_read_strictly(const char *path, unsigned int flags,
			  const struct strict_serials *serials, struct strict_result *ret_result)
{
	return stress_check(strict_read(path, flags, serials, NULL, NULL, ret_result), "%s",
			    ret_result->fault);
}

/* Compares the results of both readers of a file. */
static void compare_strictly(const char *path, const struct stress_tally *tally)
{
	struct strict_result result;

	if (!stress_read_strictly(path, 0, NULL, &result))
		return;
	stress_check(result.lost_in_points == tally->reader_lost,
		     "lost: %llu by the reader, %llu by the strict one",
		     (unsigned long long)tally->reader_lost,
		     (unsigned long long)result.lost_in_points);
	for (int i = 0; i < RP_LOSS_REASON_COUNT; i++) {
		const char *reason = rp_loss_reason_name((enum rp_loss_reason)i);
		uint64_t lost = strict_lost(&result, reason);

		stress_check(lost == tally->reported_by[i],
			     "lost, %s: %llu by the reader, %llu by the strict one", reason,
			     (unsigned long long)tally->reported_by[i], (unsigned long long)lost);
	}
}

void stress_read_file(const char *path, struct stress_books *books, struct stress_tally *tally)
{
	struct rp_reader *reader;
	int ret = rp_reader_open(path, &reader);

	if (!stress_check(ret == 0, "opening the recording: %s", strerror(-ret)))
		return;
	stress_read(reader, books, tally);
	rp_reader_close(reader);
	compare_strictly(path, tally);
}

static void *far_side_run(void *data)
{
	struct stress_far_side *side = data;
	struct rp_reader *reader;
	int ret = rp_reader_open_fd(side->fd, &reader);

	if (stress_check(ret == 0, "opening the socket: %s", strerror(-ret))) {
		stress_read(reader, side->books, side->tally);
		rp_reader_close(reader);
	}
	close(side->fd);
	return NULL;
}

void stress_far_side_start(struct stress_far_side *side, int fd, struct stress_books *books,
			   struct stress_tally *tally)
{
	side->fd = fd;
	side->books = books;
	side->tally = tally;
	stress_spawn(&side->thread, far_side_run, side);
}

void stress_far_side_join(struct stress_far_side *side)
{
	pthread_join(side->thread, NULL);
}

void stress_agree(const struct stress_tally *tally, const struct rp_session_stats *stats)
{
	stress_check(stats->delivered == tally->events, "delivered: %llu by stats, %llu recorded",
		     (unsigned long long)stats->delivered, (unsigned long long)tally->events);
	stress_check(stats->lost == tally->reported, "lost: %llu by stats, %llu by EventsLost",
		     (unsigned long long)stats->lost, (unsigned long long)tally->reported);
	stress_check(!tally->has_reader || stats->lost == tally->reader_lost,
		     "lost: %llu by stats, %llu by the stream's numbers",
		     (unsigned long long)stats->lost, (unsigned long long)tally->reader_lost);
	for (int i = 0; i < RP_LOSS_REASON_COUNT; i++)
		stress_check(stats->lost_by[i] == tally->reported_by[i],
			     "lost, %s: %llu by stats, %llu by EventsLost",
			     rp_loss_reason_name((enum rp_loss_reason)i),
			     (unsigned long long)stats->lost_by[i],
			     (unsigned long long)tally->reported_by[i]);
}

/* Compares each serial's fate with the recording. Return: the gaps, which are the losses. */
static uint64_t settle_stream(const struct stress_stream *stream, uint64_t *ret_refused)
{
	uint64_t gaps = 0;

	stress_check(stream->next <= stream->space, "more serials than space");
	for (uint64_t serial = 0; serial < stream->next; serial++) {
		uint8_t fate = stream->fate[serial];
		bool seen = stream->seen[serial] != 0;

		stress_check((fate == STRESS_OK) == seen && fate != STRESS_WRONG &&
			     fate != STRESS_UNWRITTEN,
			     "stream %llu, serial %llu: fate %u, %s",
			     (unsigned long long)stream->id, (unsigned long long)serial, fate,
			     seen ? "recorded" : "not recorded");
		gaps += !seen;
		*ret_refused += fate == STRESS_REFUSED;
	}
	return gaps;
}

uint64_t stress_settle(const struct stress_books *books, const struct stress_tally *tally,
		       const struct rp_session_stats *stats)
{
	uint64_t gaps = 0, refused = 0;

	for (size_t i = 0; i < books->count; i++)
		gaps += settle_stream(&books->streams[i], &refused);
	stress_agree(tally, stats);
	stress_check(gaps == stats->lost, "lost: %llu gaps, %llu by stats",
		     (unsigned long long)gaps, (unsigned long long)stats->lost);
	stress_check(refused == stats->lost_by[RP_LOSS_TOO_BIG],
		     "too big: %llu by the calls, %llu by stats", (unsigned long long)refused,
		     (unsigned long long)stats->lost_by[RP_LOSS_TOO_BIG]);
	return gaps;
}

static struct rp_session_provider everything_of(const char *name)
{
	return (struct rp_session_provider){
		.size = sizeof(struct rp_session_provider),
		.name = name,
		.keywords = ~0ull,
		.level = RP_LEVEL_VERBOSE,
	};
}

struct rp_listener *stress_listen(const char *name, size_t buffer_bytes,
				  rp_listener_callback callback, void *data)
{
	struct rp_session_provider provider = everything_of(name);
	struct rp_session_options options = {
		.size = sizeof(options),
		.buffer_bytes = buffer_bytes,
		.providers = &provider,
		.provider_count = 1,
	};
	struct rp_listener *listener = NULL;
	int ret = rp_listener_start(&options, callback, data, &listener);

	if (!stress_check(ret == 0, "starting a listener: %s", strerror(-ret)))
		exit(1);
	return listener;
}

struct rp_session *stress_start(const char *name, const char *path, int fd, size_t buffer_bytes,
				uint32_t flags)
{
	struct rp_session_provider provider = everything_of(name);
	struct rp_session_options options = {
		.size = sizeof(options),
		.flags = flags,
		.buffer_bytes = buffer_bytes,
		.providers = &provider,
		.provider_count = 1,
		.output_path = path,
		.output_fd = fd,
		.format = nettrace_version(),
	};
	struct rp_session *session = NULL;
	int ret = rp_session_start(&options, &session);

	if (!stress_check(ret == 0, "starting a session: %s", strerror(-ret)))
		exit(1);
	return session;
}

void stress_stop(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	int ret;

	*ret_stats = (struct rp_session_stats){ .size = sizeof(*ret_stats) };
	ret = rp_session_stop(session, ret_stats);
	stress_check(ret == 0 && ret_stats->error == 0, "the session ended with: %s",
		     strerror(-ret));
}

void stress_begin(const char *format, ...)
{
	va_list arguments;

	if (tests == 0)
		printf("TAP version 13\n");
	va_start(arguments, format);
	vsnprintf(test_name, sizeof(test_name), format, arguments);
	va_end(arguments);
	is_bad = 0;
	complaints = 0;
}

bool stress_check(bool holds, const char *format, ...)
{
	va_list arguments;

	if (__builtin_expect(holds, 1))
		return true;
	__atomic_store_n(&is_bad, 1, __ATOMIC_RELAXED);
	if (__atomic_fetch_add(&complaints, 1, __ATOMIC_RELAXED) >= COMPLAINTS_MAX)
		return false;
	va_start(arguments, format);
	flockfile(stdout);
	printf("# ");
	vprintf(format, arguments);
	printf("\n");
	funlockfile(stdout);
	va_end(arguments);
	return false;
}

void stress_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("# ");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
}

void stress_stats(const struct stress_books *books, const struct rp_session_stats *stats)
{
	uint64_t offered = 0;

	for (size_t i = 0; i < books->count; i++)
		offered += books->streams[i].next;
	stress_note("%s: offered %llu, delivered %llu, lost %llu (full %llu, too big %llu, "
		    "busy %llu, sink %llu, damaged %llu, blocked %llu, full fallback %llu), "
		    "clamped %llu, rings %u",
		    test_name,
		    (unsigned long long)offered, (unsigned long long)stats->delivered,
		    (unsigned long long)stats->lost,
		    (unsigned long long)stats->lost_by[RP_LOSS_FULL],
		    (unsigned long long)stats->lost_by[RP_LOSS_TOO_BIG],
		    (unsigned long long)stats->lost_by[RP_LOSS_BUSY],
		    (unsigned long long)stats->lost_by[RP_LOSS_SINK],
		    (unsigned long long)stats->lost_by[RP_LOSS_DAMAGED],
		    (unsigned long long)stats->lost_by[RP_LOSS_BLOCKED],
		    (unsigned long long)stats->lost_by[RP_LOSS_FULL_FALLBACK],
		    (unsigned long long)stats->clamped, stats->rings);
}

void stress_skip(const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tests, test_name, why);
	fflush(stdout);
}

void stress_end(void)
{
	tests++;
	failures += is_bad;
	if (complaints > COMPLAINTS_MAX)
		printf("# and %u complaints more\n", complaints - COMPLAINTS_MAX);
	printf("%s %u - %s\n", is_bad ? "not ok" : "ok", tests, test_name);
	fflush(stdout);
}

int stress_exit(void)
{
	printf("1..%u\n", tests);
	return failures != 0;
}

uint64_t stress_amount(uint64_t usual)
{
	return STRESS_WATCHED && usual > 20 ? usual / 5 : usual;
}

unsigned int stress_rounds(void)
{
	const char *form = getenv("RINGPIPE_STRESS");
	int rounds = form ? atoi(form) : 0;

	return form && !strcmp(form, "long") ? 5 : rounds > 0 ? (unsigned int)rounds : 1;
}

/* A failed test may have left its recordings. */
static void remove_folder(void)
{
	DIR *files = opendir(folder);
	struct dirent *entry;

	while (files && (entry = readdir(files)) != NULL)
		(void)unlinkat(dirfd(files), entry->d_name, 0);
	if (files)
		closedir(files);
	rmdir(folder);
}

static bool is_in_memory(const char *parent)
{
	struct statfs space;

	return access(parent, W_OK) == 0 && statfs(parent, &space) == 0 &&
	       space.f_type == TMPFS_MAGIC &&
	       (uint64_t)space.f_bavail * (uint64_t)space.f_bsize >= 1u << 30;
}

/* Uses tmpfs with a gigabyte free, so that losses come from rings and not from a slow disk. */
static void make_folder(void)
{
	const char *parent = getenv("TMPDIR");

	parent = parent ? parent : "/tmp";
	if (!is_in_memory(parent) && is_in_memory("/dev/shm"))
		parent = "/dev/shm";
	snprintf(folder, sizeof(folder), "%s/ringpipe-XXXXXX", parent);
	if (!mkdtemp(folder)) {
		perror("mkdtemp");
		exit(1);
	}
	atexit(remove_folder);
}

const char *stress_path(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local char path[256];

	pthread_once(&once, make_folder);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

void *stress_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		abort();
	return memory;
}

void stress_spawn(pthread_t *ret_thread, void *(*run)(void *), void *data)
{
	int ret = pthread_create(ret_thread, NULL, run, data);

	if (ret != 0) {
		stress_note("pthread_create: %s", strerror(ret));
		exit(1);
	}
}

void stress_socketpair(int ret_fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds) != 0) {
		perror("socketpair");
		exit(1);
	}
}

void stress_leave_rseq(void)
{
	int ret = leave_rseq();

	stress_check(ret == 0, "leaving rseq: %s", strerror(-ret));
}

uint32_t stress_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

double stress_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
