/* SPDX-License-Identifier: MIT */
/* Events with static keys, and one without, in two files. C and C++. */
#ifndef COMPILE_KEYS_H
#define COMPILE_KEYS_H

#define RP_STATIC_KEYS 1
#include <ringpipe/ringpipe.h>

RP_PROVIDER(keys, "Test-Keys");
RP_EVENT(keys, one, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(number), RP_STRING(text));
RP_EVENT_EX(keys, two, (RP_ID(2), RP_VERSION(1), RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("two")));
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 0
RP_EVENT(keys, plain, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(number));

/* Three sites, wherever it becomes part of another function. */
static inline int fire_both(uint64_t number)
{
	return keys_one(number, "text") + keys_two() + 10 * keys_two_enabled();
}

#ifdef __cplusplus
/* In a group of sections, of which the linker keeps one of two. */
template<int N> __attribute__((noinline)) int fire_template(uint64_t number)
{
	return fire_both(number + N);
}
extern "C" {
#else
#define fire_template_3(number) fire_both(number)
#endif
int fire_here(uint64_t number);
int fire_there(uint64_t number);
#ifdef __cplusplus
}
#define fire_template_3(number) fire_template<3>(number)
#endif

#endif
