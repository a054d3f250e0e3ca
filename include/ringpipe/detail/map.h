/* SPDX-License-Identifier: MIT */
/*
 * RP_MAP_(m, sep, a, b, c) is m(a) sep() m(b) sep() m(c), for up to 32 arguments. C has no loop
 * over macro arguments, so this header contains the expansion for each number of arguments.
 */
#ifndef RINGPIPE_DETAIL_MAP_H
#define RINGPIPE_DETAIL_MAP_H

#define RP_COMMA_() ,
#define RP_NOTHING_()
#define RP_CAT_(a, b) RP_CAT_I_(a, b)
#define RP_CAT_I_(a, b) a##b

#define RP_COUNT_(...) RP_COUNT_I_(__VA_ARGS__, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, \
	23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define RP_COUNT_I_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
	a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, \
	a33, n, ...) n

/*
 * These macros select the expansion of a declaration by the number of its arguments: the result is
 * a suffix of the expansion's name. MANY_ means that there are too many arguments. In that case,
 * the macro finds one of the arguments where it otherwise finds a suffix. Fields have parentheses
 * and names do not, which distinguishes them from suffixes.
 */
#define RP_ARITY_(...) RP_UNLESS_TUPLE_(RP_COUNT_I_(__VA_ARGS__, N_, N_, N_, N_, N_, N_, N_, N_, \
	N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, N_, \
	N_, N_, 0_, 0_))
#define RP_WHICH_(...) RP_UNLESS_TUPLE_(RP_COUNT_I_(__VA_ARGS__, MANY_, FEW_, FEW_, FEW_, FEW_, \
	FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, \
	FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, FEW_, ~))
#define RP_WHICH_NAMES_(...) RP_IF_TUPLE_(RP_COUNT_I_(__VA_ARGS__, (MANY_), (FEW_), (FEW_), \
	(FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), \
	(FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), \
	(FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), (FEW_), ~))
#define RP_UNLESS_TUPLE_(n) RP_SECOND_(RP_MANY_ n, n, ~)
#define RP_IF_TUPLE_(n) RP_SECOND_(RP_INSIDE_ n, MANY_, ~)
#define RP_MANY_(...) ~, MANY_
#define RP_INSIDE_(x) ~, x
#define RP_SECOND_(...) RP_SECOND_I_(__VA_ARGS__)
#define RP_SECOND_I_(a, b, ...) b

#define RP_TOO_MANY_(what, most) RP_ASSERT_(0, what " is declared with too many " most)
#define RP_EVENT_EMIT_MANY_(provider, event, ...) \
	RP_TOO_MANY_("event " #provider "_" #event, \
		     "fields: there may be up to 32, and 128 in a dynamic event")
#define RP_STRUCT_EMIT_MANY_(tag, ...) \
	RP_TOO_MANY_("struct " #tag, "members: there may be up to 32")
#define RP_ENUM_EMIT_MANY_(tag, ...) \
	RP_TOO_MANY_("enum " #tag, "names: there may be up to 32")

#define RP_MAP_(m, sep, ...) RP_CAT_(RP_MAP_, RP_COUNT_(__VA_ARGS__))(m, sep, __VA_ARGS__)

#define RP_MAP_1(m, s, x) m(x)
#define RP_MAP_2(m, s, x, ...) m(x) s() RP_MAP_1(m, s, __VA_ARGS__)
#define RP_MAP_3(m, s, x, ...) m(x) s() RP_MAP_2(m, s, __VA_ARGS__)
#define RP_MAP_4(m, s, x, ...) m(x) s() RP_MAP_3(m, s, __VA_ARGS__)
#define RP_MAP_5(m, s, x, ...) m(x) s() RP_MAP_4(m, s, __VA_ARGS__)
#define RP_MAP_6(m, s, x, ...) m(x) s() RP_MAP_5(m, s, __VA_ARGS__)
#define RP_MAP_7(m, s, x, ...) m(x) s() RP_MAP_6(m, s, __VA_ARGS__)
#define RP_MAP_8(m, s, x, ...) m(x) s() RP_MAP_7(m, s, __VA_ARGS__)
#define RP_MAP_9(m, s, x, ...) m(x) s() RP_MAP_8(m, s, __VA_ARGS__)
#define RP_MAP_10(m, s, x, ...) m(x) s() RP_MAP_9(m, s, __VA_ARGS__)
#define RP_MAP_11(m, s, x, ...) m(x) s() RP_MAP_10(m, s, __VA_ARGS__)
#define RP_MAP_12(m, s, x, ...) m(x) s() RP_MAP_11(m, s, __VA_ARGS__)
#define RP_MAP_13(m, s, x, ...) m(x) s() RP_MAP_12(m, s, __VA_ARGS__)
#define RP_MAP_14(m, s, x, ...) m(x) s() RP_MAP_13(m, s, __VA_ARGS__)
#define RP_MAP_15(m, s, x, ...) m(x) s() RP_MAP_14(m, s, __VA_ARGS__)
#define RP_MAP_16(m, s, x, ...) m(x) s() RP_MAP_15(m, s, __VA_ARGS__)
#define RP_MAP_17(m, s, x, ...) m(x) s() RP_MAP_16(m, s, __VA_ARGS__)
#define RP_MAP_18(m, s, x, ...) m(x) s() RP_MAP_17(m, s, __VA_ARGS__)
#define RP_MAP_19(m, s, x, ...) m(x) s() RP_MAP_18(m, s, __VA_ARGS__)
#define RP_MAP_20(m, s, x, ...) m(x) s() RP_MAP_19(m, s, __VA_ARGS__)
#define RP_MAP_21(m, s, x, ...) m(x) s() RP_MAP_20(m, s, __VA_ARGS__)
#define RP_MAP_22(m, s, x, ...) m(x) s() RP_MAP_21(m, s, __VA_ARGS__)
#define RP_MAP_23(m, s, x, ...) m(x) s() RP_MAP_22(m, s, __VA_ARGS__)
#define RP_MAP_24(m, s, x, ...) m(x) s() RP_MAP_23(m, s, __VA_ARGS__)
#define RP_MAP_25(m, s, x, ...) m(x) s() RP_MAP_24(m, s, __VA_ARGS__)
#define RP_MAP_26(m, s, x, ...) m(x) s() RP_MAP_25(m, s, __VA_ARGS__)
#define RP_MAP_27(m, s, x, ...) m(x) s() RP_MAP_26(m, s, __VA_ARGS__)
#define RP_MAP_28(m, s, x, ...) m(x) s() RP_MAP_27(m, s, __VA_ARGS__)
#define RP_MAP_29(m, s, x, ...) m(x) s() RP_MAP_28(m, s, __VA_ARGS__)
#define RP_MAP_30(m, s, x, ...) m(x) s() RP_MAP_29(m, s, __VA_ARGS__)
#define RP_MAP_31(m, s, x, ...) m(x) s() RP_MAP_30(m, s, __VA_ARGS__)
#define RP_MAP_32(m, s, x, ...) m(x) s() RP_MAP_31(m, s, __VA_ARGS__)

/* RP_MAP_WITH_(m, c, a, b) is m(c, a) m(c, b). */
#define RP_MAP_WITH_(m, c, ...) RP_CAT_(RP_MAP_WITH_, RP_COUNT_(__VA_ARGS__))(m, c, __VA_ARGS__)

#define RP_MAP_WITH_1(m, c, x) m(c, x)
#define RP_MAP_WITH_2(m, c, x, ...) m(c, x) RP_MAP_WITH_1(m, c, __VA_ARGS__)
#define RP_MAP_WITH_3(m, c, x, ...) m(c, x) RP_MAP_WITH_2(m, c, __VA_ARGS__)
#define RP_MAP_WITH_4(m, c, x, ...) m(c, x) RP_MAP_WITH_3(m, c, __VA_ARGS__)
#define RP_MAP_WITH_5(m, c, x, ...) m(c, x) RP_MAP_WITH_4(m, c, __VA_ARGS__)
#define RP_MAP_WITH_6(m, c, x, ...) m(c, x) RP_MAP_WITH_5(m, c, __VA_ARGS__)
#define RP_MAP_WITH_7(m, c, x, ...) m(c, x) RP_MAP_WITH_6(m, c, __VA_ARGS__)
#define RP_MAP_WITH_8(m, c, x, ...) m(c, x) RP_MAP_WITH_7(m, c, __VA_ARGS__)
#define RP_MAP_WITH_9(m, c, x, ...) m(c, x) RP_MAP_WITH_8(m, c, __VA_ARGS__)
#define RP_MAP_WITH_10(m, c, x, ...) m(c, x) RP_MAP_WITH_9(m, c, __VA_ARGS__)
#define RP_MAP_WITH_11(m, c, x, ...) m(c, x) RP_MAP_WITH_10(m, c, __VA_ARGS__)
#define RP_MAP_WITH_12(m, c, x, ...) m(c, x) RP_MAP_WITH_11(m, c, __VA_ARGS__)
#define RP_MAP_WITH_13(m, c, x, ...) m(c, x) RP_MAP_WITH_12(m, c, __VA_ARGS__)
#define RP_MAP_WITH_14(m, c, x, ...) m(c, x) RP_MAP_WITH_13(m, c, __VA_ARGS__)
#define RP_MAP_WITH_15(m, c, x, ...) m(c, x) RP_MAP_WITH_14(m, c, __VA_ARGS__)
#define RP_MAP_WITH_16(m, c, x, ...) m(c, x) RP_MAP_WITH_15(m, c, __VA_ARGS__)
#define RP_MAP_WITH_17(m, c, x, ...) m(c, x) RP_MAP_WITH_16(m, c, __VA_ARGS__)
#define RP_MAP_WITH_18(m, c, x, ...) m(c, x) RP_MAP_WITH_17(m, c, __VA_ARGS__)
#define RP_MAP_WITH_19(m, c, x, ...) m(c, x) RP_MAP_WITH_18(m, c, __VA_ARGS__)
#define RP_MAP_WITH_20(m, c, x, ...) m(c, x) RP_MAP_WITH_19(m, c, __VA_ARGS__)
#define RP_MAP_WITH_21(m, c, x, ...) m(c, x) RP_MAP_WITH_20(m, c, __VA_ARGS__)
#define RP_MAP_WITH_22(m, c, x, ...) m(c, x) RP_MAP_WITH_21(m, c, __VA_ARGS__)
#define RP_MAP_WITH_23(m, c, x, ...) m(c, x) RP_MAP_WITH_22(m, c, __VA_ARGS__)
#define RP_MAP_WITH_24(m, c, x, ...) m(c, x) RP_MAP_WITH_23(m, c, __VA_ARGS__)
#define RP_MAP_WITH_25(m, c, x, ...) m(c, x) RP_MAP_WITH_24(m, c, __VA_ARGS__)
#define RP_MAP_WITH_26(m, c, x, ...) m(c, x) RP_MAP_WITH_25(m, c, __VA_ARGS__)
#define RP_MAP_WITH_27(m, c, x, ...) m(c, x) RP_MAP_WITH_26(m, c, __VA_ARGS__)
#define RP_MAP_WITH_28(m, c, x, ...) m(c, x) RP_MAP_WITH_27(m, c, __VA_ARGS__)
#define RP_MAP_WITH_29(m, c, x, ...) m(c, x) RP_MAP_WITH_28(m, c, __VA_ARGS__)
#define RP_MAP_WITH_30(m, c, x, ...) m(c, x) RP_MAP_WITH_29(m, c, __VA_ARGS__)
#define RP_MAP_WITH_31(m, c, x, ...) m(c, x) RP_MAP_WITH_30(m, c, __VA_ARGS__)
#define RP_MAP_WITH_32(m, c, x, ...) m(c, x) RP_MAP_WITH_31(m, c, __VA_ARGS__)

#endif
