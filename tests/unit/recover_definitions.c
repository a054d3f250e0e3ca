/* SPDX-License-Identifier: MIT */
#include "recover/definitions.h"

#include <errno.h>

#include <criterion/criterion.h>

static const struct rp_field members[] = {
	{ .name = "first", .type = RP_TYPE_U8 },
	{ .name = "second", .type = RP_TYPE_STRING },
};
static const struct rp_field fields[] = {
	{ .name = "texts", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRING },
	{ .name = "pairs", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT, .members = members,
	  .member_count = 2 },
};

static struct rp_outbuf out;

/* Take a definition with these fields from the bytes that were put, which `out` keeps. */
static int take(const struct rp_field *put, struct rp_definition *ret_definition)
{
	const struct rp_definition definition = {
		.provider = "Test", .name = "event", .id = 7, .fields = put, .field_count = 2,
	};
	struct rp_cursor cursor;
	uint32_t index;

	out.size = 0;
	rp_definition_put(&out, 3, &definition);
	cr_assert(!out.failed);
	cursor = (struct rp_cursor){ out.bytes, out.bytes + out.size };
	return rp_definition_take(&cursor, &index, ret_definition);
}

static void free_bytes(void)
{
	rp_heap_free(out.bytes);
}

TestSuite(definitions, .fini = free_bytes);

Test(definitions, a_definition_that_was_put_is_taken)
{
	struct rp_definition definition;

	cr_assert_eq(take(fields, &definition), 0);
	cr_assert_eq(definition.id, 7);
	cr_assert_eq(definition.field_count, 2);
	cr_assert_eq(definition.fields[1].element, RP_TYPE_STRUCT);
	cr_assert_str_eq(definition.fields[1].members[1].name, "second");
	rp_definition_fini(&definition);
}

Test(definitions, types_that_do_not_exist_are_refused)
{
	for (unsigned int type = RP_TYPE_STRUCT + 1; type <= UINT8_MAX; type++) {
		struct rp_field damaged[] = { fields[0], fields[1] };
		struct rp_field damaged_members[] = { members[0], members[1] };
		struct rp_definition definition;

		damaged[0].element = (uint8_t)type;
		cr_assert_eq(take(damaged, &definition), -EBADMSG);
		damaged[0] = fields[0];
		damaged[1].members = damaged_members;
		damaged_members[1].type = (uint8_t)type;
		cr_assert_eq(take(damaged, &definition), -EBADMSG);
	}
}
