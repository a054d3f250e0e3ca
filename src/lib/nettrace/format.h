/* SPDX-License-Identifier: MIT */
/*
 * The numbers of nettrace V4, shared by the encoder and the reader. Source: NetTraceFormat_v5.md in
 * the repository microsoft/perfview. All integers are little-endian.
 *
 *	stream	"Nettrace", u32 20, "!FastSerialization.1", objects, tag 1
 *	object	tags 5 5 1, i32 version, i32 minimum reader version, i32 length + type name, tag 6,
 *		content, tag 6
 *	Trace	48 bytes: 8 x u16 UTC, i64 ticks at that moment, i64 ticks per second, u32 pointer
 *		size, u32 process, u32 processors, u32 sampling interval in ns
 *	block	i32 size, zeros up to a stream offset divisible by 4, then `size` bytes
 *	EventBlock, MetadataBlock
 *		u16 header size (20), u16 flags, i64 first time, i64 last time, events
 *	StackBlock
 *		i32 first id, i32 count, each: i32 byte length, instruction pointers
 *	SPBlock	i64 time, i32 count, each: i64 thread, u32 its last number
 */
#ifndef RP_NETTRACE_FORMAT_H
#define RP_NETTRACE_FORMAT_H

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers go into files and out of them as they are in memory"
#endif

#include <stdint.h>

#define RP_NETTRACE_MAGIC "Nettrace"
#define RP_NETTRACE_SERIALIZER "!FastSerialization.1"

enum rp_nettrace_tag {
	RP_TAG_NULL = 1,
	RP_TAG_BEGIN = 5,
	RP_TAG_END = 6,
};

#define RP_TRACE_VERSION 4
#define RP_BLOCK_VERSION 2
#define RP_TRACE_BYTES 48
#define RP_BLOCK_HEADER_BYTES 20
#define RP_BLOCK_COMPRESSED 1		/* block header flag */

/* The flag byte of a compressed event header; what it announces follows in this order. */
enum rp_event_flag {
	RP_EVENT_METADATA = 1,		/* varu32 */
	RP_EVENT_CAPTURE = 2,		/* varu32 number's step - 1, varu64 thread, varu32 cpu */
	RP_EVENT_THREAD = 4,		/* varu64 */
	RP_EVENT_STACK = 8,		/* varu32; after it always varu64, the time step */
	RP_EVENT_ACTIVITY = 16,		/* GUID */
	RP_EVENT_RELATED = 32,		/* GUID */
	RP_EVENT_SORTED = 64,		/* nothing follows */
	RP_EVENT_SIZE = 128,		/* varu32 */
};

#define RP_EVENT_FIXED_BYTES 80		/* an uncompressed header */

enum rp_metadata_tag {
	RP_METADATA_OPCODE = 1,
	RP_METADATA_FIELDS_V2 = 2,
};

enum rp_wire_type {
	RP_WIRE_STRUCT = 1,
	RP_WIRE_BOOL32 = 3,
	RP_WIRE_CHAR16 = 4,
	RP_WIRE_I8 = 5,
	RP_WIRE_U8 = 6,
	RP_WIRE_I16 = 7,
	RP_WIRE_U16 = 8,
	RP_WIRE_I32 = 9,
	RP_WIRE_U32 = 10,
	RP_WIRE_I64 = 11,
	RP_WIRE_U64 = 12,
	RP_WIRE_F32 = 13,
	RP_WIRE_F64 = 14,
	RP_WIRE_DECIMAL = 15,
	RP_WIRE_TIME = 16,		/* i64, 100 ns since 1601-01-01 UTC */
	RP_WIRE_GUID = 17,		/* first three groups little-endian */
	RP_WIRE_STRING16 = 18,
	RP_WIRE_ARRAY = 19,		/* u16 count; in V2 fields only */
};

/*
 * TraceEvent keeps a payload's size in 16 bits: 65,536 bytes would read as none. And its TraceLog
 * (4.0.0) cannot read a file with an event of more than 65,436 bytes at all.
 */
#define RP_WIRE_PAYLOAD_MAX 65400u

/* 1970-01-01 in units of 100 ns since 1601-01-01. */
#define RP_WIRE_TIME_1970 116444736000000000LL

/* Structs in structs, deeper than anybody needs. */
#define RP_STRUCT_DEPTH_MAX 16

#endif
