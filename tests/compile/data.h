/* SPDX-License-Identifier: MIT */
/* Declared once, for all files of data_test.py. Nobody uses what has `idle` in its name. */
#ifndef COMPILE_DATA_H
#define COMPILE_DATA_H

#include <ringpipe/ringpipe.h>

enum data_shade { DATA_DARK, DATA_LIGHT };

RP_ENUM(data_shade, DATA_DARK, DATA_LIGHT);
RP_STRUCT(data_point, RP_I32(x), RP_I64(y));

RP_PROVIDER(data, "Test-\"Data\" 100% {}");
RP_PROVIDER(data_idle, "Test-Data-Idle");
RP_PROVIDER(data_asked, "Test-Data-Asked");

/* Each file calls both; the first takes them from a function of this header. */
RP_EVENT_EX(data, both, (RP_ID(1), RP_VERSION(2), RP_LEVEL(RP_LEVEL_ERROR),
	    RP_KEYWORDS(0x8000000180000001ull), RP_OPCODE(42), RP_MESSAGE("{0}% of \"them\"")),
	    RP_SECRET(RP_STRING(name)), RP_STRUCT_FIELD(data_point, point), RP_ARRAY(U16, list),
	    RP_STRUCT_ARRAY(data_point, points), RP_ENUM_FIELD(data_shade, shade));
RP_STATE_EVENT(data, bare, 65534, RP_LEVEL_LOG_ALWAYS, 0);
RP_EVENT(data, here, 2, RP_LEVEL_VERBOSE, 0xffffffff, RP_U64(number));
RP_EVENT(data, there, 3, RP_LEVEL_INFORMATIONAL, 1, RP_U64(number));
RP_EVENT(data, asked, 4, RP_LEVEL_INFORMATIONAL, 1, RP_U64(number));
RP_EVENT(data, idle, 5, RP_LEVEL_INFORMATIONAL, 1, RP_U64(number), RP_STRING(text));

RP_COUNTER(data, sum, "{sum}", "All \"of\" it");
RP_HISTOGRAM(data, spread, NULL, NULL);
RP_GAUGE(data, idle_gauge, "{idle}", NULL);

static inline int call_both(void)
{
	return data_both("name", NULL, NULL, 0, NULL, 0, DATA_LIGHT) + data_bare();
}

/* The data as a file sees them: they have to be the same in all files of an object. */
struct data_seen {
	struct rp_event *both, *bare;
	struct rp_counter *sum;
	struct rp_provider *asked;
	int written;
};

#ifdef __cplusplus
extern "C" {
#endif
void data_look_here(struct data_seen *ret_seen);
RP_PUBLIC void data_look_there(struct data_seen *ret_seen);
#ifdef __cplusplus
}
#endif

#endif
