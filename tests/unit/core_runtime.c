/* SPDX-License-Identifier: MIT */
/*
 * Dynamic events: which declarations are refused, what the library copies, and how long events
 * live.
 */
#include "core_support.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static const struct rp_field one_field[] = { { "value", NULL, 0, RP_TYPE_U32, 0, 0, NULL } };

static struct rp_event_decl declaration(uint32_t id, const char *name)
{
	return (struct rp_event_decl){
		.size = sizeof(struct rp_event_decl),
		.id = id,
		.name = name,
		.fields = one_field,
		.field_count = 1,
		.level = RP_LEVEL_INFORMATIONAL,
	};
}

static struct rp_provider *make_provider(const char *name)
{
	struct rp_provider *provider = NULL;

	cr_assert_eq(rp_provider_create(name, NULL, NULL, &provider), 0);
	return provider;
}

static int write_u32(struct rp_event *event, uint32_t value)
{
	struct rp_part part = { &value, sizeof(value) };

	return rp_event_write(event, &part, 1);
}

Test(core_runtime, dynamic_event_is_delivered_with_its_description)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_listener *listener = listen_to("Test-Runtime");
	char name[] = "made", field_name[] = "value";
	struct rp_field field = { field_name, NULL, 0, RP_TYPE_U32, 0, 0, NULL };
	struct rp_event_decl decl = declaration(5, name);
	struct rp_listener_event reported;
	struct rp_event *event;

	decl.fields = &field;
	decl.version = 2;
	decl.opcode = 11;
	decl.keywords = 1ull << 63;
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	/* The library copied all of it. */
	memset(name, 'x', 4);
	memset(field_name, 'x', 5);
	field.type = RP_TYPE_GUID;
	cr_assert_eq(write_u32(event, 77), 0);
	expect_event(listener, &reported);
	cr_assert_str_eq(reported.name, "made");
	cr_assert_str_eq(reported.fields[0].name, "value");
	cr_assert_eq(reported.fields[0].type, RP_TYPE_U32);
	cr_assert_eq(reported.id, 5u);
	cr_assert_eq(reported.version, 2);
	cr_assert_eq(reported.opcode, 11);
	cr_assert_eq(reported.keywords, 1ull << 63);
	cr_assert_eq(*(const uint32_t *)reported.payload, 77u);
	rp_event_destroy(event);
	expect_end(listener);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_runtime, destroyed_event_is_still_delivered_with_its_name)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_listener *listener = listen_to("Test-Runtime");

	/* With many events, a premature use of an index or a name would show. */
	for (uint32_t i = 0; i < 500; i++) {
		char name[16];
		struct rp_event_decl decl = declaration(i, name);
		struct rp_event *event;

		snprintf(name, sizeof(name), "made-%u", i);
		cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
		cr_assert_eq(write_u32(event, i), 0);
		rp_event_destroy(event);
	}
	cr_assert_eq(rp_provider_destroy(provider), 0);
	for (uint32_t i = 0; i < 500; i++) {
		struct rp_listener_event reported;
		char name[16];

		snprintf(name, sizeof(name), "made-%u", i);
		expect_event(listener, &reported);
		cr_assert_eq(*(const uint32_t *)reported.payload, i);
		cr_assert_str_eq(reported.name, name);
		cr_assert_str_eq(reported.provider, "Test-Runtime");
		cr_assert_eq(reported.id, i);
	}
	expect_end(listener);
}

Test(core_runtime, second_event_of_an_id_is_refused_until_the_first_is_gone)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_provider *other = make_provider("Test-Runtime");
	struct rp_event_decl decl = declaration(1, "first"), same_id = declaration(1, "second");
	struct rp_event *event = NULL, *second = NULL;

	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(rp_event_create(provider, &same_id, &second), -EEXIST);
	cr_assert_null(second, "the result was touched");
	cr_assert_eq(rp_event_create(other, &same_id, &second), 0, "another provider's ids");
	rp_event_destroy(event);
	rp_event_destroy(NULL);
	cr_assert_eq(rp_event_create(provider, &same_id, &event), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
	cr_assert_eq(rp_provider_destroy(other), 0);
}

static void expect_refused(struct rp_provider *provider, const struct rp_event_decl *decl,
			   const char *why)
{
	struct rp_event *event = NULL;

	cr_expect_eq(rp_event_create(provider, decl, &event), -EINVAL, "%s", why);
	cr_expect_null(event, "%s", why);
}

Test(core_runtime, wrong_names_and_levels_are_refused)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	char longest[RP_NAME_MAX + 2];
	struct rp_event_decl decl;
	struct rp_event *event;

	memset(longest, 'n', sizeof(longest));
	longest[RP_NAME_MAX + 1] = '\0';
	decl = declaration(1, "");
	expect_refused(provider, &decl, "an empty name");
	decl = declaration(1, NULL);
	expect_refused(provider, &decl, "no name");
	decl = declaration(1, longest);
	expect_refused(provider, &decl, "a name of 256 bytes");
	decl = declaration(1, "\xff");
	expect_refused(provider, &decl, "a name that is not UTF-8");
	decl = declaration(1, "level");
	decl.level = 6;
	expect_refused(provider, &decl, "level 6");
	decl = declaration(1, "short");
	decl.size = RP_EVENT_DECL_SIZE_V1 - 1;
	expect_refused(provider, &decl, "a struct too short");
	decl = declaration(1, "many");
	decl.field_count = RP_FIELDS_MAX + 1;
	expect_refused(provider, &decl, "129 fields");
	decl = declaration(1, "none");
	decl.fields = NULL;
	expect_refused(provider, &decl, "a count and no fields");
	expect_refused(provider, NULL, "nothing");
	decl = declaration(1, "fine");
	expect_refused(NULL, &decl, "no provider");
	longest[RP_NAME_MAX] = '\0';
	decl = declaration(1, longest);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

static const struct rp_field member_string[] = { { "s", NULL, 0, RP_TYPE_STRING, 0, 0, NULL } };
static const struct rp_field member_array[] = {
	{ "a", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_U8, 0, NULL },
};
static const struct rp_field member_wrong[] = { { "x", NULL, 0, 20, 0, 0, NULL } };
static const struct rp_field member_unnamed[] = { { "", NULL, 0, RP_TYPE_U8, 0, 0, NULL } };
static const struct rp_field deep_wrong[] = {
	{ "d", member_string, 1, RP_TYPE_STRUCT, 0, 0, NULL },
};

static const struct rp_enumerator one_name[] = { { "n", 127 } }, no_name[] = { { NULL, 1 } },
				  large[] = { { "a", 0 }, { "b", 128 } }, below[] = { { "a", -1 } };
static const struct rp_enumeration named = { "e", one_name, 1 }, nameless = { NULL, one_name, 1 },
				   missing = { "e", no_name, 1 }, nothing = { "e", one_name, 0 },
				   nowhere = { "e", NULL, 1 }, too_large = { "e", large, 2 },
				   negative = { "e", below, 1 },
				   many = { "e", one_name, RP_ENUMERATORS_MAX + 1 };

static const struct {
	struct rp_field field;
	const char *why;
} refused[] = {
	{ { "f", NULL, 0, RP_TYPE_NONE, 0, 0, NULL }, "no type" },
	{ { "f", NULL, 0, 20, 0, 0, NULL }, "a type above the last" },
	{ { "f", NULL, 0, 255, 0, 0, NULL }, "a type far above the last" },
	{ { NULL, NULL, 0, RP_TYPE_U8, 0, 0, NULL }, "no name" },
	{ { "", NULL, 0, RP_TYPE_U8, 0, 0, NULL }, "an empty name" },
	{ { "\xc0\x80", NULL, 0, RP_TYPE_U8, 0, 0, NULL }, "a name that is not UTF-8" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 2, NULL }, "a flag that is none" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_NONE, 0, NULL }, "an array of nothing" },
	{ { "f", member_string, 1, RP_TYPE_U8, 0, 0, NULL }, "members of a number" },
	{ { "f", NULL, 1, RP_TYPE_U8, 0, 0, NULL }, "members of a number that are not there" },
	{ { "f", NULL, 1, RP_TYPE_STRING, 0, 0, NULL }, "members of a string that are not there" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_STRING, 0, NULL }, "an array of strings" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_STRING16, 0, NULL },
	  "an array of UTF-16 strings" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_ARRAY, 0, NULL }, "an array of arrays" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_STRUCT, 0, NULL }, "an array of empty structs" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, 99, 0, NULL }, "an array of an unknown type" },
	{ { "f", NULL, 0, RP_TYPE_F32, 0, 0, &named }, "an enumeration of reals" },
	{ { "f", NULL, 0, RP_TYPE_BOOL, 0, 0, &named }, "an enumeration of truths" },
	{ { "f", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_U8, 0, &named }, "an enumeration of an array" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 0, &nameless }, "an enumeration without a name" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 0, &missing }, "an enumerator without a name" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 0, &nothing }, "an enumeration of nothing" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 0, &nowhere }, "enumerators that are not there" },
	{ { "f", NULL, 0, RP_TYPE_U8, 0, 0, &many }, "1,025 enumerators" },
	{ { "f", NULL, 0, RP_TYPE_I8, 0, 0, &too_large }, "an enumerator above its type" },
	{ { "f", NULL, 0, RP_TYPE_U64, 0, 1u << 31, &negative }, "a flag besides" },
	{ { "f", NULL, 0, RP_TYPE_U16, 0, 0, &negative }, "an enumerator below its type" },
	{ { "f", NULL, 0, RP_TYPE_STRUCT, 0, 0, NULL }, "a struct without members" },
	{ { "f", NULL, 1, RP_TYPE_STRUCT, 0, 0, NULL }, "a struct whose members are missing" },
	{ { "f", member_array, 1, RP_TYPE_STRUCT, 0, 0, NULL }, "a struct with an array" },
	{ { "f", member_wrong, 1, RP_TYPE_STRUCT, 0, 0, NULL }, "a struct with an unknown type" },
	{ { "f", member_unnamed, 1, RP_TYPE_STRUCT, 0, 0, NULL },
	  "a struct with a nameless member" },
	{ { "f", deep_wrong, 1, RP_TYPE_ARRAY, RP_TYPE_STRUCT, 0, NULL },
	  "a string deep in structs" },
	{ { "f", member_string, 1, RP_TYPE_ARRAY, RP_TYPE_STRUCT, 0, NULL },
	  "structs with a string" },
	{ { "f", member_unnamed, RP_FIELDS_MAX + 1, RP_TYPE_STRUCT, 0, 0, NULL }, "129 members" },
};

Test(core_runtime, every_wrong_field_is_refused)
{
	struct rp_provider *provider = make_provider("Test-Runtime");

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct rp_field fields[2] = { one_field[0], refused[i].field };
		struct rp_event_decl decl = declaration(1, "event");

		decl.fields = fields;
		decl.field_count = 2;
		expect_refused(provider, &decl, refused[i].why);
	}
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_runtime, structs_that_contain_themselves_are_refused)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_event_decl decl = declaration(1, "endless");
	struct rp_field endless = { "again", NULL, 1, RP_TYPE_STRUCT, 0, 0, NULL };

	endless.members = &endless;
	decl.fields = &endless;
	expect_refused(provider, &decl, "a struct in itself");
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_runtime, event_may_have_128_fields)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_listener *listener = listen_to("Test-Runtime");
	struct rp_field fields[RP_FIELDS_MAX];
	uint8_t bytes[RP_FIELDS_MAX];
	char names[RP_FIELDS_MAX][8];
	struct rp_event_decl decl = declaration(1, "wide");
	struct rp_part part = { bytes, sizeof(bytes) };
	struct rp_listener_event reported;
	struct rp_event *event;

	for (unsigned int i = 0; i < RP_FIELDS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		fields[i] = (struct rp_field){ names[i], NULL, 0, RP_TYPE_U8, 0, 0, NULL };
		bytes[i] = (uint8_t)(i + 1);
	}
	decl.fields = fields;
	decl.field_count = RP_FIELDS_MAX;
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_event(listener, &reported);
	cr_assert_eq(reported.field_count, RP_FIELDS_MAX);
	cr_assert_str_eq(reported.fields[127].name, "f127");
	cr_assert_arr_eq(reported.payload, bytes, sizeof(bytes));
	expect_end(listener);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

/* 128 structs of 128 GUIDs: more than any nettrace payload holds. */
static struct rp_event *make_monster(struct rp_provider *provider)
{
	static struct rp_field members[RP_FIELDS_MAX], fields[RP_FIELDS_MAX];
	static char names[RP_FIELDS_MAX][8];
	struct rp_event_decl decl = declaration(1, "monster");
	struct rp_event *event = NULL;

	for (unsigned int i = 0; i < RP_FIELDS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		members[i] = (struct rp_field){ names[i], NULL, 0, RP_TYPE_GUID, 0, 0, NULL };
		fields[i] = (struct rp_field){ names[i], members, RP_FIELDS_MAX, RP_TYPE_STRUCT,
					       0, 0, NULL };
	}
	decl.fields = fields;
	decl.field_count = RP_FIELDS_MAX;
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	return event;
}

Test(core_runtime, event_the_format_cannot_hold_is_lost_alone)
{
	struct rp_provider *provider = make_provider("Test-Runtime");
	struct rp_event_decl decl = declaration(2, "normal");
	struct rp_event *monster = make_monster(provider), *normal;
	struct rp_session_stats stats = empty_stats();
	char path[] = "/tmp/rp-core-XXXXXX";
	int fd = mkstemp(path);
	struct rp_session *session;

	cr_assert_geq(fd, 0);
	cr_assert_eq(unlink(path), 0);
	session = stream_to(fd, "Test-Runtime");
	cr_assert_eq(rp_event_create(provider, &decl, &normal), 0);
	cr_assert_eq(write_u32(normal, 1), 0);
	cr_assert_eq(write_u32(monster, 2), 0);
	cr_assert_eq(write_u32(normal, 3), 0);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, 2u);
	cr_assert_eq(stats.lost_by[RP_LOSS_SINK], 1u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}
