/* SPDX-License-Identifier: MIT */
/* Conditions on events, as `ringpipe record --until` takes them. */
#include <errno.h>

#include "nettrace_trace.h"

#include "tools/trace/event_condition.h"

static const struct rp_field fields[] = {
	{ .name = "text", .type = RP_TYPE_STRING }, { .name = "small", .type = RP_TYPE_I8 },
	{ .name = "big", .type = RP_TYPE_U64 }, { .name = "real", .type = RP_TYPE_F64 },
	{ .name = "flag", .type = RP_TYPE_BOOL },
};

static const uint8_t payload[] =
	"Zo\xc3\xab\0" "\xfb"				/* -5 */
	"\xff\xff\xff\xff\xff\xff\xff\xff"
	"\0\0\0\0\0\0\xf8\x3f" "\x01";			/* 1.5, true */

/* Whether the event above fulfils the condition; -1: the condition is wrong. */
static int fulfils(const char *text)
{
	struct rp_encoder *encoder = trace_begin();
	const struct rp_encoder_event_type *type = trace_define(encoder, "Order", 1, fields, 5);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_event_condition condition;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;
	int ret;

	trace_event(encoder, type, TRACE_START_NS, 7, payload, sizeof(payload) - 1);
	bytes = trace_end(encoder, &size);
	cr_assert_eq(rp_reader_open_memory(bytes, size, &reader), 0);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	ret = rp_event_condition_parse(text, &condition);
	if (ret == 0) {
		ret = rp_event_condition_matches(&condition, &event);
		rp_event_condition_fini(&condition);
	} else {
		cr_expect_eq(ret, -EINVAL);
		ret = -1;
	}
	rp_reader_close(reader);
	free(bytes);
	return ret;
}

static const struct {
	const char *text;
	int fulfils;
} cases[] = {
	{ "Test-Provider:Order", 1 }, { "Test-Provider:Other", 0 }, { "Other:Order", 0 },
	{ "Test-Provider:Order:text=Zo\xc3\xab", 1 }, { "Test-Provider:Order:text==Zoe", 0 },
	{ "Test-Provider:Order:text!=Zoe", 1 }, { "Test-Provider:Order:text=5", 0 },
	{ "Test-Provider:Order:small=-5", 1 }, { "Test-Provider:Order:small<-4", 1 },
	{ "Test-Provider:Order:small<-5", 0 }, { "Test-Provider:Order:small<=-5", 1 },
	{ "Test-Provider:Order:small>=-5", 1 }, { "Test-Provider:Order:small>-5", 0 },
	{ "Test-Provider:Order:small>-5.5", 1 }, { "Test-Provider:Order:small!=-5", 0 },
	{ "Test-Provider:Order:big>9223372036854775807", 1 }, { "Test-Provider:Order:big<0", 0 },
	{ "Test-Provider:Order:real>1.4", 1 }, { "Test-Provider:Order:real<=1.5", 1 },
	{ "Test-Provider:Order:real>1.5", 0 }, { "Test-Provider:Order:flag=1", 1 },
	{ "Test-Provider:Order:flag=0", 0 }, { "Test-Provider:Order:none=0", 0 },
	{ "Test-Provider:Order:none!=0", 0 }, { "Test-Provider:Order:small=x", 0 },
	{ "Test-Provider:Order:small!=x", 0 },
	{ "", -1 }, { "Test-Provider", -1 }, { ":Order", -1 }, { "Test-Provider:", -1 },
	{ "Test-Provider:Order:", -1 }, { "Test-Provider:Order:small", -1 },
	{ "Test-Provider:Order:>5", -1 }, { "Test-Provider:Order:text<Zoe", -1 },
	{ "Test-Provider:Order:small!5", -1 },
};

Test(event_condition, events_are_compared_by_a_field)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(fulfils(cases[i].text), cases[i].fulfils, "%s", cases[i].text);
}
