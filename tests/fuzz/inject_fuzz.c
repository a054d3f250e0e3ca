/* SPDX-License-Identifier: MIT */
/*
 * Uses any bytes as the stream into which kernel events are inserted, fed in pieces of any size:
 * the output is readable. reader_fuzz.c shows how to run it; link all of src/ and
 * src/tools/ringpipe-kernel/inject.c.
 */
#include <stdlib.h>

#include <ringpipe/reader.h>

#include "input.h"
#include "../unit/inject_output.h"

static const struct rp_field fields[] = { { .name = "value", .type = RP_TYPE_U64 } };

static const struct rp_definition definition = {
	.provider = "Kernel", .name = "Event", .id = 1, .fields = fields, .field_count = 1,
};

static void read_all(const struct inject_output *output)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;

	if (rp_reader_open_memory(output->bytes, output->size, &reader) < 0)
		return;
	while (rp_reader_next(reader, &event) == 1)
		continue;
	rp_reader_close(reader);
}

/* The first byte is the size of the pieces, the second the rate of inserted events. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	size_t piece = fuzz_take_byte(&input) + 1u;
	unsigned int every = fuzz_take_byte(&input) + 1u, pieces = 0;
	struct inject_output output = { NULL, 0 };
	struct rp_kernel_inject *inject;
	uint64_t payload = 1;

	if (rp_kernel_inject_create(&definition, 1, &inject) != 0)
		return 0;
	while (input.left > 0) {
		uint8_t fed[256];
		size_t now = piece < input.left ? piece : input.left;
		const struct rp_kernel_inject_event event = {
			.time_ns = 1000000u + pieces * 1000u, .thread = 7,
			.payload = &payload, .payload_bytes = sizeof(payload),
		};

		fuzz_take(&input, fed, now);
		if (pieces++ % every == 0 && rp_kernel_inject_put(inject, &event) != 0)
			abort();
		(void)rp_kernel_inject_feed(inject, fed, now);
		inject_gather(inject, &output);
	}
	(void)rp_kernel_inject_finish(inject);
	inject_gather(inject, &output);
	read_all(&output);
	rp_kernel_inject_destroy(inject);
	free(output.bytes);
	return 0;
}
