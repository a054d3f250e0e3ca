/* SPDX-License-Identifier: MIT */
/* Collects the output of an injection, for the test and the fuzzer that check all of it. */
#ifndef INJECT_OUTPUT_H
#define INJECT_OUTPUT_H

#include <stdlib.h>
#include <string.h>

#include "tools/ringpipe-kernel/inject.h"

struct inject_output {
	uint8_t *bytes;
	size_t size;
};

/* Appends the output produced so far. */
static inline void inject_gather(struct rp_kernel_inject *inject, struct inject_output *output)
{
	size_t size;
	const void *bytes = rp_kernel_inject_output(inject, &size);

	output->bytes = realloc(output->bytes, output->size + size + 1);
	if (!output->bytes)
		abort();
	if (size)
		memcpy(output->bytes + output->size, bytes, size);
	output->size += size;
	rp_kernel_inject_consume(inject, size);
}

#endif
