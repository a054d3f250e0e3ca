/* SPDX-License-Identifier: MIT */
/*
 * Reads any bytes as a recording, up to the first damage and beyond it: the reader accepts or
 * rejects them without a crash. With libFuzzer:
 *
 *	clang -g -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc
 *		tests/fuzz/reader_fuzz.c src/lib/nettrace/?*.c -o reader_fuzz
 *	./reader_fuzz -max_len=4096 NEW_CORPUS tests/fuzz/corpus/reader
 *
 * With replay.c instead of libFuzzer, the program is a test over the corpus.
 */
#include <stdio.h>

#include <ringpipe/reader.h>

#include "input.h"

static void read_events(struct rp_reader *reader, size_t size, FILE *nowhere)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_fields fields;

	while (rp_reader_next(reader, &event) == 1) {
		rp_reader_print_json(&event, nowhere);
		rp_reader_get_fields(&event, &fields);
		fuzz_walk(fields);
	}
	rp_reader_get_stats(reader, &stats);
	/* More than the bytes could hold would mean an endless loop. */
	if (stats.events > size || stats.damaged_bytes > size)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static FILE *nowhere;
	struct rp_reader *reader;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	for (int resumes = 0; resumes < 2; resumes++) {
		if (!nowhere || rp_reader_open_memory(bytes, size, &reader) < 0)
			return 0;
		if (resumes && rp_reader_resume_after_damage(reader) != 0)
			__builtin_trap();
		read_events(reader, size, nowhere);
		rp_reader_close(reader);
	}
	return 0;
}
