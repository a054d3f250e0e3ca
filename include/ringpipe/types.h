/* SPDX-License-Identifier: MIT */
/*
 * Definitions for all headers: levels, opcodes, GUIDs, and the description of an event's fields.
 * This header declares no functions.
 */
#ifndef RINGPIPE_TYPES_H
#define RINGPIPE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define RP_VERSION_STRING "0.1.0"

#ifdef __cplusplus
#define RP_BEGIN_DECLS extern "C" {
#define RP_END_DECLS }
#else
#define RP_BEGIN_DECLS
#define RP_END_DECLS
#endif

#define RP_PUBLIC __attribute__((visibility("default")))
#define RP_HIDDEN __attribute__((visibility("hidden")))

/* A unit of UTF-16, the element of u"…". */
#ifdef __cplusplus
typedef char16_t rp_char16;
#else
typedef uint_least16_t rp_char16;
#endif

/*
 * Structs with a `size` can grow. This applies to structs that a caller fills and to structs that a
 * function fills. Later versions of the library add members at the end, and existing members never
 * move.
 *
 * - Before a call, the caller initialises its struct with ..._INIT, which sets `size` and zeroes
 *   all other members; in options, zero is the default. If `size` is below ..._SIZE_V1, the size in
 *   the first version, functions return -EINVAL.
 * - Options may be shorter or longer than the library's own struct. Members that an older program
 *   does not have count as zero. Members that an older library does not have must be zero (else
 *   -EINVAL).
 * - A function fills a result up to the caller's `size`, and zeroes members that an older library
 *   does not have.
 * - A struct that the library passes to a callback has the library's own `size`. Check `size`
 *   before reading a member that was added after the first version.
 *
 * A program only receives these from the library, so they have no ..._INIT: rp_provider_state,
 * rp_enabled, rp_traced, rp_host_walk, rp_host_command, rp_host_copy, rp_component_host and
 * rp_component.
 *
 * These never grow: rp_guid, rp_part, rp_field, rp_enumerator, rp_enumeration, rp_counter_tag,
 * rp_activity, rp_span, rp_span_scope, rp_fields, rp_batch_event, rp_process_attribute,
 * rp_reader_field, rp_reader_type, rp_reader_label, rp_component_table, rp_component_words,
 * rp_component_payload and rp_host_range, and of the structs that declarations create, rp_event,
 * rp_counter and rp_key. A struct rp_component_state is not passed between objects.
 */
#ifdef __cplusplus
#define RP_INIT_(type) (rp_init_<type>())
#define RP_CAST_(type, value) static_cast<type>(value)
extern "C++" {
template<typename T> inline T rp_init_()
{
	T value = T();

	value.size = sizeof(T);
	return value;
}
}
#else
#define RP_CAST_(type, value) ((type)(value))
#define RP_INIT_(type) { .size = sizeof(type) }
#endif

/* The size of a struct from its start to the end of a member. */
#ifdef __cplusplus
#define RP_SIZE_THROUGH_(type, member) \
	(offsetof(type, member) + sizeof(static_cast<type *>(nullptr)->member))
#else
#define RP_SIZE_THROUGH_(type, member) \
	(offsetof(type, member) + sizeof(((type *)0)->member))
#endif

/* Maximum payload of one event, in bytes as written: the sum of its parts. */
#define RP_PAYLOAD_MAX 65536u

/* Maximum size of the name of a provider, event, field or struct, in bytes without the NUL. */
#define RP_NAME_MAX 255u

/* Maximum id of an event. TraceEvent drops events of id 65535 as illegal. */
#define RP_EVENT_ID_MAX 65534u

/*
 * Requests an id that the library derives from the event's name. The id is above 32767 and below
 * those of the provider's counters (65533 and 65534), and is the same in every build and process.
 */
#define RP_EVENT_ID_AUTO 0xffffffffu

/* Maximum number of stack frames of an event. */
#define RP_STACK_MAX 100u

/*
 * The last frame of a cut stack. The unwind rules of a function in the stack were not cached yet,
 * so the stack does not reach the outermost function. The frames before this one are correct. No
 * code is at this address.
 */
#define RP_FRAME_CUT 0xc07u

/*
 * The levels of EventPipe. A session of a level L from 1 to 5 receives events of the levels 0 to L.
 * <ringpipe/session.h> describes level 0 of a session.
 */
enum rp_level {
	RP_LEVEL_LOG_ALWAYS = 0,
	RP_LEVEL_CRITICAL = 1,
	RP_LEVEL_ERROR = 2,
	RP_LEVEL_WARNING = 3,
	RP_LEVEL_INFORMATIONAL = 4,
	RP_LEVEL_VERBOSE = 5,
};

/* Opcodes that tools know. Providers define the meaning of 11 to 238. */
enum rp_opcode {
	RP_OPCODE_INFO = 0,
	RP_OPCODE_START = 1,
	RP_OPCODE_STOP = 2,
};

/* A GUID in the byte order of its text in RFC 4122: bytes[0] is the first pair of digits. */
struct rp_guid {
	uint8_t bytes[16];
};

/*
 * Types of fields. The comments describe the layout in the payload as written: packed, without
 * padding, in the byte order of the machine.
 */
enum rp_type {
	RP_TYPE_NONE = 0,
	RP_TYPE_BOOL = 1,	/* 1 byte, 0 or 1 */
	RP_TYPE_CHAR = 2,	/* 1 byte, a character of Latin-1 */
	RP_TYPE_I8 = 3,
	RP_TYPE_U8 = 4,
	RP_TYPE_I16 = 5,
	RP_TYPE_U16 = 6,
	RP_TYPE_I32 = 7,
	RP_TYPE_U32 = 8,
	RP_TYPE_I64 = 9,
	RP_TYPE_U64 = 10,
	RP_TYPE_F32 = 11,
	RP_TYPE_F64 = 12,
	RP_TYPE_POINTER = 13,	/* 8 bytes, zero-extended */
	RP_TYPE_GUID = 14,	/* struct rp_guid */
	RP_TYPE_TIME = 15,	/* i64, nanoseconds since 1970-01-01 UTC */
	RP_TYPE_STRING = 16,	/* UTF-8, ended by one NUL byte */
	RP_TYPE_STRING16 = 17,	/* UTF-16, ended by one NUL unit */
	RP_TYPE_ARRAY = 18,	/* u16 count, then the elements */
	RP_TYPE_STRUCT = 19,	/* the members, one after another */
};

/* A named value of an enumeration. */
struct rp_enumerator {
	const char *name;
	int64_t value;
};

/*
 * Names for values of an integer field. One value may have several names, and values without a name
 * are valid.
 */
struct rp_enumeration {
	const char *name;
	const struct rp_enumerator *enumerators;
	size_t count;			/* 1 to RP_ENUMERATORS_MAX */
};

#define RP_ENUMERATORS_MAX 1024u

/*
 * One field of an event, or one member of a struct. `element` is the element type of an ARRAY: a
 * fixed-size type or STRUCT. `members` are the members of a STRUCT: fixed-size types, strings, or
 * STRUCTs of those. A STRUCT in an array has no strings. The name of a STRUCT may be empty. A blob
 * of bytes is an ARRAY of U8. Fields of types I8 to U64 may have an enumeration, for tracers that
 * show the names.
 */
struct rp_field {
	const char *name;
	const struct rp_field *members;
	uint16_t member_count;
	uint8_t type;
	uint8_t element;
	uint32_t flags;		/* enum rp_field_flags */
	const struct rp_enumeration *enumeration;	/* or NULL */
};

enum rp_field_flags {
	/* A redacted field: its value is replaced by "***", zero, or no elements. */
	RP_FIELD_SECRET = 1,
};

/* One part of a payload. The writer gathers the parts in the ring. */
struct rp_part {
	const void *base;
	size_t size_bytes;
};

#endif
