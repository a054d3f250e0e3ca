/* SPDX-License-Identifier: MIT */
/* Events of every type of field, which an executable and a library share. */
#ifndef PROBES_H
#define PROBES_H

#include <ringpipe/ringpipe.h>

RP_STRUCT(probes_point, RP_I32(x), RP_U16(y));

RP_PROVIDER(probes, "Probes-Host");
RP_EVENT(probes, few, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_I8(i8), RP_U8(u8), RP_I16(i16),
	 RP_U16(u16), RP_I32(i32), RP_U32(u32));
RP_EVENT(probes, numbers, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_BOOL(truth), RP_CHAR(letter),
	 RP_I8(i8), RP_U8(u8), RP_I16(i16), RP_U16(u16), RP_I32(i32), RP_U32(u32), RP_I64(i64),
	 RP_U64(u64), RP_F32(f32), RP_F64(f64), RP_POINTER(pointer), RP_TIME(time));
RP_EVENT(probes, reals, 3, RP_LEVEL_INFORMATIONAL, 0x1, RP_F32(f32), RP_F64(f64),
	 RP_BOOL(truth), RP_CHAR(letter), RP_POINTER(pointer), RP_TIME(time), RP_I64(i64),
	 RP_U64(u64), RP_I8(i8), RP_I16(i16), RP_I32(i32), RP_U8(u8));
RP_EVENT(probes, references, 4, RP_LEVEL_WARNING, 0x2, RP_STRING(text), RP_STRING16(text16),
	 RP_GUID(guid), RP_BLOB(blob), RP_ARRAY(U32, list), RP_STRUCT_FIELD(probes_point, point),
	 RP_STRUCT_ARRAY(probes_point, points));
RP_EVENT(probes, bare, 5, RP_LEVEL_INFORMATIONAL, 0x4);
RP_EVENT(probes, wide, 6, RP_LEVEL_INFORMATIONAL, 0x4, RP_U64(f0), RP_U64(f1), RP_U64(f2),
	 RP_U64(f3), RP_U64(f4), RP_U64(f5), RP_U64(f6), RP_U64(f7), RP_U64(f8), RP_U64(f9),
	 RP_U64(f10), RP_U64(f11), RP_U64(f12), RP_U64(f13), RP_U64(f14), RP_U64(f15), RP_U64(f16),
	 RP_U64(f17), RP_U64(f18), RP_U64(f19), RP_U64(f20), RP_U64(f21), RP_U64(f22), RP_U64(f23),
	 RP_U64(f24), RP_U64(f25), RP_U64(f26), RP_U64(f27), RP_U64(f28), RP_U64(f29));
RP_EVENT(probes, shared, 7, RP_LEVEL_INFORMATIONAL, 0x8, RP_U32(number));

/* Defined in the library. */
__attribute__((visibility("default"))) int library_fires(uint32_t number);
__attribute__((visibility("default"))) int library_enabled(void);

#endif
