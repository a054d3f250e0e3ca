/* SPDX-License-Identifier: MIT */
/*
 * RP_EVENT expands to this. RP_PROVIDER and the parts of an event are in site.h, RP_STRUCT and
 * RP_ENUM in structs.h, the types of fields in kinds.h.
 */
#ifndef RINGPIPE_DETAIL_DECLARE_H
#define RINGPIPE_DETAIL_DECLARE_H

#include <ringpipe/detail/kinds.h>
#include <ringpipe/detail/map.h>
#include <ringpipe/detail/pack.h>
#include <ringpipe/detail/probe.h>
#include <ringpipe/detail/site.h>
#include <ringpipe/detail/structs.h>

/*
 * RP_EVENT_EMIT_0_ is for events without fields, RP_EVENT_EMIT_N_ for events with fields. map.h
 * defines RP_EVENT_EMIT_MANY_, for too many fields.
 */
#define RP_EVENT_EMIT_(provider, event, id, version, level, opcode, flags, message, one_in, \
		       per_second, ...) \
	RP_CAT_(RP_EVENT_EMIT_, RP_ARITY_(__VA_ARGS__)) \
	(provider, event, id, version, level, opcode, flags, message, one_in, per_second, \
	 __VA_ARGS__)

#define RP_EVENT_EMIT_N_(provider, event, id, version, level, opcode, flags, message, one_in, \
			 per_second, keywords, ...) \
	RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, one_in, \
		       per_second, keywords, RP_COUNT_(__VA_ARGS__), \
		       RP_MAP_WITH_(RP_FIELD_DATA_, #provider "_" #event "_event_", __VA_ARGS__)) \
	RP_PROBE_EMIT_(provider, event) \
	RP_OUT_OF_LINE_ __attribute__((cold)) int provider##_##event##_traced_( \
		RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		RP_PROBE_FIRE_(provider, event, \
			       RP_ARGUMENTS_(RP_MAP_(RP_SIZES_, RP_COMMA_, __VA_ARGS__)), \
			       RP_MAP_(RP_REGS_, RP_COMMA_, __VA_ARGS__)) \
		{ \
			RP_PACK_(__VA_ARGS__) \
			return rp_event_write(&provider##_##event##_event_, parts_, pack_.count); \
		} \
	} \
	RP_OUT_OF_LINE_ int provider##_##event##_write_( \
		RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		provider##_##event##_data_(); \
		RP_SKIP_(provider##_##event##_event_, one_in, per_second) \
		RP_MAP_(RP_FORGET_, RP_NOTHING_, __VA_ARGS__) \
		if (__builtin_expect(rp_is_traced_(&provider##_##event##_event_.enable), 0)) \
			return provider##_##event##_traced_( \
				RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__)); \
		{ \
			RP_PACK_(__VA_ARGS__) \
			if (RP_IS_REGS_(__VA_ARGS__)) \
				return rp_pack_write_regs_(&pack_, &provider##_##event##_event_); \
			return rp_event_write(&provider##_##event##_event_, parts_, pack_.count); \
		} \
	} \
	RP_EVENT_CALL_(provider##_##event, (RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)), \
		       (RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__))) \
	RP_EVENT_CPP_EMIT_(provider##_##event, __VA_ARGS__) \
	RP_SEMICOLON_

#endif
