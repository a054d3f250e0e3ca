/* SPDX-License-Identifier: MIT */
/*
 * The numbers of nettrace V4 and V6, shared by the encoder and the reader. Source:
 * NetTraceFormat_v5.md and NetTraceFormat.md in the repository microsoft/perfview. All integers are
 * little-endian.
 *
 * V4:
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
 *
 * V6, where a string is a varu32 byte length and UTF-8, and a row begins with its u16 size:
 *	stream	"Nettrace", u32 0, u32 6, u32 minor version, blocks up to EndOfStream
 *	block	u32: size in the low 24 bits, kind in the high 8; then the content
 *	Trace	UTC, ticks and rate as in V4, u32 pointer size, u32 count, each: string key, string
 *		value
 *	Event	as in V4; a thread is an index of a Thread row
 *	Metadata
 *		u16 bytes to skip; rows: varu32 id, string provider, varu32 event id, string name,
 *		fields, u16 size of attributes, each: u8 kind, data
 *	fields	u16 count, each a row: string name, type
 *	type	u8 code [array and located array: type of the elements] [fixed array: u16 count]
 *		[struct: fields]
 *	SequencePoint
 *		u64 time, u32 flags, u32 count, each: varu64 capture thread, varu32 its last number
 *	Stack	as in V4
 *	Thread	rows: varu64 index, attributes: u8 kind, data
 *	RemoveThread
 *		varu64 index, varu32 its last number, and so on
 *	LabelList
 *		u32 first id, u32 count, lists of u8 kind, data; bit 7 of the kind ends a list
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
#define RP_TRACE_VERSION_MAX 5		/* adds only the tags of definitions, which V4 has here */
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
	RP_EVENT_LABELS = 16,		/* V6: varu32, instead of the GUIDs */
	RP_EVENT_RELATED = 32,		/* GUID */
	RP_EVENT_SORTED = 64,		/* adds no bytes to the header */
	RP_EVENT_SIZE = 128,		/* varu32 */
};

#define RP_EVENT_FIXED_BYTES 80		/* an uncompressed header */

/* The second word of a V6 stream is 0, where V4 has the length of the serializer's name. */
#define RP_NETTRACE_V6 6u
#define RP_BLOCK_SIZE_MAX 0xffffffu	/* of a V6 block */

enum rp_block_kind {
	RP_BLOCK_END = 0,
	RP_BLOCK_TRACE = 1,
	RP_BLOCK_EVENT = 2,
	RP_BLOCK_METADATA = 3,
	RP_BLOCK_SEQUENCE_POINT = 4,
	RP_BLOCK_STACK = 5,
	RP_BLOCK_THREAD = 6,
	RP_BLOCK_REMOVE_THREAD = 7,
	RP_BLOCK_LABEL_LIST = 8,
};

enum rp_sequence_point_flag {
	RP_POINT_FLUSH_THREADS = 1,
	RP_POINT_FLUSH_METADATA = 2,
};

/* Keys of the Trace block. */
#define RP_TRACE_KEY_PROCESSORS "HardwareThreadCount"
#define RP_TRACE_KEY_PROCESS "ProcessId"
#define RP_TRACE_KEY_SAMPLING "ExpectedCPUSamplingRate"
#define RP_TRACE_KEY_PAGE_SIZE "SystemPageSize"

enum rp_thread_attribute {
	RP_THREAD_NAME = 1,
	RP_THREAD_PROCESS = 2,
	RP_THREAD_ID = 3,
	RP_THREAD_KEY_VALUE = 4,
};

enum rp_label_kind {
	RP_LABEL_ACTIVITY = 1,
	RP_LABEL_RELATED = 2,
	RP_LABEL_TRACE_ID = 3,
	RP_LABEL_SPAN_ID = 4,
	RP_LABEL_TEXT = 5,
	RP_LABEL_NUMBER = 6,
	RP_LABEL_OPCODE = 7,
	RP_LABEL_KEYWORDS = 8,
	RP_LABEL_LEVEL = 9,
	RP_LABEL_VERSION = 10,
	RP_LABEL_LAST = 0x80,		/* the bit that ends a list */
};

/* V4's tags and V6's attributes. */
enum rp_metadata_tag {
	RP_METADATA_OPCODE = 1,
	RP_METADATA_FIELDS_V2 = 2,	/* V4 only */
	RP_METADATA_KEYWORDS = 3,
	RP_METADATA_MESSAGE = 4,
	RP_METADATA_DESCRIPTION = 5,
	RP_METADATA_KEY_VALUE = 6,
	RP_METADATA_PROVIDER_GUID = 7,
	RP_METADATA_LEVEL = 8,
	RP_METADATA_VERSION = 9,
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
	/* V6 only: */
	RP_WIRE_VARINT = 20,		/* zigzag */
	RP_WIRE_VARUINT = 21,
	RP_WIRE_FIXED_ARRAY = 22,	/* the count is in the metadata */
	RP_WIRE_CHAR8 = 23,
	RP_WIRE_REL_LOC = 24,		/* u16 offset after the field, u16 size: an array there */
	RP_WIRE_DATA_LOC = 25,		/* the same from the payload's beginning */
	RP_WIRE_BOOL8 = 26,
};

/*
 * The largest payload. TraceEvent stores a payload's size in 16 bits, so 65,536 bytes become 0. Its
 * TraceLog (4.0.0) cannot read a file with an event of more than 65,436 bytes at all.
 */
#define RP_WIRE_PAYLOAD_MAX 65400u

/* 1970-01-01 in units of 100 ns since 1601-01-01. */
#define RP_WIRE_TIME_1970 116444736000000000LL

/* The maximum depth of structs in structs. */
#define RP_STRUCT_DEPTH_MAX 16

#endif
