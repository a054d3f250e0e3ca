/* SPDX-License-Identifier: MIT */
/* The expansions of RP_STRUCT and RP_ENUM. */
#ifndef RINGPIPE_DETAIL_STRUCTS_H
#define RINGPIPE_DETAIL_STRUCTS_H

#include <ringpipe/detail/kinds.h>
#include <ringpipe/detail/map.h>

#define RP_MEMBER_DESC_(t) { RP_DESC_(t) }
#define RP_STRUCT_EMIT_(tag, ...) \
	RP_CAT_(RP_STRUCT_EMIT_, RP_WHICH_(__VA_ARGS__))(tag, __VA_ARGS__)
#define RP_STRUCT_EMIT_FEW_(tag, ...) \
	struct tag { \
		RP_MAP_(RP_MEMBER_, RP_NOTHING_, __VA_ARGS__) \
	} __attribute__((packed)); \
	static const struct rp_field tag##_fields_[] __attribute__((unused)) = { \
		RP_MAP_(RP_MEMBER_DESC_, RP_COMMA_, __VA_ARGS__) }; \
	RP_SEMICOLON_

#define RP_ENUMERATOR_(c) { #c, RP_CAST_(int64_t, c) }
#define RP_ENUM_EMIT_(tag, ...) \
	RP_CAT_(RP_ENUM_EMIT_, RP_WHICH_NAMES_(__VA_ARGS__))(tag, __VA_ARGS__)
#define RP_ENUM_EMIT_FEW_(tag, ...) \
	static const struct rp_enumerator tag##_enumerators_[] = { \
		RP_MAP_(RP_ENUMERATOR_, RP_COMMA_, __VA_ARGS__) }; \
	static const struct rp_enumeration tag##_enumeration_ __attribute__((unused)) = { \
		#tag, tag##_enumerators_, RP_COUNT_(__VA_ARGS__) }; \
	RP_SEMICOLON_

#endif
