/* SPDX-License-Identifier: MIT */
/* Takes values from a fuzzer's bytes, one after another; zeros follow the end. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ringpipe/field.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline void fuzz_take(struct fuzz_input *input, void *ret_bytes, size_t size)
{
	size_t there = size < input->left ? size : input->left;

	memset(ret_bytes, 0, size);
	memcpy(ret_bytes, input->at, there);
	input->at += there;
	input->left -= there;
}

static inline uint8_t fuzz_take_byte(struct fuzz_input *input)
{
	uint8_t byte;

	fuzz_take(input, &byte, sizeof(byte));
	return byte;
}

/* Visits all values, including the innermost. */
static inline void fuzz_walk(struct rp_fields fields)
{
	struct rp_value value = RP_VALUE_INIT;
	char text[8];

	while (rp_fields_next(&fields, &value) == 1) {
		if (rp_value_get_text(&value, text, sizeof(text)) > 3 * value.size_bytes)
			__builtin_trap();
		fuzz_walk(value.inner);
	}
}

#endif
