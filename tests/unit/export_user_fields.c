/* SPDX-License-Identifier: MIT */
/* Events as tracepoints of the kernel's user_events with typed fields. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/user_fields.h"

static struct rp_user_fields make(const char *provider, const char *name,
				  const struct rp_field *fields, uint16_t count)
{
	const struct rp_event_def def = {
		.provider = provider, .name = name, .id = 1, .fields = fields, .field_count = count,
	};
	struct rp_user_fields made;

	cr_assert_eq(rp_user_fields_make(&made, &def), 0);
	return made;
}

static const struct rp_field point_members[] = {
	{ .name = "x", .type = RP_TYPE_I32 },
	{ .name = "label", .type = RP_TYPE_STRING },
};
static const struct rp_field pair_members[] = {
	{ .name = "a", .type = RP_TYPE_U8 },
	{ .name = "b", .type = RP_TYPE_U16 },
};
static const struct rp_field many_fields[] = {
	{ .name = "yes", .type = RP_TYPE_BOOL },
	{ .name = "c", .type = RP_TYPE_CHAR },
	{ .name = "i-8", .type = RP_TYPE_I8 },
	{ .name = "u16", .type = RP_TYPE_U16 },
	{ .name = "f", .type = RP_TYPE_F32 },
	{ .name = "d", .type = RP_TYPE_F64 },
	{ .name = "who", .type = RP_TYPE_GUID },
	{ .name = "when", .type = RP_TYPE_TIME },
	{ .name = "text", .type = RP_TYPE_STRING },
	{ .name = "wide", .type = RP_TYPE_STRING16 },
	{ .name = "list", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U32 },
	{ .name = "at", .type = RP_TYPE_STRUCT, .members = point_members, .member_count = 2 },
	{ .name = "pairs", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT,
	  .members = pair_members, .member_count = 2 },
	{ .name = "last", .type = RP_TYPE_I64 },
};

Test(export_user_fields, every_type_has_a_name_the_kernel_knows)
{
	struct rp_user_fields fields = make("Shop-Orders", "placed", many_fields, 14);

	cr_assert_str_eq(fields.command,
			 "Shop_Orders_placed u8 yes; char c; s8 i_8; u16 u16; struct float f 4; "
			 "struct double d 8; unsigned char[16] who; s64 when; "
			 "__data_loc char[] text; __data_loc u16[] wide; __data_loc u32[] list; "
			 "s32 at_x; __data_loc char[] at_label; __data_loc u8[] pairs; s64 last");
	cr_assert_eq(fields.header_bytes,
		     1 + 1 + 1 + 2 + 4 + 8 + 16 + 8 + 4 + 4 + 4 + 4 + 4 + 4 + 8);
	rp_user_fields_fini(&fields);
}

/* Compares the bytes to which a data location in the header points. */
static void expect_at(const uint8_t *out, size_t place, const void *bytes, size_t size)
{
	uint32_t value;

	memcpy(&value, out + place, sizeof(value));
	cr_assert_eq(value >> 16, size);
	cr_assert_eq(memcmp(out + (value & 0xffff) - 8, bytes, size), 0);
}

Test(export_user_fields, fixed_parts_come_first_and_dynamic_ones_follow_in_order)
{
	static const uint8_t payload[] =
		"\x01" "c" "\xff" "\x34\x12" "\x01\x02\x03\x04" "12345678" "0123456789abcdef"
		"abcdefgh" "hello\0" "W\0i\0\0\0" "\x02\0" "\1\0\0\0\2\0\0\0" "\x07\0\0\0"
		"here\0" "\x01\0" "\x05\x06\x07" "tuvwxyz!";
	struct rp_user_fields fields = make("P", "e", many_fields, 14);
	uint8_t out[512];
	int64_t size = rp_user_fields_put(&fields, payload, sizeof(payload) - 1, out, sizeof(out));

	cr_assert_eq(size, (int64_t)(fields.header_bytes + 6 + 4 + 8 + 5 + 3));
	cr_assert_eq(memcmp(out, payload, 41), 0);
	expect_at(out, 41, "hello", 6);
	expect_at(out, 45, "W\0i\0", 4);
	expect_at(out, 49, "\1\0\0\0\2\0\0\0", 8);
	cr_assert_eq(memcmp(out + 53, "\x07\0\0\0", 4), 0);
	expect_at(out, 57, "here", 5);
	expect_at(out, 61, "\x05\x06\x07", 3);
	cr_assert_eq(memcmp(out + 65, "tuvwxyz!", 8), 0);
	rp_user_fields_fini(&fields);
}

Test(export_user_fields, what_is_missing_reads_as_zeros_and_nothing)
{
	struct rp_user_fields fields = make("P", "e", many_fields, 14);
	static const uint8_t zeros[64];
	uint8_t out[512];

	memset(out, 0xee, sizeof(out));
	cr_assert_eq(rp_user_fields_put(&fields, zeros, 0, out, sizeof(out)),
		     (int64_t)fields.header_bytes + 2);
	cr_assert_eq(memcmp(out, zeros, 41), 0);
	expect_at(out, 41, "", 1);
	expect_at(out, 45, "", 0);
	expect_at(out, 57, "", 1);
	rp_user_fields_fini(&fields);
}

Test(export_user_fields, any_payload_stays_within_its_bounds)
{
	struct rp_user_fields fields = make("P", "e", many_fields, 14);
	unsigned int seed = 1;

	for (int i = 0; i < 20000; i++) {
		size_t size = (size_t)rand_r(&seed) % 120, space = fields.header_bytes;
		uint8_t *payload = malloc(size ? size : 1), *out;
		int64_t n;

		space += (size_t)rand_r(&seed) % 100;
		out = malloc(space);
		for (size_t k = 0; k < size; k++)
			payload[k] = rand_r(&seed) % 3 ? (uint8_t)(rand_r(&seed) % 5) : 0;
		n = rp_user_fields_put(&fields, payload, size, out, space);
		cr_assert(n == -EMSGSIZE ||
			  (n >= (int64_t)fields.header_bytes && n <= (int64_t)space));
		free(payload);
		free(out);
	}
	rp_user_fields_fini(&fields);
}

Test(export_user_fields, more_fields_than_the_kernel_reads_become_one)
{
	struct rp_field wide[64];
	struct rp_user_fields fields;
	uint8_t out[64];

	for (int i = 0; i < 64; i++)
		wide[i] = (struct rp_field){ .name = "a_long_name", .type = RP_TYPE_U64 };
	fields = make("P", "wide", wide, 64);
	cr_assert_str_eq(fields.command, "P_wide __data_loc u8[] payload");
	cr_assert_eq(rp_user_fields_put(&fields, (const uint8_t *)"all", 3, out, sizeof(out)), 7);
	expect_at(out, 0, "all", 3);
	cr_assert_eq(rp_user_fields_put(&fields, (const uint8_t *)"all", 3, out, 6), -EMSGSIZE);
	rp_user_fields_fini(&fields);
}

Test(export_user_fields, names_that_do_not_fit_are_refused)
{
	char name[256], provider[256];
	struct rp_event_def def = {
		.provider = provider, .name = name, .fields = point_members, .field_count = 2,
	};
	struct rp_user_fields fields;

	memset(name, 'n', sizeof(name));
	memset(provider, 'p', sizeof(provider));
	name[255] = provider[255] = 0;
	cr_assert_eq(rp_user_fields_make(&fields, &def), -EINVAL);
	name[200] = 0;
	cr_assert_eq(rp_user_fields_make(&fields, &def), 0);
	rp_user_fields_fini(&fields);
}

Test(export_user_fields, names_become_what_the_kernel_reads)
{
	struct rp_user_fields fields = make("Gr\xc3\xbc\xc3\x9f" "e", "a b;c", NULL, 0);

	cr_assert_str_eq(fields.command, "Gr____e_a_b_c");
	rp_user_fields_fini(&fields);
}
