/* SPDX-License-Identifier: MIT */
/* An event that is declared only here; the program and two libraries write it. */
#ifndef SHARED_EVENT_H
#define SHARED_EVENT_H

#include <ringpipe/ringpipe.h>

RP_PROVIDER(shared, "Test-Shared");
RP_EVENT(shared, hit, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(from), RP_STRING(text));

RP_COUNTER(shared, hits, NULL, NULL);
RP_GAUGE(shared, mark, NULL, NULL);

/* In shared_one.c and shared_two.c: write the event; return its enable word there; count. */
void shared_one_count(int64_t by, double mark);
struct rp_counter *shared_one_counter(void);
void shared_two_count(int64_t by, double mark);
struct rp_counter *shared_two_counter(void);
int shared_one_fire(void);
const struct rp_event *shared_one_word(void);
int shared_two_fire(void);
const struct rp_event *shared_two_word(void);

#endif
