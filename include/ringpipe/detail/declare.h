/* SPDX-License-Identifier: MIT */
/*
 * What RP_PROVIDER, RP_EVENT and RP_STRUCT expand to, and counters lean on. The layouts here are
 * ABI between an object compiled today and the library of tomorrow: structs grow at the end, `size`
 * says how far.
 */
#ifndef RINGPIPE_DETAIL_DECLARE_H
#define RINGPIPE_DETAIL_DECLARE_H

#include <stdbool.h>
#include <string.h>

#include <ringpipe/detail/gate.h>
#include <ringpipe/detail/map.h>
#include <ringpipe/detail/probe.h>
#include <ringpipe/types.h>

#ifdef __cplusplus
#include <uchar.h>
typedef char16_t rp_char16;
#define RP_ASSERT_ static_assert
#define RP_NULL_ nullptr
#define RP_CAST_(type, value) static_cast<type>(value)
#else
typedef uint_least16_t rp_char16;
#define RP_ASSERT_ _Static_assert
#define RP_NULL_ NULL
#define RP_CAST_(type, value) ((type)(value))
#endif
/* Takes the semicolon behind a macro, and declares nothing, in whichever namespace it stands. */
#define RP_SEMICOLON_ RP_ASSERT_(1, "")

RP_ASSERT_(sizeof(void *) == 8, "ringpipe knows 64-bit machines only");

#define RP_FIELDS_MAX 128u	/* of an event made at run time; a declared one has up to 32 */

struct rp_provider;

/* A declared provider. `core` is the library's. */
struct rp_provider_decl {
	uint32_t size;
	uint32_t reserved;
	const char *name;
	struct rp_provider *core;
};

/* What never changes about an event. */
struct rp_event_decl {
	uint32_t size;
	uint32_t id;
	struct rp_provider_decl *provider;
	const char *name;
	const char *message;		/* or NULL */
	const struct rp_field *fields;
	uint64_t keywords;
	uint16_t field_count;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint8_t flags;			/* enum rp_event_flags */
	uint16_t reserved;
};

enum rp_event_flags {
	RP_EVENT_NO_STACK = 1,		/* never capture a stack for this one */
	RP_EVENT_STATE = 2,		/* sessions that overwrite keep it: RP_STATE_EVENT */
};

/*
 * An event in one object. `enable` is the whole question "does anyone want this": bits 0-39
 * sessions, 40-46 exporters, 48-63 the kernel's USDT semaphore, which only the kernel writes.
 */
struct rp_event {
	uint64_t enable;
	uint32_t index;			/* the library's number for it */
	uint32_t flags;			/* enum rp_event_flags, once registered */
	const struct rp_event_decl *decl;
	void *core;
};

struct rp_observation;

/* What never changes about a counter; counter.h says what it means. */
struct rp_counter_decl {
	uint32_t size;
	uint8_t kind;			/* enum rp_counter_kind */
	uint8_t reserved[3];		/* 0 */
	struct rp_provider_decl *provider;	/* of a declared one */
	const char *name;
	const char *unit;		/* or NULL */
	const char *display_name;	/* or NULL */
	const char *metadata;		/* "key:value,key2:value2", or NULL */
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
	uint32_t rate_seconds;		/* the rate a client shows: per so many seconds; 0: 1 */
	uint32_t reserved2;		/* 0 */
};

/* A counter in one object, or a series of one. */
struct rp_counter {
	char *cells;			/* its place in the first processor's row; NULL: none yet */
	uint32_t kind;
	uint32_t reserved;
	uint64_t early;			/* counted without cells */
	const struct rp_counter_decl *decl;
	void *core;
};

/*
 * A site with a static key: where it is and whose enable word it stands for, each as the distance
 * from here. The loader has nothing to do for it.
 */
struct rp_key {
	int32_t site;
	int32_t event;
};

/* Everything declared in one executable or shared object. */
struct rp_object {
	uint32_t size;
	uint32_t registered;
	struct rp_event **events, **events_end;
	struct rp_provider_decl **providers, **providers_end;
	struct rp_counter **counters, **counters_end;
	const struct rp_key *keys, *keys_end;
};

RP_BEGIN_DECLS
RP_PUBLIC void rp_object_register(struct rp_object *object);
RP_PUBLIC void rp_object_unregister(struct rp_object *object);
/*
 * As rp_event_write(), of a payload of up to 32 bytes, in words as memory has them; what is behind
 * it in the last is zero.
 */
RP_PUBLIC int rp_event_write_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				   struct rp_event *event, size_t bytes);

/* The linker makes these at the ends of each object's own tables. */
extern struct rp_event *__start_rp_events[] __attribute__((weak, visibility("hidden")));
extern struct rp_event *__stop_rp_events[] __attribute__((weak, visibility("hidden")));
extern struct rp_provider_decl *__start_rp_providers[] __attribute__((weak, visibility("hidden")));
extern struct rp_provider_decl *__stop_rp_providers[] __attribute__((weak, visibility("hidden")));
extern struct rp_counter *__start_rp_counters[] __attribute__((weak, visibility("hidden")));
extern struct rp_counter *__stop_rp_counters[] __attribute__((weak, visibility("hidden")));
extern const struct rp_key __start_rp_keys[] __attribute__((weak, visibility("hidden")));
extern const struct rp_key __stop_rp_keys[] __attribute__((weak, visibility("hidden")));

extern struct rp_object rp_object_;
__attribute__((weak, visibility("hidden"))) struct rp_object rp_object_ = {
	sizeof(struct rp_object), 0, RP_NULL_, RP_NULL_, RP_NULL_, RP_NULL_, RP_NULL_, RP_NULL_,
	RP_NULL_, RP_NULL_,
};
RP_END_DECLS

/* One pair per file; the library takes the first call of each object and ignores the rest. */
__attribute__((constructor)) static void rp_object_constructor_(void)
{
	rp_object_.events = __start_rp_events;
	rp_object_.events_end = __stop_rp_events;
	rp_object_.providers = __start_rp_providers;
	rp_object_.providers_end = __stop_rp_providers;
	rp_object_.counters = __start_rp_counters;
	rp_object_.counters_end = __stop_rp_counters;
	rp_object_.keys = __start_rp_keys;
	rp_object_.keys_end = __stop_rp_keys;
	rp_object_register(&rp_object_);
}

__attribute__((destructor)) static void rp_object_destructor_(void)
{
	rp_object_unregister(&rp_object_);
}

/* `retain` keeps the linker's garbage collection away; older compilers need no such word. */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define RP_TABLE_ENTRY_(table) __attribute__((used, retain, section(table)))
#endif
#endif
#ifndef RP_TABLE_ENTRY_
#define RP_TABLE_ENTRY_(table) __attribute__((used, section(table)))
#endif

/* Fields: each is a tuple (kind, …) that the macros below take apart by its kind. */
#define RP_BOOL(n) (SCALAR, BOOL, n)
#define RP_CHAR(n) (SCALAR, CHAR, n)
#define RP_I8(n) (SCALAR, I8, n)
#define RP_U8(n) (SCALAR, U8, n)
#define RP_I16(n) (SCALAR, I16, n)
#define RP_U16(n) (SCALAR, U16, n)
#define RP_I32(n) (SCALAR, I32, n)
#define RP_U32(n) (SCALAR, U32, n)
#define RP_I64(n) (SCALAR, I64, n)
#define RP_U64(n) (SCALAR, U64, n)
#define RP_F32(n) (SCALAR, F32, n)
#define RP_F64(n) (SCALAR, F64, n)
#define RP_POINTER(n) (SCALAR, POINTER, n)
#define RP_TIME(n) (SCALAR, TIME, n)			/* int64_t ns since 1970 UTC */
#define RP_GUID(n) (GUID, n)				/* const struct rp_guid * */
#define RP_STRING(n) (STRING, n)			/* const char *, NULL is "" */
#define RP_STRING16(n) (STRING16, n)			/* const rp_char16 *, NULL is u"" */
#define RP_BLOB(n) (BLOB, n)				/* const void *, size_t n_bytes */
#define RP_ARRAY(type, n) (ARRAY, type, n)		/* const T *, size_t n_count */
#define RP_STRUCT_FIELD(tag, n) (STRUCT, tag, n)	/* const struct tag * */
#define RP_STRUCT_ARRAY(tag, n) (STRUCTS, tag, n)	/* const struct tag *, size_t n_count */
#define RP_ENUM_FIELD(tag, n) (ENUM_, tag, n)		/* int32_t, of an RP_ENUM(tag, …) */
#define RP_SECRET(field) (SECRET_, field)		/* any of these */

/* What a table says of the field that is secret. */
#define RP_WITHIN_(table, ...) RP_WITHIN_I_(table, __VA_ARGS__)
#define RP_WITHIN_I_(table, kind, ...) table##kind(__VA_ARGS__)
#define RP_BARE_(...) __VA_ARGS__

#define RP_CTYPE_BOOL bool
#define RP_CTYPE_CHAR char
#define RP_CTYPE_I8 int8_t
#define RP_CTYPE_U8 uint8_t
#define RP_CTYPE_I16 int16_t
#define RP_CTYPE_U16 uint16_t
#define RP_CTYPE_I32 int32_t
#define RP_CTYPE_U32 uint32_t
#define RP_CTYPE_I64 int64_t
#define RP_CTYPE_U64 uint64_t
#define RP_CTYPE_F32 float
#define RP_CTYPE_F64 double
#define RP_CTYPE_POINTER const void *
#define RP_CTYPE_TIME int64_t
#define RP_CTYPE_GUID struct rp_guid

/* As parameters of the event's function. */
#define RP_PARAM_(t) RP_PARAM_I_ t
#define RP_PARAM_I_(kind, ...) RP_PARAM_##kind(__VA_ARGS__)
#define RP_PARAM_SCALAR(T, n) RP_CTYPE_##T n
#define RP_PARAM_GUID(n) const struct rp_guid *n
#define RP_PARAM_STRING(n) const char *n
#define RP_PARAM_STRING16(n) const rp_char16 *n
#define RP_PARAM_BLOB(n) const void *n, size_t n##_bytes
#define RP_PARAM_ARRAY(T, n) const RP_CTYPE_##T *n, size_t n##_count
#define RP_PARAM_STRUCT(tag, n) const struct tag *n
#define RP_PARAM_STRUCTS(tag, n) const struct tag *n, size_t n##_count
#define RP_PARAM_ENUM_(tag, n) int32_t n
#define RP_PARAM_SECRET_(t) RP_WITHIN_(RP_PARAM_, RP_BARE_ t)

/* As arguments handed on. */
#define RP_ARG_(t) RP_ARG_I_ t
#define RP_ARG_I_(kind, ...) RP_ARG_##kind(__VA_ARGS__)
#define RP_ARG_SCALAR(T, n) n
#define RP_ARG_GUID(n) n
#define RP_ARG_STRING(n) n
#define RP_ARG_STRING16(n) n
#define RP_ARG_BLOB(n) n, n##_bytes
#define RP_ARG_ARRAY(T, n) n, n##_count
#define RP_ARG_STRUCT(tag, n) n
#define RP_ARG_STRUCTS(tag, n) n, n##_count
#define RP_ARG_ENUM_(tag, n) n
#define RP_ARG_SECRET_(t) RP_WITHIN_(RP_ARG_, RP_BARE_ t)

/* As values to forget, first of all: only secrets are. */
#define RP_FORGET_(t) RP_FORGET_I_ t
#define RP_FORGET_I_(kind, ...) RP_FORGET_##kind(__VA_ARGS__)
#define RP_FORGET_SCALAR(T, n)
#define RP_FORGET_GUID(n)
#define RP_FORGET_STRING(n)
#define RP_FORGET_STRING16(n)
#define RP_FORGET_BLOB(n)
#define RP_FORGET_ARRAY(T, n)
#define RP_FORGET_STRUCT(tag, n)
#define RP_FORGET_STRUCTS(tag, n)
#define RP_FORGET_ENUM_(tag, n)
#define RP_FORGET_SECRET_(t) RP_WITHIN_(RP_REDACT_, RP_BARE_ t)
#define RP_REDACT_SCALAR(T, n) memset(&n, 0, sizeof(n));
#define RP_REDACT_GUID(n) n = RP_NULL_;
#define RP_REDACT_STRING(n) n = "***";
#define RP_REDACT_STRING16(n) n = rp_redacted16_;
#define RP_REDACT_BLOB(n) n = RP_NULL_, n##_bytes = 0;
#define RP_REDACT_ARRAY(T, n) n = RP_NULL_, n##_count = 0;
#define RP_REDACT_STRUCT(tag, n) n = RP_NULL_;
#define RP_REDACT_STRUCTS(tag, n) n = RP_NULL_, n##_count = 0;
#define RP_REDACT_ENUM_(tag, n) n = 0;

/* As bytes of the buffer that gathers the small ones. */
#define RP_ROOM_(t) RP_ROOM_I_ t
#define RP_ROOM_I_(kind, ...) RP_ROOM_##kind(__VA_ARGS__)
#define RP_ROOM_SCALAR(T, n) + sizeof(RP_CTYPE_##T)
#define RP_ROOM_GUID(n) + sizeof(struct rp_guid)
#define RP_ROOM_STRING(n)
#define RP_ROOM_STRING16(n)
#define RP_ROOM_BLOB(n) + 2
#define RP_ROOM_ARRAY(T, n) + 2
#define RP_ROOM_STRUCT(tag, n) + sizeof(struct tag)
#define RP_ROOM_STRUCTS(tag, n) + 2
#define RP_ROOM_ENUM_(tag, n) + sizeof(int32_t)
#define RP_ROOM_SECRET_(t) RP_WITHIN_(RP_ROOM_, RP_BARE_ t)

/* As whether its bytes are elsewhere, and how many they are. */
#define RP_VARIES_(t) RP_VARIES_I_ t
#define RP_VARIES_I_(kind, ...) RP_VARIES_##kind(__VA_ARGS__)
#define RP_VARIES_SCALAR(T, n)
#define RP_VARIES_GUID(n)
#define RP_VARIES_STRING(n) + 1
#define RP_VARIES_STRING16(n) + 1
#define RP_VARIES_BLOB(n) + 1
#define RP_VARIES_ARRAY(T, n) + 1
#define RP_VARIES_STRUCT(tag, n)
#define RP_VARIES_STRUCTS(tag, n) + 1
#define RP_VARIES_ENUM_(tag, n)
#define RP_VARIES_SECRET_(t) RP_WITHIN_(RP_VARIES_, RP_BARE_ t)

/* Whether the payload fits into the registers that arguments are passed in. */
#define RP_WORDS_BYTES_ 32
#define RP_IS_WORDS_(...) \
	((0 RP_MAP_(RP_VARIES_, RP_NOTHING_, __VA_ARGS__)) == 0 && \
	 (0 RP_MAP_(RP_ROOM_, RP_NOTHING_, __VA_ARGS__)) <= RP_WORDS_BYTES_)

/* As calls that lay the payload out. */
#define RP_PUT_(t) RP_PUT_I_ t
#define RP_PUT_I_(kind, ...) RP_PUT_##kind(__VA_ARGS__)
#define RP_PUT_SCALAR(T, n) rp_pack_copy_(&pack_, &n, sizeof(n));
#define RP_PUT_GUID(n) rp_pack_copy_(&pack_, n, sizeof(struct rp_guid));
#define RP_PUT_STRING(n) \
	rp_pack_refer_(&pack_, n ? n : "", n ? strlen(n) + 1 : 1);
#define RP_PUT_STRING16(n) \
	rp_pack_refer_(&pack_, n ? n : rp_empty16_, n ? rp_string16_bytes_(n) : 2);
#define RP_PUT_BLOB(n) rp_pack_array_(&pack_, n, n##_bytes, 1);
#define RP_PUT_ARRAY(T, n) rp_pack_array_(&pack_, n, n##_count, sizeof(*n));
#define RP_PUT_STRUCT(tag, n) rp_pack_copy_(&pack_, n, sizeof(*n));
#define RP_PUT_STRUCTS(tag, n) rp_pack_array_(&pack_, n, n##_count, sizeof(*n));
#define RP_PUT_ENUM_(tag, n) rp_pack_copy_(&pack_, &n, sizeof(n));
#define RP_PUT_SECRET_(t) RP_WITHIN_(RP_PUT_, RP_BARE_ t)

/* As descriptions, with flags. */
#define RP_DESC_(t) RP_DESC_I_ t
#define RP_DESC_I_(kind, ...) RP_DESC_##kind(0, __VA_ARGS__)
#define RP_DESC_SCALAR(f, T, n) { #n, RP_NULL_, 0, RP_TYPE_##T, 0, f, RP_NULL_ }
#define RP_DESC_GUID(f, n) { #n, RP_NULL_, 0, RP_TYPE_GUID, 0, f, RP_NULL_ }
#define RP_DESC_STRING(f, n) { #n, RP_NULL_, 0, RP_TYPE_STRING, 0, f, RP_NULL_ }
#define RP_DESC_STRING16(f, n) { #n, RP_NULL_, 0, RP_TYPE_STRING16, 0, f, RP_NULL_ }
#define RP_DESC_BLOB(f, n) { #n, RP_NULL_, 0, RP_TYPE_ARRAY, RP_TYPE_U8, f, RP_NULL_ }
#define RP_DESC_ARRAY(f, T, n) { #n, RP_NULL_, 0, RP_TYPE_ARRAY, RP_TYPE_##T, f, RP_NULL_ }
#define RP_DESC_STRUCT(f, tag, n) \
	{ #n, tag##_fields_, sizeof(tag##_fields_) / sizeof(tag##_fields_[0]), RP_TYPE_STRUCT, 0, \
	  f, RP_NULL_ }
#define RP_DESC_STRUCTS(f, tag, n) \
	{ #n, tag##_fields_, sizeof(tag##_fields_) / sizeof(tag##_fields_[0]), RP_TYPE_ARRAY, \
	  RP_TYPE_STRUCT, f, RP_NULL_ }
#define RP_DESC_ENUM_(f, tag, n) { #n, RP_NULL_, 0, RP_TYPE_I32, 0, f, &tag##_enumeration_ }
#define RP_DESC_SECRET_(f, t) RP_DESC_SECRET_I_ t
#define RP_DESC_SECRET_I_(kind, ...) RP_DESC_##kind(RP_FIELD_SECRET, __VA_ARGS__)

/* As members of a struct: fixed-size types only; a secret is a whole field. */
#define RP_MEMBER_(t) RP_MEMBER_I_ t
#define RP_MEMBER_I_(kind, ...) RP_MEMBER_##kind(__VA_ARGS__)
#define RP_MEMBER_SCALAR(T, n) RP_CTYPE_##T n;
#define RP_MEMBER_GUID(n) struct rp_guid n;
#define RP_MEMBER_STRUCT(tag, n) struct tag n;
#define RP_MEMBER_ENUM_(tag, n) int32_t n;

static const rp_char16 rp_redacted16_[] __attribute__((unused)) = { '*', '*', '*', 0 };
static const rp_char16 rp_empty16_[] __attribute__((unused)) = { 0 };

struct rp_pack_ {
	unsigned char *room;
	struct rp_part *parts;
	size_t at, from;
	unsigned int count;
};

static inline __attribute__((always_inline)) void rp_pack_flush_(struct rp_pack_ *pack)
{
	if (pack->at == pack->from)
		return;
	pack->parts[pack->count].base = pack->room + pack->from;
	pack->parts[pack->count++].size_bytes = pack->at - pack->from;
	pack->from = pack->at;
}

static inline __attribute__((always_inline)) void rp_pack_copy_(struct rp_pack_ *pack,
								const void *from, size_t size)
{
	if (from)
		memcpy(pack->room + pack->at, from, size);
	else
		memset(pack->room + pack->at, 0, size);
	pack->at += size;
}

static inline __attribute__((always_inline)) void rp_pack_refer_(struct rp_pack_ *pack,
								 const void *from, size_t size)
{
	rp_pack_flush_(pack);
	pack->parts[pack->count].base = from;
	pack->parts[pack->count++].size_bytes = size;
}

static inline __attribute__((always_inline)) void
rp_pack_array_(struct rp_pack_ *pack, const void *from, size_t count, size_t element_size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, element_size, &bytes))
		bytes = SIZE_MAX;
	/* A count that does not fit makes a payload that does not fit: refused as too large. */
	rp_pack_copy_(pack, &count, sizeof(uint16_t));
	if (count)
		rp_pack_refer_(pack, from, bytes);
}

static inline __attribute__((always_inline)) int rp_pack_write_words_(const struct rp_pack_ *pack,
								      struct rp_event *event)
{
	uint64_t words[RP_WORDS_BYTES_ / 8];

	memcpy(words, pack->room, sizeof(words));
	return rp_event_write_words(words[0], words[1], words[2], words[3], event, pack->at);
}

static inline size_t rp_string16_bytes_(const rp_char16 *string)
{
	size_t units = 0;

	while (string[units])
		units++;
	return (units + 1) * 2;
}

/* EMIT_0_ for keywords alone, EMIT_N_ for keywords and fields; map.h has those for too many. */
#define RP_EVENT_EMIT_(provider, event, id, version, level, opcode, flags, message, ...) \
	RP_CAT_(RP_EVENT_EMIT_, RP_ARITY_(__VA_ARGS__)) \
	(provider, event, id, version, level, opcode, flags, message, __VA_ARGS__)

#define RP_PROVIDER_EMIT_(ident, provider_name) \
	RP_ASSERT_(sizeof(provider_name) <= RP_NAME_MAX + 1, "a provider's name is too long"); \
	RP_BEGIN_DECLS \
	extern struct rp_provider_decl ident##_provider_; \
	__attribute__((weak, visibility("hidden"))) struct rp_provider_decl ident##_provider_ = { \
		sizeof(struct rp_provider_decl), 0, provider_name, RP_NULL_ }; \
	RP_END_DECLS \
	static struct rp_provider_decl *ident##_provider_entry_ RP_TABLE_ENTRY_("rp_providers") = \
		&ident##_provider_; \
	static inline __attribute__((unused)) struct rp_provider *ident##_provider(void) \
	{ \
		return ident##_provider_.core; \
	} \
	RP_SEMICOLON_

#define RP_STRUCT_EMIT_(tag, ...) \
	RP_CAT_(RP_STRUCT_EMIT_, RP_WHICH_(__VA_ARGS__))(tag, __VA_ARGS__)
#define RP_STRUCT_EMIT_FEW_(tag, ...) \
	struct tag { \
		RP_MAP_(RP_MEMBER_, RP_NOTHING_, __VA_ARGS__) \
	} __attribute__((packed)); \
	static const struct rp_field tag##_fields_[] __attribute__((unused)) = { \
		RP_MAP_(RP_DESC_, RP_COMMA_, __VA_ARGS__) }; \
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

/* `used`: the probe's note means the word, which the compiler cannot know. */
#define RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, keywords, \
		       fields, n) \
	RP_ASSERT_(sizeof(#event) <= RP_NAME_MAX + 1, "an event's name is too long"); \
	static const struct rp_event_decl provider##_##event##_decl_ = { \
		sizeof(struct rp_event_decl), id, &provider##_provider_, #event, message, fields, \
		keywords, n, version, level, opcode, flags, 0 }; \
	RP_BEGIN_DECLS \
	extern struct rp_event provider##_##event##_event_; \
	__attribute__((weak, used, visibility("hidden"), section(".probes"), aligned(32))) \
	struct rp_event provider##_##event##_event_ = { \
		0, 0, 0, &provider##_##event##_decl_, RP_NULL_ }; \
	RP_END_DECLS \
	static struct rp_event *provider##_##event##_entry_ RP_TABLE_ENTRY_("rp_events") = \
		&provider##_##event##_event_; \
	static inline __attribute__((unused)) int provider##_##event##_enabled(void) \
	{ \
		RP_CAT_(RP_ENABLED_, RP_STATIC_KEYS)(provider##_##event##_event_.enable) \
	}

/* The gate stays at the site; everything else goes out of line. */
#define RP_EVENT_CALL_(name, params, args) \
	static inline __attribute__((always_inline, unused)) int name params \
	{ \
		RP_CAT_(RP_GATE_, RP_STATIC_KEYS)(name##_event_.enable, wanted); \
		return 0; \
	wanted: RP_COLD_LABEL_; \
		RP_CAT_(RP_GATE_AGAIN_, RP_STATIC_KEYS)(name##_event_.enable) \
		return name##_write_ args; \
	}

#define RP_EVENT_EMIT_0_(provider, event, id, version, level, opcode, flags, message, keywords) \
	RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, keywords, \
		       RP_NULL_, 0) \
	RP_PROBE_EMIT_(provider, event) \
	static __attribute__((noinline, unused)) int provider##_##event##_write_(void) \
	{ \
		RP_PROBE_FIRE_(provider, event, "", 0) \
		return rp_event_write_words(0, 0, 0, 0, &provider##_##event##_event_, 0); \
	} \
	RP_EVENT_CALL_(provider##_##event, (void), ()) \
	RP_SEMICOLON_

/* The payload as parts; one that fits into words is one part, and zeros behind it. */
#define RP_PACK_(...) \
	unsigned char room_[RP_WORDS_BYTES_ RP_MAP_(RP_ROOM_, RP_NOTHING_, __VA_ARGS__)]; \
	struct rp_part parts_[2 * RP_COUNT_(__VA_ARGS__) + 1]; \
	struct rp_pack_ pack_ = { room_, parts_, 0, 0, 0 }; \
	if (RP_IS_WORDS_(__VA_ARGS__)) \
		memset(room_, 0, RP_WORDS_BYTES_); \
	RP_MAP_(RP_PUT_, RP_NOTHING_, __VA_ARGS__) \
	rp_pack_flush_(&pack_);

#define RP_EVENT_EMIT_N_(provider, event, id, version, level, opcode, flags, message, keywords, \
			 ...) \
	static const struct rp_field provider##_##event##_fields_[] = { \
		RP_MAP_(RP_DESC_, RP_COMMA_, __VA_ARGS__) }; \
	RP_EVENT_SITE_(provider, event, id, version, level, opcode, flags, message, keywords, \
		       provider##_##event##_fields_, RP_COUNT_(__VA_ARGS__)) \
	RP_PROBE_EMIT_(provider, event) \
	static __attribute__((noinline, cold, unused)) int provider##_##event##_traced_( \
		RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		RP_PROBE_FIRE_(provider, event, \
			       RP_ARGUMENTS_(RP_MAP_(RP_SIZES_, RP_COMMA_, __VA_ARGS__)), \
			       RP_MAP_(RP_WORDS_, RP_COMMA_, __VA_ARGS__)) \
		{ \
			RP_PACK_(__VA_ARGS__) \
			return rp_event_write(&provider##_##event##_event_, parts_, pack_.count); \
		} \
	} \
	static __attribute__((noinline, unused)) int provider##_##event##_write_( \
		RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		RP_MAP_(RP_FORGET_, RP_NOTHING_, __VA_ARGS__) \
		if (__builtin_expect(rp_is_traced_(&provider##_##event##_event_.enable), 0)) \
			return provider##_##event##_traced_( \
				RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__)); \
		{ \
			RP_PACK_(__VA_ARGS__) \
			if (RP_IS_WORDS_(__VA_ARGS__)) \
				return rp_pack_write_words_(&pack_, &provider##_##event##_event_); \
			return rp_event_write(&provider##_##event##_event_, parts_, pack_.count); \
		} \
	} \
	RP_EVENT_CALL_(provider##_##event, (RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)), \
		       (RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__))) \
	RP_SEMICOLON_

#endif
