/* SPDX-License-Identifier: MIT */
/*
 * Converts any bytes into each form: the new trace is complete, and has the events and losses that
 * were converted. reader_fuzz.c shows how to run it; link all of src/lib/ and src/tools/ringpipe/.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "tools/trace/trace_convert.h"

static void check(int fd, const struct rp_trace_convert_result *result)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_fields fields;
	struct rp_reader *reader;
	int ret;

	if (lseek(fd, 0, SEEK_SET) != 0 || rp_reader_open_fd(fd, &reader) != 0)
		abort();
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		rp_reader_get_fields(&event, &fields);
		fuzz_walk(fields);
	}
	rp_reader_get_stats(reader, &stats);
	if (ret || stats.events != result->events + result->added || stats.lost != result->lost)
		abort();
	rp_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	for (int form = RP_TRACE_FORM_V4; form <= RP_TRACE_FORM_PLAIN; form++) {
		struct rp_output output = { .filter_fd = -1, .fd = memfd_create("trace", 0) };
		const struct rp_trace_convert_plan plan = {
			.form = (enum rp_trace_form)form, .output = &output,
		};
		struct rp_trace_convert_result result;
		struct rp_reader *reader;
		int error;

		if (output.fd < 0 || rp_reader_open_memory(bytes, size, &reader) < 0) {
			close(output.fd);
			return 0;
		}
		if (rp_trace_convert(reader, &plan, &result, &error) != 1)
			check(output.fd, &result);
		rp_reader_close(reader);
		close(output.fd);
	}
	return 0;
}
