/* SPDX-License-Identifier: MIT */
/*
 * Converts any bytes as perf.data: the trace that results is complete. reader_fuzz.c shows how to
 * run it; link all of src/lib/, src/tools/cli/ and src/tools/trace/.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "input.h"
#include "tools/trace/perf_data.h"

/* Each input fails in its own way, and the messages would be most of the output. */
__attribute__((constructor)) static void be_quiet(void)
{
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null >= 0 && getenv("RINGPIPE_FUZZ_QUIET"))
		dup2(null, STDERR_FILENO);
	close(null);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_fields fields;
	struct rp_reader *reader;
	int fd, ret;

	if (rp_perf_data_convert(bytes, size, "input", &fd) < 0)
		return 0;
	if (rp_reader_open_fd(fd, &reader) != 0)
		abort();
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		rp_reader_get_fields(&event, &fields);
		fuzz_walk(fields);
	}
	if (ret)
		abort();
	rp_reader_close(reader);
	close(fd);
	return 0;
}
