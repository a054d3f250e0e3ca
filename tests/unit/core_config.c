/* SPDX-License-Identifier: MIT */
/* The provider list as text. */
#include "core_support.h"

#include <stdint.h>
#include <stdio.h>

static void expect_one(const char *text, const char *name, uint64_t keywords, uint8_t level,
		       const char *filter_data)
{
	struct rp_session_provider *providers = NULL;
	size_t count = 0;

	cr_assert_eq(rp_providers_parse(text, &providers, &count, NULL), 0, "%s", text);
	cr_assert_eq(count, 1u, "%s", text);
	cr_assert_eq(providers->size, sizeof(*providers));
	cr_assert_str_eq(providers->name, name);
	cr_assert_eq(providers->keywords, keywords, "%s: %lx", text, providers->keywords);
	cr_assert_eq(providers->level, level, "%s", text);
	cr_assert_null(providers->filter);
	if (filter_data)
		cr_assert_str_eq(providers->filter_data, filter_data);
	else
		cr_assert_null(providers->filter_data);
	free(providers);
}

Test(core_config, what_is_missing_has_a_default)
{
	expect_one("Shop", "Shop", UINT64_MAX, 5, NULL);
	expect_one("Shop:", "Shop", UINT64_MAX, 5, NULL);
	expect_one("Shop::", "Shop", UINT64_MAX, 5, NULL);
	expect_one("Shop:::", "Shop", UINT64_MAX, 5, NULL);
	expect_one("Shop::3", "Shop", UINT64_MAX, 3, NULL);
	expect_one("Shop:0", "Shop", 0, 5, NULL);
	expect_one("Shop:::a=b", "Shop", UINT64_MAX, 5, "a=b");
	expect_one("*", "*", UINT64_MAX, 5, NULL);
}

Test(core_config, keywords_are_hex)
{
	expect_one("A:10", "A", 0x10, 5, NULL);
	expect_one("A:0x10", "A", 0x10, 5, NULL);
	expect_one("A:0Xff", "A", 0xff, 5, NULL);
	expect_one("A:DeadBeef", "A", 0xdeadbeef, 5, NULL);
	expect_one("A:ffffffffffffffff", "A", UINT64_MAX, 5, NULL);
	expect_one("A:0x8000000000000000", "A", 1ull << 63, 5, NULL);
	expect_one("A:0000000000000001", "A", 1, 5, NULL);
}

Test(core_config, levels_are_digits_or_names)
{
	static const char *const names[] = {
		"LogAlways", "critical", "ERROR", "Warning", "informational", "Verbose",
	};
	char text[64];

	for (uint8_t i = 0; i < 6; i++) {
		snprintf(text, sizeof(text), "A:1:%u", i);
		expect_one(text, "A", 1, i, NULL);
		snprintf(text, sizeof(text), "A:1:%s", names[i]);
		expect_one(text, "A", 1, i, NULL);
	}
}

Test(core_config, arguments_may_hold_colons_and_quoted_commas)
{
	expect_one("A:1:2:k=v;k2=v2", "A", 1, 2, "k=v;k2=v2");
	expect_one("A:1:2:url=http://x:80/", "A", 1, 2, "url=http://x:80/");
	expect_one("A:1:2:list=\"a,b:c\";z=1", "A", 1, 2, "list=\"a,b:c\";z=1");
	expect_one("A:1:2:k=gr\xc3\xbc\xc3\x9f", "A", 1, 2, "k=gr\xc3\xbc\xc3\x9f");
}

Test(core_config, list_is_given_in_its_order)
{
	struct rp_session_provider *providers;
	size_t count;

	cr_assert_eq(rp_providers_parse("B:1,A::2,B:3:4:x=\"1,2\",*", &providers, &count, NULL), 0);
	cr_assert_eq(count, 4u);
	cr_assert_str_eq(providers[0].name, "B");
	cr_assert_eq(providers[0].keywords, 1u);
	cr_assert_str_eq(providers[1].name, "A");
	cr_assert_eq(providers[1].level, 2);
	cr_assert_str_eq(providers[2].name, "B");
	cr_assert_str_eq(providers[2].filter_data, "x=\"1,2\"");
	cr_assert_str_eq(providers[3].name, "*");
	free(providers);
}

static const struct {
	const char *text;
	size_t at;
} wrong[] = {
	{ "", 0 },
	{ ",", 0 },
	{ "A,", 2 },
	{ "A,,B", 2 },
	{ ":1", 0 },
	{ "A,:1", 2 },
	{ "A:g", 2 },
	{ "A:1g", 3 },
	{ "A:0x", 3 },
	{ "A:-1", 2 },
	{ "A: 1", 2 },
	{ "A:1 ", 3 },
	{ "A:10000000000000000", 2 },
	{ "A:00000000000000001", 2 },
	{ "A:1:6", 4 },
	{ "A:1:55", 4 },
	{ "A:1:-1", 4 },
	{ "A:1:Loud", 4 },
	{ "A:1:Verbos", 4 },
	{ "B,A:1:Verbosely", 6 },
	{ "\xff", 0 },
	{ "A,\xc3", 2 },
	{ "A:1:2:k=\xc3", 6 },
	{ "A\"B", 0 },
	{ "A:1:2:k=\"v", 8 },
	{ "A:1:2:k=\"v\";l=\",B", 14 },
};

Test(core_config, wrong_text_is_refused_at_its_offset)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct rp_session_provider *providers = NULL;
		size_t count = 77, at = 77;

		cr_expect_eq(rp_providers_parse(wrong[i].text, &providers, &count, &at), -EINVAL,
			     "\"%s\"", wrong[i].text);
		cr_expect_eq(at, wrong[i].at, "\"%s\": offset %zu, not %zu", wrong[i].text, at,
			     wrong[i].at);
		cr_expect_null(providers, "\"%s\"", wrong[i].text);
		cr_expect_eq(count, 77u, "\"%s\"", wrong[i].text);
		cr_expect_eq(rp_providers_parse(wrong[i].text, &providers, &count, NULL), -EINVAL);
	}
	cr_expect_eq(rp_providers_parse(NULL, NULL, NULL, NULL), -EINVAL);
}

Test(core_config, names_up_to_the_limit_are_taken)
{
	struct rp_session_provider *providers;
	char text[RP_NAME_MAX + 2];
	size_t count, at;

	memset(text, 'n', sizeof(text));
	text[RP_NAME_MAX] = '\0';
	cr_assert_eq(rp_providers_parse(text, &providers, &count, &at), 0);
	cr_assert_str_eq(providers->name, text);
	free(providers);
	text[RP_NAME_MAX] = 'n';
	text[RP_NAME_MAX + 1] = '\0';
	cr_assert_eq(rp_providers_parse(text, &providers, &count, &at), -EINVAL);
	cr_assert_eq(at, 0u);
}

Test(core_config, list_of_a_thousand_is_the_longest)
{
	struct rp_session_provider *providers;
	static char text[2 * 1001];
	size_t count, at;

	for (int i = 0; i < 1001; i++)
		memcpy(text + 2 * i, "A,", 2);
	text[2 * 1000 - 1] = '\0';
	cr_assert_eq(rp_providers_parse(text, &providers, &count, &at), 0);
	cr_assert_eq(count, 1000u);
	free(providers);
	text[2 * 1000 - 1] = ',';
	text[2 * 1001 - 1] = '\0';
	cr_assert_eq(rp_providers_parse(text, &providers, &count, &at), -EINVAL);
}

/* The parser accepts or rejects any bytes, and stays within the text. */
Test(core_config, random_text_is_answered)
{
	static const char letters[] = "A*:,\"0x5fg =;\xc3\xbc\xff";
	uint32_t random = 1;

	for (int i = 0; i < 100000; i++) {
		struct rp_session_provider *providers = NULL;
		size_t length, count = 0, at = 0;
		char *text;
		int ret;

		random = random * 1664525 + 1013904223;
		length = random >> 28;
		text = malloc(length + 1);
		for (size_t j = 0; j < length; j++) {
			random = random * 1664525 + 1013904223;
			text[j] = letters[(random >> 16) % (sizeof(letters) - 1)];
		}
		text[length] = '\0';
		ret = rp_providers_parse(text, &providers, &count, &at);
		cr_assert(ret == 0 ? count > 0 : ret == -EINVAL && at <= length, "\"%s\"", text);
		free(providers);
		free(text);
	}
}

static void expect_argument(const char *data, const char *key, const char *value)
{
	char *got = NULL;
	int ret = rp_filter_data_get(data, key, &got);

	if (!value) {
		cr_expect_eq(ret, -ENOENT, "%s of \"%s\"", key, data);
		cr_expect_null(got);
		return;
	}
	cr_assert_eq(ret, 0, "%s of \"%s\"", key, data);
	cr_expect_str_eq(got, value, "%s of \"%s\": \"%s\"", key, data, got);
	free(got);
}

Test(core_config, arguments_are_found_by_key)
{
	static const char metrics[] =
		"SessionId=a-b;Metrics=\"Shop\\orders,Shop=x\";RefreshInterval=1";

	expect_argument("EventCounterIntervalSec=1", "EventCounterIntervalSec", "1");
	expect_argument(metrics, "SessionId", "a-b");
	expect_argument(metrics, "Metrics", "Shop\\orders,Shop=x");
	expect_argument(metrics, "RefreshInterval", "1");
	expect_argument("k=v;k2=\"v;2=:,\n\";k3=", "k2", "v;2=:,\n");
	expect_argument("k=v;k2=\"v;2\";k3=", "k3", "");
	expect_argument("\"a;b=c\"=d", "a;b=c", "d");
	expect_argument("a=b=c;", "a", "b=c");
	expect_argument("a=1;;a=2", "a", "2");
	expect_argument("=x", "", "x");
}

Test(core_config, arguments_that_are_not_there_are_not_found)
{
	expect_argument(NULL, "k", NULL);
	expect_argument("", "k", NULL);
	expect_argument("", "", NULL);
	expect_argument("k", "k", NULL);
	expect_argument("kk=1;K=2;k;l=k=3", "k", NULL);
	expect_argument("l=\";k=v", "k", NULL);
	expect_argument("k", "", NULL);
}

Test(core_config, loss_reasons_have_names)
{
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_FULL), "full");
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_TOO_BIG), "too-big");
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_BUSY), "busy");
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_SINK), "sink");
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_DAMAGED), "damaged");
	cr_assert_str_eq(rp_loss_reason_name(RP_LOSS_BLOCKED), "blocked");
	cr_assert_null(rp_loss_reason_name(RP_LOSS_REASON_COUNT));
	cr_assert_null(rp_loss_reason_name((enum rp_loss_reason)-1));
}
