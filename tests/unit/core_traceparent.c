/* SPDX-License-Identifier: MIT */
/* The W3C's traceparent, parsed and formatted. */
#include "core_support.h"

#include <stdint.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define VALID "00-" TRACE "-" SPAN "-01"

RP_PROVIDER(traced, "Test-Traced");
RP_EVENT(traced, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));

static int parse(const char *text, struct rp_activity *ret_activity, uint8_t *ret_flags)
{
	/* Exact size: a sanitizer reports a read beyond it. */
	size_t size = strlen(text);
	char *copy = malloc(size ? size : 1);
	int ret;

	memcpy(copy, text, size);
	ret = rp_traceparent_parse(copy, size, ret_activity, ret_flags);
	free(copy);
	return ret;
}

Test(core_traceparent, trace_goes_on_with_a_span_of_our_own)
{
	static const uint8_t trace[16] = { 0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3,
					   0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36 };
	static const uint8_t span[8] = { 0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7 };
	struct rp_activity first, second;
	char text[RP_TRACEPARENT_SIZE];
	uint8_t flags;

	cr_assert_eq(parse(VALID, &first, &flags), 0);
	cr_expect_arr_eq(first.id.bytes, trace, 16);
	cr_expect_arr_eq(first.related.bytes, span, 8);
	cr_expect_eq(flags, RP_TRACE_SAMPLED);
	rp_traceparent_print(&first, flags, text);
	cr_expect_eq(strlen(text), RP_TRACEPARENT_SIZE - 1);
	cr_expect_eq(strncmp(text, VALID, 36), 0, "%s", text);
	cr_expect_neq(strncmp(text + 36, SPAN, 16), 0, "%s", text);
	cr_expect_str_eq(text + 52, "-01");
	/* The next service gets this span as its caller. */
	cr_assert_eq(parse(text, &second, &flags), 0);
	cr_expect_arr_eq(second.id.bytes, trace, 16);
	cr_expect_arr_eq(second.related.bytes, first.related.bytes + 8, 8);
	cr_expect_neq(memcmp(second.related.bytes + 8, first.related.bytes + 8, 8), 0);
}

static const struct {
	const char *text;
	uint8_t flags;
} valid[] = {
	{ "00-" TRACE "-" SPAN "-00", 0 },
	{ "00-" TRACE "-" SPAN "-03", 3 },
	{ "00-" TRACE "-" SPAN "-ff", 3 },
	{ "00-00000000000000000000000000000001-0000000000000001-01", 1 },
	{ "01-" TRACE "-" SPAN "-09", 1 },
	{ "01-" TRACE "-" SPAN "-01-", 1 },
	{ "fe-" TRACE "-" SPAN "-01-what-the-future-has", 1 },
	{ "cc-" TRACE "-" SPAN "-01-\x80 {}", 1 },
};

Test(core_traceparent, valid_ones_of_this_and_later_versions_are_taken)
{
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
		struct rp_activity activity;
		uint8_t flags = 77;

		cr_expect_eq(parse(valid[i].text, &activity, &flags), 0, "%s", valid[i].text);
		cr_expect_eq(flags, valid[i].flags, "%s: %d", valid[i].text, flags);
	}
}

static const char *const wrong[] = {
	"", "-", "00", "00-" TRACE "-" SPAN "-1", "00-" TRACE "-" SPAN "-", "00-" TRACE "-" SPAN,
	"00-" TRACE "-" SPAN "-01-", "00-" TRACE "-" SPAN "-011", VALID " ", " " VALID,
	"00-" TRACE "-" SPAN "-01-future", "01-" TRACE "-" SPAN "-011", "01-" TRACE "-" SPAN "-01.",
	"ff-" TRACE "-" SPAN "-01", "0x-" TRACE "-" SPAN "-01", "FE-" TRACE "-" SPAN "-01",
	"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", "00-" TRACE "-00F067AA0BA902B7-01",
	"00-00000000000000000000000000000000-" SPAN "-01", "00-" TRACE "-0000000000000000-01",
	"00-" TRACE "-" SPAN "-0g", "00-" TRACE "-" SPAN "-0A", "00_" TRACE "-" SPAN "-01",
	"00-" TRACE "_" SPAN "-01", "00-" TRACE "-" SPAN "_01", "00-" TRACE SPAN "--01",
	"00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
	"00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01", "00-" TRACE "-00f067aa0ba902b/-01",
};

Test(core_traceparent, wrong_ones_are_refused_and_nothing_is_touched)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct rp_activity activity, before;
		uint8_t flags = 77;

		memset(&activity, 0x55, sizeof(activity));
		before = activity;
		cr_expect_eq(parse(wrong[i], &activity, &flags), -EINVAL, "\"%s\"", wrong[i]);
		cr_expect_eq(memcmp(&activity, &before, sizeof(before)), 0, "\"%s\"", wrong[i]);
		cr_expect_eq(flags, 77, "\"%s\"", wrong[i]);
	}
}

Test(core_traceparent, every_prefix_and_every_wrong_character_is_refused)
{
	char text[] = VALID;
	struct rp_activity activity;
	uint8_t flags;

	for (size_t size = 0; size < sizeof(text) - 1; size++)
		cr_expect_eq(rp_traceparent_parse(text, size, &activity, &flags), -EINVAL);
	for (size_t at = 0; at < sizeof(text) - 1; at++) {
		char kept = text[at];

		text[at] = kept == '-' ? '0' : '-';
		cr_expect_eq(parse(text, &activity, &flags), -EINVAL, "%s", text);
		text[at] = kept;
	}
}

Test(core_traceparent, new_traces_differ_and_can_be_joined)
{
	struct rp_activity made[1000], joined;
	char text[RP_TRACEPARENT_SIZE];
	uint8_t flags = 77;

	for (int i = 0; i < 1000; i++) {
		rp_traceparent_generate(&made[i], &flags);
		cr_assert_eq(flags, 0);
		cr_assert(memcmp(made[i].related.bytes, "\0\0\0\0\0\0\0", 8) == 0, "no caller");
		for (int j = 0; j < i; j++) {
			cr_assert(memcmp(&made[i].id, &made[j].id, 16) != 0);
			cr_assert(memcmp(&made[i].related, &made[j].related, 16) != 0);
		}
		rp_traceparent_print(&made[i], flags, text);
		cr_assert_eq(parse(text, &joined, &flags), 0, "%s", text);
		cr_assert_eq(memcmp(&joined.id, &made[i].id, 16), 0);
		cr_assert_eq(memcmp(joined.related.bytes, made[i].related.bytes + 8, 8), 0);
	}
}

Test(core_traceparent, events_carry_the_trace)
{
	struct rp_listener *listener = listen_to("Test-Traced");
	struct rp_listener_event event;
	struct rp_activity activity;
	uint8_t flags;

	cr_assert_eq(parse(VALID, &activity, &flags), 0);
	rp_activity_set(&activity);
	cr_assert_eq(traced_mark(1), 0);
	expect_event(listener, &event);
	cr_expect_eq(memcmp(&event.activity, &activity.id, 16), 0);
	cr_expect_eq(memcmp(&event.related_activity, &activity.related, 16), 0);
	expect_end(listener);
}
