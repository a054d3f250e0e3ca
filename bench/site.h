/* SPDX-License-Identifier: MIT */
/* Functions whose only difference is one event; run.py reads their instructions. C and C++. */
#ifndef BENCH_SITE_H
#define BENCH_SITE_H

#include <ringpipe/ringpipe.h>

RP_PROVIDER(site, "Bench-Site");
RP_EVENT(site, four, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(site, text, 2, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(s));

#ifdef __cplusplus
extern "C" {
#endif

uint64_t work(uint64_t value);	/* defined in another file */
uint64_t without_event(uint64_t value);
uint64_t with_event(uint64_t value);
uint64_t without_text(uint64_t value, const char *text);
uint64_t with_text(uint64_t value, const char *text);

#ifdef __cplusplus
}
#endif

#endif
