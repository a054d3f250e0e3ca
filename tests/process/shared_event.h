/* SPDX-License-Identifier: MIT */
/* Declared here and nowhere else; fired from the program and from two libraries. */
#ifndef SHARED_EVENT_H
#define SHARED_EVENT_H

#include <ringpipe/ringpipe.h>

RP_PROVIDER(shared, "Test-Shared");
RP_EVENT(shared, hit, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(from), RP_STRING(text));

/* In shared_one.c and shared_two.c: fires the event; gives its word there. */
int shared_one_fire(void);
const struct rp_event *shared_one_word(void);
int shared_two_fire(void);
const struct rp_event *shared_two_word(void);

#endif
