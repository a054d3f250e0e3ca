/* SPDX-License-Identifier: MIT */
/* Lists of triggers as text. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trigger/parse.h"

static struct rp_trigger *parse(const char *text, size_t expected)
{
	struct rp_trigger *triggers;
	size_t count, at = 0;
	int ret = rp_triggers_parse(text, &triggers, &count, &at);

	cr_assert_eq(ret, 0, "%s: wrong at %zu", text, at);
	cr_assert_eq(count, expected);
	return triggers;
}

Test(trigger_parse, each_kind_is_read)
{
	struct rp_trigger *list = parse("A.B:failed,A:*:Error,A:go..done>250ms,A:queue-x>1000,"
					"B:rate<-0.5,*:any:4,A:s..e>1s,A:s..e>2us,A:s..e>3ns", 9);

	cr_assert_eq(list[0].kind, RP_TRIGGER_EVENT);
	cr_assert_str_eq(list[0].provider, "A.B");
	cr_assert_str_eq(list[0].name, "failed");
	cr_assert_str_eq(list[0].text, "A.B:failed");
	cr_assert_eq(list[0].level, 0);
	cr_assert_eq(list[1].kind, RP_TRIGGER_EVENT);
	cr_assert_str_eq(list[1].name, "*");
	cr_assert_eq(list[1].level, 2);
	cr_assert_eq(list[2].kind, RP_TRIGGER_LATENCY);
	cr_assert_str_eq(list[2].name, "go");
	cr_assert_str_eq(list[2].stop, "done");
	cr_assert_eq(list[2].bound_ns, 250000000u);
	cr_assert_str_eq(list[2].text, "A:go..done>250ms");
	cr_assert_eq(list[3].kind, RP_TRIGGER_ABOVE);
	cr_assert_str_eq(list[3].name, "queue-x");
	cr_assert_eq(list[3].bound, 1000.0);
	cr_assert_eq(list[4].kind, RP_TRIGGER_BELOW);
	cr_assert_eq(list[4].bound, -0.5);
	cr_assert_eq(list[5].level, 4);
	cr_assert_eq(list[6].bound_ns, 1000000000u);
	cr_assert_eq(list[7].bound_ns, 2000u);
	cr_assert_eq(list[8].bound_ns, 3u);
	free(list);
}

Test(trigger_parse, what_cannot_be_read_is_reported_with_its_place)
{
	static const struct {
		const char *text;
		size_t at;
	} cases[] = {
		{ "", 0 }, { "A", 1 }, { ":x", 0 }, { "A:", 2 }, { "A:x,", 4 }, { ",A:x", 0 },
		{ "A:x:0", 4 }, { "A:x:6", 4 }, { "A:x:", 4 }, { "A:x:Error:", 4 }, { "A:x>", 4 },
		{ "A:x>ten", 4 }, { "A:x>1.", 6 }, { "A:x>1x", 5 }, { "A:x>1e5", 5 },
		{ "A:x>1234567890123456", 4 }, { "A:..y>1s", 2 }, { "A:x..>1s", 5 },
		{ "A:x..y", 6 }, { "A:x..y<1s", 6 }, { "A:x..y>1", 8 }, { "A:x..y>1m", 8 },
		{ "A:x..y>999999999999999s", 23 }, { "A:x..y>1s:2", 9 }, { "A:\xff", 2 },
		{ "A:x>1,B:y..z", 12 },
	};
	struct rp_trigger *triggers = NULL;
	size_t count = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t at = 999;

		cr_assert_eq(rp_triggers_parse(cases[i].text, &triggers, &count, &at), -EINVAL,
			     "%s", cases[i].text);
		cr_assert_eq(at, cases[i].at, "%s: %zu", cases[i].text, at);
	}
	cr_assert_null(triggers);
	cr_assert_eq(count, 0u);
}

Test(trigger_parse, more_than_there_may_be_are_refused)
{
	char text[4 * RP_TRIGGERS_MAX + 8] = "";
	struct rp_trigger *triggers;
	size_t count;

	for (unsigned int i = 0; i < RP_TRIGGERS_MAX; i++)
		strcat(text, i ? ",A:b" : "A:b");
	free(parse(text, RP_TRIGGERS_MAX));
	strcat(text, ",A:b");
	cr_assert_eq(rp_triggers_parse(text, &triggers, &count, NULL), -EINVAL);
}
