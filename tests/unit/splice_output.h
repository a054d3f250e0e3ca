/* SPDX-License-Identifier: MIT */
/* What came out of a splice, gathered for those who look at it as a whole: test and fuzz target. */
#ifndef SPLICE_OUTPUT_H
#define SPLICE_OUTPUT_H

#include <stdlib.h>
#include <string.h>

#include "kernel/splice.h"

struct splice_output {
	uint8_t *bytes;
	size_t size;
};

/* Takes what came out so far away from the splice. */
static inline void splice_gather(struct rp_splice *splice, struct splice_output *output)
{
	size_t size;
	const void *bytes = rp_splice_output(splice, &size);

	output->bytes = realloc(output->bytes, output->size + size + 1);
	if (!output->bytes)
		abort();
	if (size)
		memcpy(output->bytes + output->size, bytes, size);
	output->size += size;
	rp_splice_consume(splice, size);
}

#endif
