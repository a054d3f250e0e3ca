/* SPDX-License-Identifier: MIT */
/*
 * Recovers from any bytes as the files of a killed process: the result is a trace that readers
 * accept, or no trace. reader_fuzz.c shows how to run it; link all of src/.
 *
 * The input is, in this order: the header up to its texts, a record and two tails, u16 size of the
 * definitions, and the definitions. For each of two rings: u64 head, size, lost, tail, sub-buffer
 * size, the ends of its sub-buffers, u16 size of its data, and the beginning of the data. The rest
 * is the output.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "input.h"
#include "recover/recovery.h"
#include "ring/ring.h"

#define RINGS 2u
#define RING_BYTES 4096u
#define HEADER_BYTES offsetof(struct rp_recover_header, name)
#define RECORD_BYTES (sizeof(struct rp_recover_record) + RINGS * 8u)

static uint8_t session[sizeof(struct rp_recover_header) + 2 * RECORD_BYTES];
static uint8_t ring_bytes[RINGS][RP_RING_CONTROL_BYTES + RING_BYTES];
static uint8_t events[65536];

static void take_session(struct fuzz_input *input)
{
	uint8_t *records = session + sizeof(struct rp_recover_header);

	fuzz_take(input, session, HEADER_BYTES);
	fuzz_take(input, records, RECORD_BYTES);
	memcpy(records + RECORD_BYTES, records, RECORD_BYTES);
}

static void take_ring(struct fuzz_input *input, uint8_t *bytes)
{
	struct rp_ring ring = { 0 };
	uint16_t used;

	fuzz_take(input, &ring.head, sizeof(ring.head));
	fuzz_take(input, &ring.size, sizeof(ring.size));
	fuzz_take(input, &ring.lost_full, sizeof(ring.lost_full));
	fuzz_take(input, &ring.tail, sizeof(ring.tail));
	fuzz_take(input, &ring.subbuf, sizeof(ring.subbuf));
	fuzz_take(input, ring.ends, sizeof(ring.ends));
	fuzz_take(input, &used, sizeof(used));
	memset(bytes, 0, RP_RING_CONTROL_BYTES + RING_BYTES);
	memcpy(bytes, &ring, sizeof(ring));
	fuzz_take(input, bytes + RP_RING_CONTROL_BYTES, used % (RING_BYTES + 1));
}

/* Return: a file in memory. */
static int make_file(const void *bytes, size_t size)
{
	int fd = memfd_create("recover_fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}

/* Ids may repeat after an output that only resembles one of ringpipe. */
static void check_trace(int fd, const struct rp_recovery_result *result)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int ret;

	if (lseek(fd, 0, SEEK_SET) != 0 || rp_reader_open_fd(fd, &reader) != 0)
		__builtin_trap();
	while ((ret = rp_reader_next(reader, &event)) == 1)
		;
	rp_reader_get_stats(reader, &stats);
	if (!result->copied_bytes &&
	    (ret != 0 || stats.events != result->recovered + result->has_window))
		__builtin_trap();
	rp_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct rp_recovery_file rings[RINGS];
	struct rp_recovery_result result;
	struct rp_recovery recovery = {
		.session = { session, sizeof(session) },
		.events = { events, 0 },
		.rings = rings,
		.ring_count = RINGS,
	};
	uint16_t events_bytes;
	int output, trace;

	take_session(&input);
	fuzz_take(&input, &events_bytes, sizeof(events_bytes));
	fuzz_take(&input, events, events_bytes);
	recovery.events.size = events_bytes;
	for (unsigned int i = 0; i < RINGS; i++) {
		take_ring(&input, ring_bytes[i]);
		rings[i] = (struct rp_recovery_file){ ring_bytes[i], sizeof(ring_bytes[i]) };
	}
	output = make_file(input.at, input.left);
	trace = make_file("", 0);
	if (rp_recovery_write(&recovery, output, trace, &result) == 0)
		check_trace(trace, &result);
	close(output);
	close(trace);
	return 0;
}
