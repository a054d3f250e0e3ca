/* SPDX-License-Identifier: MIT */
/*
 * Reads a trace by <ringpipe/reader.h>, to be compared with the Python module.
 *
 * usage: reading FILE [FIELD]. Prints the number of events, the sum of the field, and the CPU time
 * in microseconds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <ringpipe/reader.h>

int main(int argc, char **argv)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_value value = RP_VALUE_INIT;
	uint64_t count = 0, sum = 0;
	struct rp_reader *reader;
	struct rp_fields fields;
	const clock_t begun = clock();
	int ret;

	if (argc < 2 || rp_reader_open(argv[1], &reader) < 0)
		return 1;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		count++;
		if (argc < 3)
			continue;
		rp_reader_get_fields(&event, &fields);
		if (rp_fields_find(&fields, argv[2], &value) == 0)
			sum += value.u64;
	}
	rp_reader_close(reader);
	printf("%" PRIu64 " %" PRIu64 " %.0f\n", count, sum,
	       (double)(clock() - begun) * 1e6 / CLOCKS_PER_SEC);
	return ret < 0;
}
