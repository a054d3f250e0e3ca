/* SPDX-License-Identifier: MIT */
/* Secrets: no sink, listener or exporter gets their values, from static or dynamic events. */

#include "base/atomic.h"
#include "core/kernel_probes.h"
#include "core/secret.h"
#include "core_support.h"
#include <stdint.h>
#include <unistd.h>

#define KEYS "Test-Secrets"

RP_PROVIDER(keys, KEYS);

RP_STRUCT(card, RP_U64(number), RP_U16(code));

RP_EVENT(keys, all, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(user), RP_SECRET(RP_STRING(password)),
	 RP_SECRET(RP_STRING16(wide)), RP_SECRET(RP_BOOL(is_rich)), RP_SECRET(RP_CHAR(initial)),
	 RP_SECRET(RP_I32(balance)), RP_SECRET(RP_F64(rate)), RP_SECRET(RP_POINTER(where)),
	 RP_SECRET(RP_TIME(born)), RP_SECRET(RP_GUID(token)), RP_SECRET(RP_BLOB(key)),
	 RP_SECRET(RP_ARRAY(U16, digits)), RP_SECRET(RP_STRUCT_FIELD(card, paid)),
	 RP_SECRET(RP_STRUCT_ARRAY(card, others)), RP_STRING(page));

/* The same fields as `all`. */
static const struct rp_field card_members[] = {
	{ .name = "number", .type = RP_TYPE_U64 }, { .name = "code", .type = RP_TYPE_U16 },
};
#define SECRET(n, ...) { .name = n, __VA_ARGS__, .flags = RP_FIELD_SECRET }
static const struct rp_field all_fields[] = {
	{ .name = "user", .type = RP_TYPE_U32 },
	SECRET("password", .type = RP_TYPE_STRING),
	SECRET("wide", .type = RP_TYPE_STRING16),
	SECRET("is_rich", .type = RP_TYPE_BOOL),
	SECRET("initial", .type = RP_TYPE_CHAR),
	SECRET("balance", .type = RP_TYPE_I32),
	SECRET("rate", .type = RP_TYPE_F64),
	SECRET("where", .type = RP_TYPE_POINTER),
	SECRET("born", .type = RP_TYPE_TIME),
	SECRET("token", .type = RP_TYPE_GUID),
	SECRET("key", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8),
	SECRET("digits", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U16),
	SECRET("paid", .type = RP_TYPE_STRUCT, .members = card_members, .member_count = 2),
	SECRET("others", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT,
	       .members = card_members, .member_count = 2),
	{ .name = "page", .type = RP_TYPE_STRING },
};

/* The payload of `all` in listeners, with the user 7 and the page "/". */
static const uint8_t redacted[] = {
	7, 0, 0, 0,					/* user */
	'*', '*', '*', 0,				/* password */
	'*', 0, '*', 0, '*', 0, 0, 0,			/* wide */
	0, 0,						/* is_rich, initial */
	0, 0, 0, 0,					/* balance */
	0, 0, 0, 0, 0, 0, 0, 0,				/* rate */
	0, 0, 0, 0, 0, 0, 0, 0,				/* where */
	0, 0, 0, 0, 0, 0, 0, 0,				/* born */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,	/* token */
	0, 0, 0, 0,					/* key, digits */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0,			/* paid */
	0, 0,						/* others */
	'/', 0,						/* page */
};

static const struct card cards[2] = { { 0x1122334455667788, 0x99aa }, { 0xbbbbbbbbbbbb, 0xcccc } };

/* The payload as it would be without secret fields. */
static size_t lay_out(uint8_t *to)
{
	static const uint16_t wide[] = { 'o', 'p', 'e', 'n', 0x100, 0 }, digits[] = { 2, 1, 2 };
	const uint32_t user = 7;
	uint8_t *at = to;

	memcpy(at, &user, 4), at += 4;
	memcpy(at, "hunter2", 8), at += 8;
	memcpy(at, wide, sizeof(wide)), at += sizeof(wide);
	memset(at, 0xee, 2 + 4 + 8 + 8 + 8 + 16), at += 2 + 4 + 8 + 8 + 8 + 16;
	memcpy(at, "\3\0key", 5), at += 5;
	memcpy(at, digits, sizeof(digits)), at += sizeof(digits);
	memcpy(at, &cards[0], sizeof(cards[0])), at += sizeof(cards[0]);
	memcpy(at, "\2\0", 2), at += 2;
	memcpy(at, cards, sizeof(cards)), at += sizeof(cards);
	memcpy(at, "/", 2), at += 2;
	return (size_t)(at - to);
}

static struct rp_provider *provider;

static void set_up(void)
{
	cr_assert_eq(rp_provider_create(KEYS "-Made", NULL, NULL, &provider), 0);
}

TestSuite(core_secret, .init = set_up);

static int make(const struct rp_field *fields, uint16_t count, struct rp_event **ret_event)
{
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = "made", .fields = fields,
		.field_count = count,
	};

	return rp_event_create(provider, &decl, ret_event);
}

static struct rp_event *make_all(void)
{
	struct rp_event *event;

	cr_assert_eq(make(all_fields, sizeof(all_fields) / sizeof(all_fields[0]), &event), 0);
	return event;
}

Test(core_secret, declared_events_forget_secrets_of_every_type)
{
	static const rp_char16 wide[] = { 'o', 'p', 'e', 'n', 0 };
	static const uint16_t digits[] = { 1, 2 };
	struct rp_guid token = { { 1, 2, 3 } };
	struct rp_listener *listener = listen_to(KEYS);

	cr_assert_eq(keys_all(7, "hunter2", wide, true, 'A', 100000, 0.5, &token, 1234, &token,
			      "key", 3, digits, 2, &cards[0], cards, 2, "/"), 0);
	expect_payload(listener, redacted, sizeof(redacted));
	/* The payload does not even show whether there was a value. */
	cr_assert_eq(keys_all(7, NULL, NULL, false, 0, 0, 0, NULL, 0, NULL, NULL, 0, NULL, 0, NULL,
			      NULL, 0, "/"), 0);
	expect_payload(listener, redacted, sizeof(redacted));
	expect_end(listener);
}

Test(core_secret, listener_is_reported_which_fields_are_secret)
{
	struct rp_listener *listener = listen_to(KEYS);
	struct rp_listener_event event;

	keys_all(7, NULL, NULL, false, 0, 0, 0, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, NULL, 0, "");
	expect_event(listener, &event);
	cr_assert_eq(event.field_count, 15);
	for (uint16_t i = 0; i < event.field_count; i++)
		cr_assert_eq(event.fields[i].flags, i == 0 || i == 14 ? 0u : RP_FIELD_SECRET,
			     "%s", event.fields[i].name);
	expect_end(listener);
}

Test(core_secret, same_fields_with_other_secrets_are_another_definition)
{
	static const struct rp_field open = { .name = "a", .type = RP_TYPE_U8 };
	static const struct rp_field closed = SECRET("a", .type = RP_TYPE_U8);
	struct rp_listener *listener = listen_to(KEYS "-Made");
	const struct rp_part part = { "\5", 1 };
	struct rp_event *event, *other;

	cr_assert_eq(make(&open, 1, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	rp_event_destroy(event);
	cr_assert_eq(make(&closed, 1, &other), 0);
	cr_assert_eq(rp_event_write(other, &part, 1), 0);
	expect_payload(listener, "\5", 1);
	expect_payload(listener, "\0", 1);
	expect_end(listener);
}

Test(core_secret, dynamic_events_lose_secrets_of_every_type)
{
	struct rp_listener *listener = listen_to(KEYS "-Made");
	struct rp_event *event = make_all();
	uint8_t bytes[256];
	const struct rp_part part = { bytes, lay_out(bytes) };

	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_payload(listener, redacted, sizeof(redacted));
	expect_end(listener);
}

#define TOKENS 31u	/* secret fields of the largest event; a token has 16 bytes */

/* Creates, writes and destroys an event of `count` secret tokens and a page. */
static void write_tokens(uint16_t count)
{
	uint8_t bytes[TOKENS * 16 + 2];
	const struct rp_part part = { bytes, count * 16u + 2 };
	struct rp_field fields[TOKENS + 1];
	struct rp_event *event;

	for (uint16_t i = 0; i < count; i++)
		fields[i] = (struct rp_field)SECRET("token", .type = RP_TYPE_GUID);
	fields[count] = (struct rp_field){ .name = "page", .type = RP_TYPE_STRING };
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes + count * 16u, "/", 2);
	cr_assert_eq(make(fields, count + 1, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	rp_event_destroy(event);
}

/* More zeros in total than the buffer for one part has. */
Test(core_secret, many_secrets_side_by_side_are_all_zeros)
{
	struct rp_listener *listener = listen_to(KEYS "-Made");
	uint8_t zeros[TOKENS * 16 + 2] = { 0 };

	for (uint16_t count = 1; count <= TOKENS; count++)
		write_tokens(count);
	for (unsigned int count = 1; count <= TOKENS; count++) {
		zeros[count * 16] = '/';
		expect_payload(listener, zeros, count * 16 + 2);
		zeros[count * 16] = 0;
	}
	expect_end(listener);
}

Test(core_secret, parts_may_be_cut_anywhere)
{
	struct rp_listener *listener = listen_to(KEYS "-Made");
	struct rp_event *event = make_all();
	uint8_t bytes[256], apart[512];
	struct rp_part parts[256];
	size_t size = lay_out(bytes);

	/* Each byte, and each gap between two bytes, is a separate part. */
	for (size_t i = 0; i < size; i++) {
		apart[2 * i] = bytes[i];
		parts[i] = (struct rp_part){ &apart[2 * i], 1 };
	}
	cr_assert_eq(rp_event_write(event, parts, (unsigned int)size), 0);
	expect_payload(listener, redacted, sizeof(redacted));
	for (size_t cut = 0; cut <= size; cut++) {
		const struct rp_part three[] = {
			{ bytes, cut }, { NULL, 0 }, { bytes + cut, size - cut },
		};

		cr_assert_eq(rp_event_write(event, three, 3), 0);
	}
	for (size_t cut = 0; cut <= size; cut++)
		expect_payload(listener, redacted, sizeof(redacted));
	expect_end(listener);
}

Test(core_secret, payload_that_ends_early_shows_no_part_of_a_secret)
{
	struct rp_listener *listener = listen_to(KEYS "-Made");
	struct rp_event *event = make_all();
	struct rp_listener_event heard;
	uint8_t bytes[256];
	size_t size = lay_out(bytes);

	for (size_t cut = 0; cut < size; cut++) {
		const struct rp_part part = { bytes, cut };

		cr_assert_eq(rp_event_write(event, &part, 1), 0);
	}
	for (size_t cut = 0; cut < size; cut++) {
		expect_event(listener, &heard);
		cr_assert_leq(heard.payload_bytes, sizeof(redacted));
		cr_assert_arr_eq(heard.payload, redacted, heard.payload_bytes);
	}
	expect_end(listener);
}

Test(core_secret, bytes_after_the_last_field_are_dropped)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_U8 }, SECRET("b", .type = RP_TYPE_STRING),
	};
	struct rp_listener *listener = listen_to(KEYS "-Made");
	const struct rp_part part = { "\5x\0hunter2", 11 };
	struct rp_event *event;

	cr_assert_eq(make(fields, 2, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_payload(listener, "\5***\0", 5);
	expect_end(listener);
}

Test(core_secret, struct_with_texts_is_redacted_member_by_member)
{
	static const struct rp_field name[] = {
		{ .name = "first", .type = RP_TYPE_STRING }, { .name = "age", .type = RP_TYPE_U8 },
		{ .name = "last", .type = RP_TYPE_STRING16 },
	};
	static const struct rp_field fields[] = {
		SECRET("who", .type = RP_TYPE_STRUCT, .members = name, .member_count = 3),
		{ .name = "a", .type = RP_TYPE_U8 },
	};
	struct rp_listener *listener = listen_to(KEYS "-Made");
	const struct rp_part part = { "Ada\0\44L\0\0\0\7", 10 };
	struct rp_event *event;

	cr_assert_eq(make(fields, 2, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_payload(listener, "***\0\0*\0*\0*\0\0\0\7", 14);
	expect_end(listener);
}

Test(core_secret, payload_in_too_many_parts_is_lost_and_counted)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
		SECRET("b", .type = RP_TYPE_U8),
	};
	struct rp_listener *listener = listen_to(KEYS "-Made");
	struct rp_session_stats stats = empty_stats();
	uint8_t apart[2 * 2 * RP_SECRET_PARTS] = { 0 };
	struct rp_part parts[2 * RP_SECRET_PARTS];
	struct rp_listener_event heard;
	struct rp_event *event;
	uint16_t count;

	cr_assert_eq(make(fields, 2, &event), 0);
	for (unsigned int i = 0; i < 2 * RP_SECRET_PARTS; i++)
		parts[i] = (struct rp_part){ &apart[2 * i], 1 };
	parts[0] = (struct rp_part){ &count, 2 };
	/*
	 * The maximum number of parts, including the count and the replacement of the secret; then
	 * one more.
	 */
	count = RP_SECRET_PARTS - 2;
	cr_assert_eq(rp_event_write(event, parts, 1u + count + 1u), 0);
	expect_event(listener, &heard);
	cr_assert_eq(heard.payload_bytes, 2u + count + 1u);
	count++;
	cr_assert_eq(rp_event_write(event, parts, 1u + count + 1u), -EMSGSIZE);
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost, 1u);
}

Test(core_secret, payload_that_is_too_large_is_not_read)
{
	struct rp_listener *listener = listen_to(KEYS "-Made");
	struct rp_session_stats stats = empty_stats();
	struct rp_event *event = make_all();
	const struct rp_part absurd[] = { { NULL, SIZE_MAX }, { NULL, 2 } };
	const struct rp_part large = { NULL, RP_PAYLOAD_MAX + 1 };

	cr_assert_eq(rp_event_write(event, absurd, 2), -EMSGSIZE);
	cr_assert_eq(rp_event_write(event, &large, 1), -EMSGSIZE);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost, 2u);
}

Test(core_secret, refuses_secrets_inside_structs_and_unknown_flags)
{
	static const struct rp_field member = SECRET("code", .type = RP_TYPE_U16);
	static const struct rp_field inside = {
		.name = "paid", .type = RP_TYPE_STRUCT, .members = &member, .member_count = 1,
	};
	static const struct rp_field unknown = { .name = "a", .type = RP_TYPE_U8, .flags = 2 };
	struct rp_event *event;

	cr_assert_eq(make(&inside, 1, &event), -EINVAL);
	cr_assert_eq(make(&unknown, 1, &event), -EINVAL);
}

Test(core_secret, other_events_are_written_as_they_were)
{
	static const struct rp_field open = { .name = "a", .type = RP_TYPE_U8 };
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 2, .name = "open", .fields = &open, .field_count = 1,
	};
	struct rp_listener *listener = listen_to(KEYS "-Made");
	const struct rp_part part = { "\5beyond", 7 };
	struct rp_event *secret = make_all(), *event;

	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_neq(rp_load_relaxed(&rp_slow_path_mask) & RP_SECRET_BIT, 0u);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_payload(listener, part.base, part.size_bytes);
	rp_event_destroy(secret);
	/* After the last secret event is destroyed, writes no longer take the slow path. */
	cr_assert_eq(rp_load_relaxed(&rp_slow_path_mask) & RP_SECRET_BIT, 0u);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	expect_payload(listener, part.base, part.size_bytes);
	expect_end(listener);
}

static struct rp_event *stacked;

static __attribute__((noinline)) int write_stacked(const struct rp_part *part)
{
	int ret = rp_event_write(stacked, part, 1);

	__asm__ volatile("");
	return ret;
}

Test(core_secret, stack_begins_with_the_caller)
{
	struct rp_listener *listener = push_to(NULL, NULL, KEYS "-Made", RP_SESSION_STACKS);
	struct rp_listener_event heard;
	uint8_t bytes[256];
	const struct rp_part part = { bytes, lay_out(bytes) };

	stacked = make_all();
	cr_assert_eq(write_stacked(&part), 0);
	expect_event(listener, &heard);
	cr_assert_gt(heard.frame_count, 0u);
	cr_assert_gt(heard.frames[0], (uint64_t)(uintptr_t)write_stacked);
	cr_assert_lt(heard.frames[0], (uint64_t)(uintptr_t)write_stacked + 4096);
	expect_end(listener);
}
