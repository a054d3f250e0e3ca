/* SPDX-License-Identifier: MIT */
/*
 * Reads any bytes as a recording: the reader accepts or rejects them without a crash. With
 * libFuzzer:
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_fields fields;
	static FILE *nowhere;
	struct rp_reader *reader;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	if (!nowhere || rp_reader_open_memory(bytes, size, &reader) < 0)
		return 0;
	while (rp_reader_next(reader, &event) == 1) {
		rp_reader_print_json(&event, nowhere);
		rp_reader_get_fields(&event, &fields);
		fuzz_walk(fields);
	}
	rp_reader_get_stats(reader, &stats);
	/* More events than the bytes could hold would mean an endless loop. */
	if (stats.events > size)
		__builtin_trap();
	rp_reader_close(reader);
	return 0;
}
