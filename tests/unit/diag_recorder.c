/* SPDX-License-Identifier: MIT */
/* A flight recorder started, queried and stopped by valid and invalid client requests. */
#include "diag_talk.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "diag/sending.h"

#define RECORD 0x06
#define END_RECORDING 0x07
#define SNAPSHOT 0x08
#define BUFFER_MB 8u
#define DESCRIPTORS 120		/* the limit of the process */
#define REPLY_BYTES (RP_MESSAGE_HEADER_BYTES + 8)

RP_PROVIDER(flight, "Test-Recorder");
RP_EVENT(flight, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));

static void begin_server(void)
{
	set_up();
	cr_assert_eq(rp_diag_start(0), 0);
}

TestSuite(diag_recorder, .init = begin_server, .fini = tear_down, .timeout = 240);

static void send_message(int fd, struct rp_message_buffer *request)
{
	rp_message_end(request);
	cr_assert_eq(send(fd, request->bytes, request->size, MSG_NOSIGNAL),
		     (ssize_t)request->size);
	rp_message_fini(request);
}

static int ask_for_recorder(const char *provider, uint32_t mb)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_RINGPIPE, RECORD);
	int fd = connect_to(getpid());

	rp_message_put_u32(&request, 0);
	rp_message_put_u32(&request, mb);
	rp_message_put_u32(&request, 1);
	rp_message_put_u64(&request, 0);
	rp_message_put_u8(&request, 0);
	rp_message_put_u32(&request, 1);
	rp_message_put_u64(&request, UINT64_MAX);
	rp_message_put_u32(&request, 5);
	rp_message_put_string(&request, provider);
	rp_message_put_string(&request, "");
	send_message(fd, &request);
	return fd;
}

static int ask_for_snapshot(uint64_t session)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_RINGPIPE, SNAPSHOT);
	int fd = connect_to(getpid());

	rp_message_put_u64(&request, session);
	send_message(fd, &request);
	return fd;
}

static int ask_for_end(void)
{
	int fd = connect_to(getpid());

	cr_assert(send_request(fd, RP_MESSAGE_RINGPIPE, END_RECORDING));
	return fd;
}

/* Reads the beginning of the reply, whatever follows. */
static enum rp_hresult take_reply(int fd, uint64_t *ret_session)
{
	uint8_t reply[REPLY_BYTES];
	uint32_t hresult;

	cr_assert_eq(receive_all(fd, reply, RP_MESSAGE_HEADER_BYTES + 4),
		     RP_MESSAGE_HEADER_BYTES + 4);
	memcpy(&hresult, reply + RP_MESSAGE_HEADER_BYTES, 4);
	if (reply[17] != 0)
		return hresult;
	cr_assert_eq(receive_all(fd, reply + RP_MESSAGE_HEADER_BYTES + 4, 4), 4u);
	if (ret_session)
		memcpy(ret_session, reply + RP_MESSAGE_HEADER_BYTES, 8);
	return RP_HRESULT_OK;
}

static enum rp_hresult reply_and_close(int fd, uint64_t *ret_session)
{
	enum rp_hresult hr = take_reply(fd, ret_session);

	close(fd);
	return hr;
}

static uint64_t begin_recorder(void)
{
	uint64_t session;

	cr_assert_eq(reply_and_close(ask_for_recorder("Test-Recorder", BUFFER_MB), &session),
		     RP_HRESULT_OK);
	return session;
}

static void write_marks(uint64_t *serial, uint64_t count, size_t size)
{
	static const uint8_t bytes[1000];

	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(flight_mark((*serial)++, bytes, size), 0);
}

/* Reads the stream after the reply. Return: events, without a gap up to the last one written. */
static uint64_t read_snapshot(int fd, uint64_t next_serial)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t serial = 0, count = 0, last = 0;
	struct rp_reader *reader;
	int ret;

	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->provider, "Test-Recorder") != 0)
			continue;
		memcpy(&serial, event.payload, 8);
		cr_assert(count == 0 || serial > last);
		last = serial;
		count++;
	}
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	cr_assert_eq(stats.lost, 0u);
	cr_assert(count == 0 || last == next_serial - 1);
	rp_reader_close(reader);
	close(fd);
	return count;
}

static uint64_t take_snapshot(uint64_t next_serial)
{
	int fd = ask_for_snapshot(0);

	cr_assert_eq(take_reply(fd, NULL), RP_HRESULT_OK);
	return read_snapshot(fd, next_serial);
}

Test(diag_recorder, recorder_outlives_its_client_and_gives_any_number_of_snapshots)
{
	uint64_t session = begin_recorder(), serial = 0, ended;

	write_marks(&serial, 100, 8);
	cr_assert_eq(take_snapshot(serial), 100u);
	write_marks(&serial, 100, 8);
	cr_assert_eq(take_snapshot(serial), 200u);
	cr_assert_eq(reply_and_close(ask_for_end(), &ended), RP_HRESULT_OK);
	cr_assert_eq(ended, session);
	cr_assert_not(flight_mark_enabled());
	cr_assert_eq(reply_and_close(ask_for_snapshot(0), NULL), RP_HRESULT_INVALID_OPERATION);
	cr_assert_eq(reply_and_close(ask_for_snapshot(session), NULL),
		     RP_HRESULT_INVALID_OPERATION);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_INVALID_OPERATION);
}

Test(diag_recorder, there_is_one_and_then_another)
{
	uint64_t first = begin_recorder(), second;

	cr_assert_eq(reply_and_close(ask_for_recorder("Other", BUFFER_MB), NULL),
		     RP_HRESULT_INVALID_OPERATION);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
	cr_assert_eq(reply_and_close(ask_for_recorder("Other", BUFFER_MB - 1), NULL),
		     RP_HRESULT_INVALID_ARGUMENT);
	second = begin_recorder();
	cr_assert_neq(first, second);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}

/* The protocol's StopTracing accepts its id too. */
Test(diag_recorder, its_id_stops_it)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, 0x01);
	int fd;

	rp_message_put_u64(&request, begin_recorder());
	fd = connect_to(getpid());
	send_message(fd, &request);
	cr_assert_eq(reply_and_close(fd, NULL), RP_HRESULT_OK);
	cr_assert_not(flight_mark_enabled());
}

static struct rp_session *start_own(void)
{
	const struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Test-Recorder", .keywords = UINT64_MAX,
		.level = 5,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .flags = RP_SESSION_OVERWRITE, .output_fd = -1,
		.buffer_bytes = RP_SESSION_OVERWRITE_MIN, .providers = &provider,
		.provider_count = 1,
	};
	struct rp_session *session;

	cr_assert_eq(rp_session_start(&options, &session), 0);
	return session;
}

Test(diag_recorder, the_programs_own_is_found_and_of_two_one_has_to_be_named)
{
	struct rp_session *own = start_own();
	uint64_t serial = 0, id;

	write_marks(&serial, 10, 8);
	cr_assert_eq(take_snapshot(serial), 10u);
	id = begin_recorder();
	write_marks(&serial, 10, 8);
	cr_assert_eq(reply_and_close(ask_for_snapshot(0), NULL), RP_HRESULT_INVALID_OPERATION);
	for (uint64_t i = 0; i < 2; i++) {
		int fd = ask_for_snapshot(id - i);
		uint64_t session;

		cr_assert_eq(take_reply(fd, &session), RP_HRESULT_OK);
		cr_assert_eq(session, id - i);
		cr_assert_eq(read_snapshot(fd, serial), i ? 20u : 10u);
	}
	cr_assert_eq(rp_session_stop(own, NULL), 0);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}

/* Writes more than all sockets together hold. */
static void fill(uint64_t *serial)
{
	write_marks(serial, 6000, 1000);
}

/*
 * Each snapshot exceeds a socket's buffer, so its thread waits, but the server and writers do not.
 */
Test(diag_recorder, clients_that_take_nothing_delay_no_other_and_are_bounded)
{
	enum { SILENT = 3 * RP_SENDINGS_MAX };
	uint64_t serial = 0;
	unsigned int refused = 0;
	int fds[SILENT];

	begin_recorder();
	fill(&serial);
	/*
	 * After two seconds the server drops a silent client, whose place another may take on a
	 * slow machine.
	 */
	for (int round = 0; refused == 0 && round < 20; round++) {
		for (int i = 0; i < SILENT; i++)
			fds[i] = ask_for_snapshot(0);
		cr_assert_eq(ask_pid(), (uint64_t)getpid());
		write_marks(&serial, 1, 8);
		for (int i = 0; i < SILENT; i++)
			refused += take_reply(fds[i], NULL) == RP_HRESULT_FAIL;
		for (int i = 0; i < SILENT; i++)
			close(fds[i]);
	}
	cr_assert_gt(refused, 0u);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}

/* The server's open connections, without the listening socket. */
static unsigned int count_connections(void)
{
	unsigned int count = 0;

	for (int fd = 3; fd < DESCRIPTORS; fd++) {
		struct sockaddr_un address = { .sun_family = AF_UNSPEC };
		socklen_t size = sizeof(address), listens_size = sizeof(int);
		int listens = 0;

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
		    strncmp(address.sun_path, directory, strlen(directory)) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0)
			count += !listens;
	}
	return count;
}

/* With the listening socket, epoll and the wake-up pair: a quarter of the descriptor limit. */
Test(diag_recorder, snapshots_on_their_way_are_of_the_servers_share_of_descriptors)
{
	enum { SILENT = 40 };
	struct rlimit few;
	int sendings[RP_SENDINGS_MAX], silent[SILENT];
	uint64_t serial = 0;
	char byte;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &few), 0);
	few.rlim_cur = DESCRIPTORS;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin_recorder();
	fill(&serial);
	for (unsigned int i = 0; i < RP_SENDINGS_MAX; i++) {
		sendings[i] = ask_for_snapshot(0);
		cr_assert_eq(take_reply(sendings[i], NULL), RP_HRESULT_OK);
	}
	for (unsigned int i = 0; i < SILENT; i++)
		silent[i] = connect_to(getpid());
	/* The server drops the first client to accept the one above its share. */
	cr_assert_eq(recv(silent[0], &byte, 1, 0), 0);
	cr_assert_leq(count_connections(), DESCRIPTORS / 4 - 4 + 1);
	cr_assert_eq(ask_pid(), (uint64_t)getpid());
	for (unsigned int i = 0; i < RP_SENDINGS_MAX; i++)
		close(sendings[i]);
	for (unsigned int i = 0; i < SILENT; i++)
		close(silent[i]);
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}

/*
 * Asks for a snapshot and reads its reply. The server refuses the request while RP_SENDINGS_MAX
 * threads send snapshots, and a thread notices only later that its client has gone.
 */
static int ask_until_accepted(void)
{
	for (;;) {
		int fd = ask_for_snapshot(0);

		if (take_reply(fd, NULL) == RP_HRESULT_OK)
			return fd;
		close(fd);
		sched_yield();
	}
}

Test(diag_recorder, client_that_dies_in_the_middle_harms_no_other)
{
	uint8_t piece[100000];
	uint64_t serial = 0;

	begin_recorder();
	fill(&serial);
	for (size_t bytes = 0; bytes <= sizeof(piece); bytes += sizeof(piece) / 4) {
		int fd = bytes ? ask_until_accepted() : ask_for_snapshot(0);

		cr_assert_eq(receive_all(fd, piece, bytes), bytes);
		close(fd);
	}
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}

/* The stop waits for it while it makes progress; a reader that was blocked too long gets a part. */
Test(diag_recorder, end_waits_for_a_snapshot_on_its_way)
{
	uint64_t serial = 0;
	size_t bytes = 0, got;
	static uint8_t piece[65536];
	int reader, ender;

	begin_recorder();
	fill(&serial);
	reader = ask_for_snapshot(0);
	cr_assert_eq(take_reply(reader, NULL), RP_HRESULT_OK);
	ender = ask_for_end();
	while ((got = receive_all(reader, piece, sizeof(piece))) > 0)
		bytes += got;
	cr_assert_gt(bytes, 0u);
	cr_assert_eq(reply_and_close(ender, NULL), RP_HRESULT_OK);
	close(reader);
}

Test(diag_recorder, server_that_ends_ends_them)
{
	uint64_t serial = 0;
	uint8_t byte;
	int fd;

	begin_recorder();
	fill(&serial);
	fd = ask_for_snapshot(0);
	cr_assert_eq(take_reply(fd, NULL), RP_HRESULT_OK);
	rp_diag_stop();
	cr_assert_not(flight_mark_enabled());
	while (recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
}

Test(diag_recorder, forked_child_does_not_hold_the_connection)
{
	uint64_t serial = 0;
	int fd, child_fd;
	pid_t child;

	begin_recorder();
	write_marks(&serial, 50, 8);
	fd = ask_for_snapshot(0);
	child = fork_child(&child_fd);
	if (child == 0) {
		close(fd);
		/* The child's own server, and its socket. */
		rp_diag_stop();
		report_to_parent(child_fd, true);
	}
	cr_assert_eq(take_reply(fd, NULL), RP_HRESULT_OK);
	cr_assert_eq(read_snapshot(fd, serial), 50u);
	cr_assert(child_did_well(child, child_fd));
	cr_assert_eq(reply_and_close(ask_for_end(), NULL), RP_HRESULT_OK);
}
