/* SPDX-License-Identifier: MIT */
/*
 * Uses any bytes as a jitdump file and as a trace whose events describe mappings and functions. All
 * names that are found can be read. reader_fuzz.c shows how to run it; link all of src/.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "tools/ringpipe-record/jit_dump.h"
#include "tools/ringpipe-symbolize/trace_code.h"

static int take_function(void *data, const struct rp_jit_function *function)
{
	size_t *length = data;

	if (!function->bytes || (function->name && !*function->name))
		abort();
	*length += function->name ? strlen(function->name) : 0;
	return 0;
}

static void read_jit_dump(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("jit", MFD_CLOEXEC);
	size_t length = 0;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	(void)rp_jit_dump_read(fd, take_function, &length);
	close(fd);
}

static void read_trace(const uint8_t *bytes, size_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_trace_code code = { 0 };
	struct rp_reader *reader;

	if (rp_reader_open_memory(bytes, size, &reader) != 0)
		return;
	rp_reader_get_info(reader, &info);
	while (rp_reader_next(reader, &event) == 1)
		if (rp_trace_code_take(&code, &info, &event) != 0)
			abort();
	if (rp_trace_code_finish(&code) != 0)
		abort();
	for (size_t i = 0; i < code.address_count; i++) {
		const struct rp_code_mapping *mapping = rp_trace_code_find(&code,
									   &code.addresses[i]);

		if (mapping && mapping->file != SIZE_MAX && mapping->file >= code.file_count)
			abort();
	}
	rp_trace_code_fini(&code);
	rp_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	read_jit_dump(bytes, size);
	read_trace(bytes, size);
	return 0;
}
