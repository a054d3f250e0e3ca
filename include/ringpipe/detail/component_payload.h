/* SPDX-License-Identifier: MIT */
/*
 * Payloads that describe themselves, for component.h. All numbers are in the byte order of the
 * machine.
 *
 *	offset	size	content
 *	0	4	RP_COMPONENT_MAGIC
 *	4	2	number of fields
 *	6	2	1: fields were omitted because the payload was full; else 0
 *	8		the fields, one after another
 *
 * A field is its type (1 byte, enum rp_type), for an ARRAY also the type of its elements (1 byte,
 * always RP_TYPE_U8), the name with a NUL, and the value as types.h describes it.
 */
#ifndef RINGPIPE_DETAIL_COMPONENT_PAYLOAD_H
#define RINGPIPE_DETAIL_COMPONENT_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <ringpipe/types.h>

#define RP_COMPONENT_MAGIC "\x89RP\x01"
#define RP_COMPONENT_PAYLOAD_HEADER 8u
#define RP_COMPONENT_PAYLOAD_MAX 1024u

RP_BEGIN_DECLS

/* A payload while it is made. */
struct rp_component_payload {
	uint32_t used;
	uint8_t bytes[RP_COMPONENT_PAYLOAD_MAX];
};

static inline void rp_component_payload_init(struct rp_component_payload *payload)
{
	memset(payload->bytes, 0, RP_COMPONENT_PAYLOAD_HEADER);
	memcpy(payload->bytes, RP_COMPONENT_MAGIC, 4);
	payload->used = RP_COMPONENT_PAYLOAD_HEADER;
}

static inline void rp_component_append_(struct rp_component_payload *payload, const void *from,
					size_t bytes)
{
	if (bytes)
		memcpy(payload->bytes + payload->used, from, bytes);
	payload->used += RP_CAST_(uint32_t, bytes);
}

static inline void rp_component_set_(struct rp_component_payload *payload, size_t offset,
				     uint16_t value)
{
	memcpy(payload->bytes + offset, &value, sizeof(value));
}

/*
 * Append a field, or note that it is omitted.
 * @prefix: what an ARRAY has before its elements, its count; else NULL.
 */
static inline void rp_component_put_(struct rp_component_payload *payload, uint8_t type,
				     const char *name, const uint16_t *prefix, const void *value,
				     size_t value_bytes)
{
	const uint8_t types[2] = { type, RP_TYPE_U8 };
	const size_t name_bytes = strlen(name) + 1, type_bytes = prefix ? 2 : 1;
	const size_t used = payload->used;
	const size_t space = used < RP_COMPONENT_PAYLOAD_MAX ? RP_COMPONENT_PAYLOAD_MAX - used : 0;
	uint16_t count;

	if (value_bytes > space || name_bytes > space ||
	    type_bytes + name_bytes + (prefix ? 2 : 0) + value_bytes > space) {
		rp_component_set_(payload, 6, 1);
		return;
	}
	rp_component_append_(payload, types, type_bytes);
	rp_component_append_(payload, name, name_bytes);
	rp_component_append_(payload, prefix, prefix ? 2 : 0);
	rp_component_append_(payload, value, value_bytes);
	memcpy(&count, payload->bytes + 4, sizeof(count));
	rp_component_set_(payload, 4, RP_CAST_(uint16_t, count + 1));
}

#define RP_COMPONENT_PUT_NUMBER_(suffix, ctype, type) \
	static inline void rp_component_put_##suffix(struct rp_component_payload *payload, \
						     const char *name, ctype value) \
	{ \
		rp_component_put_(payload, type, name, RP_NO_PREFIX_, &value, sizeof(value)); \
	}

#ifdef __cplusplus
#define RP_NO_PREFIX_ nullptr
#else
#define RP_NO_PREFIX_ NULL
#endif

RP_COMPONENT_PUT_NUMBER_(bool, bool, RP_TYPE_BOOL)
RP_COMPONENT_PUT_NUMBER_(char, char, RP_TYPE_CHAR)
RP_COMPONENT_PUT_NUMBER_(i8, int8_t, RP_TYPE_I8)
RP_COMPONENT_PUT_NUMBER_(u8, uint8_t, RP_TYPE_U8)
RP_COMPONENT_PUT_NUMBER_(i16, int16_t, RP_TYPE_I16)
RP_COMPONENT_PUT_NUMBER_(u16, uint16_t, RP_TYPE_U16)
RP_COMPONENT_PUT_NUMBER_(i32, int32_t, RP_TYPE_I32)
RP_COMPONENT_PUT_NUMBER_(u32, uint32_t, RP_TYPE_U32)
RP_COMPONENT_PUT_NUMBER_(i64, int64_t, RP_TYPE_I64)
RP_COMPONENT_PUT_NUMBER_(u64, uint64_t, RP_TYPE_U64)
RP_COMPONENT_PUT_NUMBER_(f32, float, RP_TYPE_F32)
RP_COMPONENT_PUT_NUMBER_(f64, double, RP_TYPE_F64)

static inline void rp_component_put_pointer(struct rp_component_payload *payload, const char *name,
					    const void *value)
{
	uint64_t number = 0;

	memcpy(&number, &value, sizeof(value));
	rp_component_put_(payload, RP_TYPE_POINTER, name, RP_NO_PREFIX_, &number, sizeof(number));
}

static inline void rp_component_put_text(struct rp_component_payload *payload, const char *name,
					 const char *value)
{
	const char *text = value ? value : "";

	rp_component_put_(payload, RP_TYPE_STRING, name, RP_NO_PREFIX_, text, strlen(text) + 1);
}

/* A text that need not end with a NUL. It ends at an embedded NUL. */
static inline void rp_component_put_text_n(struct rp_component_payload *payload, const char *name,
					   const char *value, size_t value_bytes)
{
	char text[RP_COMPONENT_PAYLOAD_MAX];
	const char *end = value_bytes ? RP_CAST_(const char *, memchr(value, 0, value_bytes)) :
			  value;
	const size_t bytes = end ? RP_CAST_(size_t, end - value) : value_bytes;

	if (bytes >= sizeof(text)) {
		rp_component_set_(payload, 6, 1);
		return;
	}
	if (bytes)
		memcpy(text, value, bytes);
	text[bytes] = '\0';
	rp_component_put_text(payload, name, text);
}

static inline void rp_component_put_guid(struct rp_component_payload *payload, const char *name,
					 const struct rp_guid *value)
{
	static const struct rp_guid zeros = { { 0 } };

	rp_component_put_(payload, RP_TYPE_GUID, name, RP_NO_PREFIX_, value ? value : &zeros,
			  sizeof(zeros));
}

static inline void rp_component_put_blob(struct rp_component_payload *payload, const char *name,
					 const void *base, size_t bytes)
{
	const uint16_t count = RP_CAST_(uint16_t, bytes);

	/* A blob above 64 KB does not fit, so its count is not used. */
	rp_component_put_(payload, RP_TYPE_ARRAY, name, &count, base, bytes);
}

#undef RP_COMPONENT_PUT_NUMBER_
#undef RP_NO_PREFIX_

RP_END_DECLS

#ifdef __cplusplus
extern "C++" {

#define RP_COMPONENT_OVERLOAD_(ctype, call) \
	inline void rp_component_put(struct rp_component_payload *payload, const char *name, \
				     ctype value) \
	{ \
		call(payload, name, value); \
	}

RP_COMPONENT_OVERLOAD_(bool, rp_component_put_bool)
RP_COMPONENT_OVERLOAD_(char, rp_component_put_char)
RP_COMPONENT_OVERLOAD_(signed char, rp_component_put_i8)
RP_COMPONENT_OVERLOAD_(unsigned char, rp_component_put_u8)
RP_COMPONENT_OVERLOAD_(short, rp_component_put_i16)
RP_COMPONENT_OVERLOAD_(unsigned short, rp_component_put_u16)
RP_COMPONENT_OVERLOAD_(int, rp_component_put_i32)
RP_COMPONENT_OVERLOAD_(unsigned int, rp_component_put_u32)
RP_COMPONENT_OVERLOAD_(long, rp_component_put_i64)
RP_COMPONENT_OVERLOAD_(unsigned long, rp_component_put_u64)
RP_COMPONENT_OVERLOAD_(long long, rp_component_put_i64)
RP_COMPONENT_OVERLOAD_(unsigned long long, rp_component_put_u64)
RP_COMPONENT_OVERLOAD_(float, rp_component_put_f32)
RP_COMPONENT_OVERLOAD_(double, rp_component_put_f64)
RP_COMPONENT_OVERLOAD_(const char *, rp_component_put_text)
RP_COMPONENT_OVERLOAD_(const struct rp_guid *, rp_component_put_guid)
RP_COMPONENT_OVERLOAD_(const void *, rp_component_put_pointer)

#undef RP_COMPONENT_OVERLOAD_

}

#define RP_COMPONENT_PUT_(payload, name, value) rp_component_put(payload, name, value)
#else
/* int64_t is long or long long, and the other one has no function of its own. */
#define RP_COMPONENT_PUT_(payload, name, value) \
	_Generic((value), \
		 bool: rp_component_put_bool, \
		 char: rp_component_put_char, \
		 signed char: rp_component_put_i8, \
		 unsigned char: rp_component_put_u8, \
		 short: rp_component_put_i16, \
		 unsigned short: rp_component_put_u16, \
		 int: rp_component_put_i32, \
		 unsigned int: rp_component_put_u32, \
		 long: rp_component_put_i64, \
		 unsigned long: rp_component_put_u64, \
		 long long: rp_component_put_i64, \
		 unsigned long long: rp_component_put_u64, \
		 float: rp_component_put_f32, \
		 double: rp_component_put_f64, \
		 char *: rp_component_put_text, \
		 const char *: rp_component_put_text, \
		 struct rp_guid *: rp_component_put_guid, \
		 const struct rp_guid *: rp_component_put_guid, \
		 void *: rp_component_put_pointer, \
		 const void *: rp_component_put_pointer)(payload, name, value)
#endif

#endif
