/* SPDX-License-Identifier: MIT */
/*
 * Uses any bytes as the .eh_frame_hdr and .eh_frame of an object: the lookup of rules and
 * expressions ends, with or without a result. reader_fuzz.c shows how to run it; link all of src/.
 */
#include <stdlib.h>

#include "input.h"
#include "unwind/cfi.h"

#define REACH (16u << 20)

static bool read_word(const void *data, uint64_t address, uint64_t *ret_word)
{
	(void)data;
	*ret_word = address * 3;
	return address % 5 != 0;
}

static void evaluate(const struct rp_object_text *object, const struct rp_cfi_row *row)
{
	struct rp_registers registers = { .known = (1u << RP_REG_COUNT) - 1 };
	uint64_t value, push = 1;

	if (row->frame_is_expression)
		(void)rp_cfi_evaluate(object, row->frame_offset, &registers, NULL, read_word, NULL,
				      &value);
	else if (row->frame_register > RP_REG_COUNT)
		__builtin_trap();
	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++) {
		if (row->rules[reg].kind > RP_CFI_IS_EXPRESSION)
			__builtin_trap();
		if (row->rules[reg].kind >= RP_CFI_AT_EXPRESSION)
			(void)rp_cfi_evaluate(object, row->rules[reg].value, &registers, &push,
					      read_word, NULL, &value);
	}
}

/* The first four bytes are the instruction to look up, relative to the tables. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct rp_object_text object;
	struct rp_cfi_row row;
	uint8_t *tables;
	int32_t distance;
	uint64_t address;

	fuzz_take(&input, &distance, sizeof(distance));
	tables = malloc(input.left ? input.left : 1);
	if (!tables)
		return 0;
	memcpy(tables, input.at, input.left);
	address = (uint64_t)(uintptr_t)tables + (uint64_t)(int64_t)(distance % (int32_t)REACH);
	object = (struct rp_object_text){
		.start = (uint64_t)(uintptr_t)tables - REACH,
		.end = (uint64_t)(uintptr_t)tables + REACH,
		.header = (uint64_t)(uintptr_t)tables,
		.header_end = (uint64_t)(uintptr_t)tables + input.left,
	};
	if (rp_cfi_find(&object, address, &row)) {
		if (row.start > address)
			__builtin_trap();
		evaluate(&object, &row);
	}
	free(tables);
	return 0;
}
