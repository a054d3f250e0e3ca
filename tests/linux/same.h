/* SPDX-License-Identifier: MIT */
/* The events that all consumers must report equally; not more words than USDT supports. */
#ifndef SAME_H
#define SAME_H

#include <ringpipe/ringpipe.h>

RP_STRUCT(same_point, RP_I32(x), RP_U16(y));

enum same_state { SAME_IDLE = -1, SAME_BUSY = 7 };
RP_ENUM(same_state, SAME_IDLE, SAME_BUSY);

RP_PROVIDER(same, "Same");
RP_EVENT(same, integers, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(writer), RP_U64(serial),
	 RP_I8(i8), RP_U8(u8), RP_I16(i16), RP_U16(u16), RP_I32(i32), RP_U32(u32), RP_I64(i64),
	 RP_U64(u64));
RP_EVENT(same, reals, 2, RP_LEVEL_WARNING, 0x1, RP_U32(writer), RP_U64(serial), RP_BOOL(truth),
	 RP_CHAR(letter), RP_F32(f32), RP_F64(f64), RP_POINTER(pointer), RP_TIME(time),
	 RP_ENUM_FIELD(same_state, state));
RP_EVENT(same, texts, 3, RP_LEVEL_ERROR, 0x2, RP_U32(writer), RP_U64(serial), RP_STRING(text),
	 RP_STRING16(text16), RP_GUID(guid));
RP_EVENT(same, lists, 4, RP_LEVEL_VERBOSE, 0x2, RP_U32(writer), RP_U64(serial), RP_BLOB(blob),
	 RP_ARRAY(U32, list), RP_STRUCT_FIELD(same_point, point),
	 RP_STRUCT_ARRAY(same_point, points));
RP_EVENT(same, secrets, 5, RP_LEVEL_ERROR, 0x2, RP_U32(writer), RP_U64(serial),
	 RP_SECRET(RP_STRING(password)), RP_SECRET(RP_U64(pin)));

#endif
