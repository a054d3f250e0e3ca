/* SPDX-License-Identifier: MIT */
/*
 * The attributes of RP_EVENT_EX and RP_SPAN_EX. Each attribute is a tuple (kind, value), and the
 * tuples may be in any order. RP_PICK_ returns the value of the tuple of a kind, or a default if
 * there is no such tuple.
 */
#ifndef RINGPIPE_DETAIL_ATTRIBUTES_H
#define RINGPIPE_DETAIL_ATTRIBUTES_H

#include <ringpipe/detail/map.h>

#define RP_ID(id) (ID_, id)
#define RP_VERSION(version) (VERSION_, version)
#define RP_LEVEL(level) (LEVEL_, level)
#define RP_KEYWORDS(keywords) (KEYWORDS_, keywords)
#define RP_OPCODE(opcode) (OPCODE_, opcode)
#define RP_MESSAGE(message) (MESSAGE_, message)
#define RP_FLAGS(flags) (FLAGS_, flags)
#define RP_ONE_IN(n) (ONE_IN_, n)
#define RP_PER_SECOND(n) (PER_SECOND_, n)

/* Two kinds are the same if their joined names are the name of one of these macros. */
#define RP_SAME_ID_ID_ ~, KEEP_
#define RP_SAME_VERSION_VERSION_ ~, KEEP_
#define RP_SAME_LEVEL_LEVEL_ ~, KEEP_
#define RP_SAME_KEYWORDS_KEYWORDS_ ~, KEEP_
#define RP_SAME_OPCODE_OPCODE_ ~, KEEP_
#define RP_SAME_MESSAGE_MESSAGE_ ~, KEEP_
#define RP_SAME_FLAGS_FLAGS_ ~, KEEP_
#define RP_SAME_ONE_IN_ONE_IN_ ~, KEEP_
#define RP_SAME_PER_SECOND_PER_SECOND_ ~, KEEP_

#define RP_PICK_(kind, otherwise, ...) \
	RP_FIRST_(RP_MAP_WITH_(RP_PICK_ONE_, kind, __VA_ARGS__) otherwise, ~)
#define RP_PICK_ONE_(kind, t) RP_PICK_ONE_I_(kind, RP_BARE_ t)
#define RP_PICK_ONE_I_(...) RP_PICK_ONE_II_(__VA_ARGS__)
#define RP_PICK_ONE_II_(kind, other, ...) \
	RP_CAT_(RP_PICK_, RP_SECOND_(RP_SAME_##kind##other, DROP_, ~))(__VA_ARGS__)
#define RP_PICK_KEEP_(value) (value),
#define RP_PICK_DROP_(...)
#define RP_FIRST_(...) RP_FIRST_I_(__VA_ARGS__)
#define RP_FIRST_I_(a, ...) a
#define RP_BARE_(...) __VA_ARGS__

/* The arguments of RP_EVENT_EMIT_, in its order. */
#define RP_VALUES_(...) \
	RP_PICK_(ID_, RP_EVENT_ID_AUTO, __VA_ARGS__), RP_PICK_(VERSION_, 0, __VA_ARGS__), \
	RP_PICK_(LEVEL_, RP_LEVEL_INFORMATIONAL, __VA_ARGS__), \
	RP_PICK_(OPCODE_, RP_OPCODE_INFO, __VA_ARGS__), RP_PICK_(FLAGS_, 0, __VA_ARGS__), \
	RP_PICK_(MESSAGE_, RP_NULL_, __VA_ARGS__), RP_PICK_(ONE_IN_, 0, __VA_ARGS__), \
	RP_PICK_(PER_SECOND_, 0, __VA_ARGS__)
#define RP_VALUE_KEYWORDS_(...) RP_PICK_(KEYWORDS_, 0, __VA_ARGS__)

/*
 * 0, or for a tuple that is not an attribute, an undeclared name that makes the compiler report it.
 */
#define RP_ATTRIBUTES_(...) (0 RP_MAP_(RP_ATTRIBUTE_, RP_NOTHING_, __VA_ARGS__))
#define RP_ATTRIBUTE_(t) RP_ATTRIBUTE_I_ t
#define RP_ATTRIBUTE_I_(kind, ...) \
	RP_CAT_(RP_ATTRIBUTE_, RP_SECOND_(RP_SAME_##kind##kind, DROP_, ~))(kind)
#define RP_ATTRIBUTE_KEEP_(kind)
#define RP_ATTRIBUTE_DROP_(kind) + this_is_not_an_attribute_of_an_event_##kind

#endif
