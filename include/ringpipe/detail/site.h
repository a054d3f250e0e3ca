/* SPDX-License-Identifier: MIT */
/*
 * The parts of what RP_PROVIDER and RP_EVENT expand to: the data in ELF sections, the tests before
 * an event is written, and the forms of RP_EVENT with attributes or without fields.
 */
#ifndef RINGPIPE_DETAIL_SITE_H
#define RINGPIPE_DETAIL_SITE_H

#include <ringpipe/detail/attributes.h>
#include <ringpipe/detail/gate.h>
#include <ringpipe/detail/layout.h>
#include <ringpipe/detail/map.h>
#include <ringpipe/detail/probe.h>

#define RP_PROVIDER_EMIT_(ident, provider_name) \
	RP_ASSERT_(sizeof(provider_name) <= RP_NAME_MAX + 1, "a provider's name is too long"); \
	RP_BEGIN_DECLS \
	extern struct rp_provider_decl ident##_provider_ __attribute__((visibility("hidden"))); \
	RP_END_DECLS \
	RP_INLINE_ void ident##_provider_data_(void) \
	{ \
		rp_object_data_(); \
		RP_PROVIDER_DATA_(#ident "_provider_", provider_name); \
	} \
	RP_INLINE_ struct rp_provider *ident##_provider(void) \
	{ \
		ident##_provider_data_(); \
		return ident##_provider_.core; \
	} \
	RP_SEMICOLON_

/* The data of an event, and the function that states whether it is enabled. */
#define RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, one_in, \
		       per_second, keywords, n, fields) \
	RP_ASSERT_(sizeof(#event) <= RP_NAME_MAX + 1, "an event's name is too long"); \
	RP_ASSERT_((version) < 256 && (opcode) < 256, \
		   "an event's version or opcode exceeds 255"); \
	RP_ASSERT_((level) + 0 <= RP_LEVEL_VERBOSE + 0, "an event's level is above 5"); \
	RP_ASSERT_(RP_CAST_(uint64_t, id) <= RP_EVENT_ID_MAX || \
		   RP_CAST_(uint64_t, id) == RP_EVENT_ID_AUTO, "an event's id is above 65534"); \
	RP_BEGIN_DECLS \
	extern struct rp_event provider##_##event##_event_ __attribute__((visibility("hidden"))); \
	RP_END_DECLS \
	RP_INLINE_ void provider##_##event##_data_(void) \
	{ \
		provider##_provider_data_(); \
		fields \
		RP_EVENT_DATA_(#provider "_" #event "_event_", provider##_provider_, #event, \
			       message, id, version, level, opcode, flags, one_in, per_second, \
			       keywords, n); \
	} \
	RP_INLINE_ int provider##_##event##_enabled(void) \
	{ \
		provider##_##event##_data_(); \
		RP_CAT_(RP_ENABLED_, RP_STATIC_KEYS)(provider##_##event##_event_.enable) \
	}

/* For an event without a limit, the compiler removes this test. */
#define RP_SKIP_(event, one_in, per_second) \
	if (((one_in) || (per_second)) && !rp_event_admit(&event)) \
		return 0;

/* The gate is inline at the call site; everything else is out of line. */
#define RP_EVENT_CALL_(name, params, args) \
	RP_INLINE_ int name params \
	{ \
		RP_CAT_(RP_GATE_, RP_STATIC_KEYS)(name##_event_.enable, wanted); \
		return 0; \
	wanted: RP_COLD_LABEL_; \
		RP_CAT_(RP_GATE_AGAIN_, RP_STATIC_KEYS)(name##_event_.enable) \
		return name##_write_ args; \
	}

/* An event without fields. */
#define RP_EVENT_EMIT_0_(provider, event, id, version, level, opcode, flags, message, one_in, \
			 per_second, keywords) \
	RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, one_in, \
		       per_second, keywords, 0, ) \
	RP_PROBE_EMIT_(provider, event) \
	RP_OUT_OF_LINE_ int provider##_##event##_write_(void) \
	{ \
		provider##_##event##_data_(); \
		RP_SKIP_(provider##_##event##_event_, one_in, per_second) \
		RP_PROBE_FIRE_(provider, event, "", 0) \
		return rp_event_write_regs(0, 0, 0, 0, &provider##_##event##_event_, 0); \
	} \
	RP_EVENT_CALL_(provider##_##event, (void), ()) \
	RP_SEMICOLON_

/* The variants with attributes: 0_ for events without fields, N_ for events with fields. */
#define RP_EVENT_EX_EMIT_0_(provider, event, attributes) \
	RP_ASSERT_(RP_ATTRIBUTES_ attributes == 0, "attributes stand in parentheses"); \
	RP_EVENT_EX_EMIT_0_I_(provider, event, RP_VALUES_ attributes, \
			      RP_VALUE_KEYWORDS_ attributes)
#define RP_EVENT_EX_EMIT_0_I_(...) RP_EVENT_EMIT_0_(__VA_ARGS__)
#define RP_EVENT_EX_EMIT_N_(provider, event, attributes, ...) \
	RP_ASSERT_(RP_ATTRIBUTES_ attributes == 0, "attributes stand in parentheses"); \
	RP_EVENT_EX_EMIT_N_I_(provider, event, RP_VALUES_ attributes, \
			      RP_VALUE_KEYWORDS_ attributes, __VA_ARGS__)
#define RP_EVENT_EX_EMIT_N_I_(...) RP_EVENT_EMIT_N_(__VA_ARGS__)
#define RP_EVENT_EX_EMIT_MANY_(provider, event, ...) \
	RP_EVENT_EMIT_MANY_(provider, event, __VA_ARGS__)

/* An event whose payload the caller lays out. Its gate and its writer are one function. */
#define RP_RAW_EVENT_EMIT_0_(provider, event, attributes) \
	RP_ASSERT_(RP_ATTRIBUTES_ attributes == 0, "attributes stand in parentheses"); \
	RP_RAW_EVENT_EMIT_I_(provider, event, 0, , RP_VALUES_ attributes, \
			     RP_VALUE_KEYWORDS_ attributes)
#define RP_RAW_EVENT_EMIT_N_(provider, event, attributes, ...) \
	RP_ASSERT_(RP_ATTRIBUTES_ attributes == 0, "attributes stand in parentheses"); \
	RP_MAP_(RP_RAW_FIELD_, RP_NOTHING_, __VA_ARGS__) \
	RP_RAW_EVENT_EMIT_I_(provider, event, RP_COUNT_(__VA_ARGS__), \
			     RP_MAP_WITH_(RP_FIELD_DATA_, #provider "_" #event "_event_", \
					  __VA_ARGS__), \
			     RP_VALUES_ attributes, RP_VALUE_KEYWORDS_ attributes)
/* The library cannot replace the value of a secret in a payload of another layout. */
#define RP_RAW_FIELD_(t) RP_RAW_FIELD_I_(RP_DESC_(t))
#define RP_RAW_FIELD_I_(...) RP_RAW_FIELD_II_(__VA_ARGS__)
#define RP_RAW_FIELD_II_(name, members, count, type, element, flags, enumeration) \
	RP_ASSERT_((flags) == 0, "a field of RP_RAW_EVENT is secret");
#define RP_RAW_EVENT_EMIT_MANY_(provider, event, ...) \
	RP_EVENT_EMIT_MANY_(provider, event, __VA_ARGS__)
#define RP_RAW_EVENT_EMIT_I_(...) RP_RAW_EVENT_EMIT_II_(__VA_ARGS__)
#define RP_RAW_EVENT_EMIT_II_(provider, event, n, fields, id, version, level, opcode, flags, \
			      message, one_in, per_second, keywords) \
	RP_EVENT_SITE_(provider, event, id, version, level, opcode, (flags) | RP_EVENT_WIRE, \
		       message, one_in, per_second, keywords, n, fields) \
	RP_PROBE_EMIT_(provider, event) \
	RP_OUT_OF_LINE_ int provider##_##event##_write(const struct rp_part *parts, \
						       unsigned int part_count) \
	{ \
		provider##_##event##_data_(); \
		if (!__atomic_load_n(&provider##_##event##_event_.enable, __ATOMIC_RELAXED)) \
			return 0; \
		RP_SKIP_(provider##_##event##_event_, one_in, per_second) \
		/* The first part and its size, all parts and their number. */ \
		RP_PROBE_FIRE_(provider, event, RP_ARGUMENTS_(U8, U8, U8, U4), \
			       part_count ? rp_address_(parts->base) : 0, \
			       part_count ? parts->size_bytes : 0, rp_address_(parts), \
			       part_count) \
		return rp_event_write(&provider##_##event##_event_, parts, part_count); \
	} \
	RP_SEMICOLON_

/* ringpipe.hpp redefines this to add the functions of C++. */
#define RP_EVENT_CPP_EMIT_(name, ...)

#endif
