/* SPDX-License-Identifier: MIT */
/*
 * Fields of events. Each field is a tuple (kind, …). Each table below expands the tuple by its
 * kind: as a parameter, an argument, a number of bytes, a description, and so on.
 */
#ifndef RINGPIPE_DETAIL_KINDS_H
#define RINGPIPE_DETAIL_KINDS_H

#include <ringpipe/detail/attributes.h>
#include <ringpipe/detail/layout.h>
#include <ringpipe/detail/map.h>

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
#define RP_STRING_N(n) (STRING_N, n)			/* const char *, size_t n_bytes */
#define RP_STRING16(n) (STRING16, n)			/* const rp_char16 *, NULL is u"" */
#define RP_BLOB(n) (BLOB, n)				/* const void *, size_t n_bytes */
#define RP_ARRAY(type, n) (ARRAY, type, n)		/* const T *, size_t n_count */
#define RP_STRUCT_FIELD(tag, n) (STRUCT, tag, n)	/* const struct tag * */
#define RP_STRUCT_ARRAY(tag, n) (STRUCTS, tag, n)	/* const struct tag *, size_t n_count */
#define RP_ENUM_FIELD(tag, n) (ENUM_, tag, n)		/* int32_t, of an RP_ENUM(tag, …) */
#define RP_SECRET(field) (SECRET_, field)		/* any of these fields */

/* Applies a table to the field inside RP_SECRET. */
#define RP_WITHIN_(table, ...) RP_WITHIN_I_(table, __VA_ARGS__)
#define RP_WITHIN_I_(table, kind, ...) table##kind(__VA_ARGS__)

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

/* Fields as parameters of the event's function. */
#define RP_PARAM_(t) RP_PARAM_I_ t
#define RP_PARAM_I_(kind, ...) RP_PARAM_##kind(__VA_ARGS__)
#define RP_PARAM_SCALAR(T, n) RP_CTYPE_##T n
#define RP_PARAM_GUID(n) const struct rp_guid *n
#define RP_PARAM_STRING(n) const char *n
#define RP_PARAM_STRING_N(n) const char *n, size_t n##_bytes
#define RP_PARAM_STRING16(n) const rp_char16 *n
#define RP_PARAM_BLOB(n) const void *n, size_t n##_bytes
#define RP_PARAM_ARRAY(T, n) const RP_CTYPE_##T *n, size_t n##_count
#define RP_PARAM_STRUCT(tag, n) const struct tag *n
#define RP_PARAM_STRUCTS(tag, n) const struct tag *n, size_t n##_count
#define RP_PARAM_ENUM_(tag, n) int32_t n
#define RP_PARAM_SECRET_(t) RP_WITHIN_(RP_PARAM_, RP_BARE_ t)

/* Fields as arguments that one function passes to the next. */
#define RP_ARG_(t) RP_ARG_I_ t
#define RP_ARG_I_(kind, ...) RP_ARG_##kind(__VA_ARGS__)
#define RP_ARG_SCALAR(T, n) n
#define RP_ARG_GUID(n) n
#define RP_ARG_STRING(n) n
#define RP_ARG_STRING_N(n) n, n##_bytes
#define RP_ARG_STRING16(n) n
#define RP_ARG_BLOB(n) n, n##_bytes
#define RP_ARG_ARRAY(T, n) n, n##_count
#define RP_ARG_STRUCT(tag, n) n
#define RP_ARG_STRUCTS(tag, n) n, n##_count
#define RP_ARG_ENUM_(tag, n) n
#define RP_ARG_SECRET_(t) RP_WITHIN_(RP_ARG_, RP_BARE_ t)

/*
 * Statements that overwrite the values of secret fields before anything else. Other fields expand
 * to nothing.
 */
#define RP_FORGET_(t) RP_FORGET_I_ t
#define RP_FORGET_I_(kind, ...) RP_FORGET_##kind(__VA_ARGS__)
#define RP_FORGET_SCALAR(T, n)
#define RP_FORGET_GUID(n)
#define RP_FORGET_STRING(n)
#define RP_FORGET_STRING_N(n)
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
#define RP_REDACT_STRING_N(n) n = "***", n##_bytes = 3;
#define RP_REDACT_STRING16(n) n = rp_redacted16_();
#define RP_REDACT_BLOB(n) n = RP_NULL_, n##_bytes = 0;
#define RP_REDACT_ARRAY(T, n) n = RP_NULL_, n##_count = 0;
#define RP_REDACT_STRUCT(tag, n) n = RP_NULL_;
#define RP_REDACT_STRUCTS(tag, n) n = RP_NULL_, n##_count = 0;
#define RP_REDACT_ENUM_(tag, n) n = 0;

/* The bytes of a field in the buffer that gathers small fields. */
#define RP_SPACE_(t) RP_SPACE_I_ t
#define RP_SPACE_I_(kind, ...) RP_SPACE_##kind(__VA_ARGS__)
#define RP_SPACE_SCALAR(T, n) + sizeof(RP_CTYPE_##T)
#define RP_SPACE_GUID(n) + sizeof(struct rp_guid)
#define RP_SPACE_STRING(n)
#define RP_SPACE_STRING_N(n) + 1
#define RP_SPACE_STRING16(n)
#define RP_SPACE_BLOB(n) + 2
#define RP_SPACE_ARRAY(T, n) + 2
#define RP_SPACE_STRUCT(tag, n) + sizeof(struct tag)
#define RP_SPACE_STRUCTS(tag, n) + 2
#define RP_SPACE_ENUM_(tag, n) + sizeof(int32_t)
#define RP_SPACE_SECRET_(t) RP_WITHIN_(RP_SPACE_, RP_BARE_ t)

/* 1 for a field whose bytes are outside the buffer and have a variable number. */
#define RP_VARIES_(t) RP_VARIES_I_ t
#define RP_VARIES_I_(kind, ...) RP_VARIES_##kind(__VA_ARGS__)
#define RP_VARIES_SCALAR(T, n)
#define RP_VARIES_GUID(n)
#define RP_VARIES_STRING(n) + 1
#define RP_VARIES_STRING_N(n) + 1
#define RP_VARIES_STRING16(n) + 1
#define RP_VARIES_BLOB(n) + 1
#define RP_VARIES_ARRAY(T, n) + 1
#define RP_VARIES_STRUCT(tag, n)
#define RP_VARIES_STRUCTS(tag, n) + 1
#define RP_VARIES_ENUM_(tag, n)
#define RP_VARIES_SECRET_(t) RP_WITHIN_(RP_VARIES_, RP_BARE_ t)

/* Whether the payload fits into the registers for arguments. */
#define RP_REGS_BYTES_ 32
#define RP_IS_REGS_(...) \
	((0 RP_MAP_(RP_VARIES_, RP_NOTHING_, __VA_ARGS__)) == 0 && \
	 (0 RP_MAP_(RP_SPACE_, RP_NOTHING_, __VA_ARGS__)) <= RP_REGS_BYTES_)

/* Calls that append a field to the payload. */
#define RP_PUT_(t) RP_PUT_I_ t
#define RP_PUT_I_(kind, ...) RP_PUT_##kind(__VA_ARGS__)
#define RP_PUT_SCALAR(T, n) rp_pack_copy_(&pack_, &n, sizeof(n));
#define RP_PUT_GUID(n) rp_pack_copy_(&pack_, n, sizeof(struct rp_guid));
#define RP_PUT_STRING(n) \
	rp_pack_refer_(&pack_, n ? n : "", n ? strlen(n) + 1 : 1);
#define RP_PUT_STRING_N(n) rp_pack_text_(&pack_, n, n##_bytes);
#define RP_PUT_STRING16(n) \
	rp_pack_refer_(&pack_, n ? n : rp_empty16_(), n ? rp_string16_bytes_(n) : 2);
#define RP_PUT_BLOB(n) rp_pack_array_(&pack_, n, n##_bytes, 1);
#define RP_PUT_ARRAY(T, n) rp_pack_array_(&pack_, n, n##_count, sizeof(*n));
#define RP_PUT_STRUCT(tag, n) rp_pack_copy_(&pack_, n, sizeof(*n));
#define RP_PUT_STRUCTS(tag, n) rp_pack_array_(&pack_, n, n##_count, sizeof(*n));
#define RP_PUT_ENUM_(tag, n) rp_pack_copy_(&pack_, &n, sizeof(n));
#define RP_PUT_SECRET_(t) RP_WITHIN_(RP_PUT_, RP_BARE_ t)

/* Fields as the members of struct rp_field; `f` contains the flags. */
#define RP_DESC_(t) RP_DESC_I_ t
#define RP_DESC_I_(kind, ...) RP_DESC_##kind(0, __VA_ARGS__)
#define RP_DESC_SCALAR(f, T, n) #n, RP_NULL_, 0, RP_TYPE_##T, 0, f, RP_NULL_
#define RP_DESC_GUID(f, n) #n, RP_NULL_, 0, RP_TYPE_GUID, 0, f, RP_NULL_
#define RP_DESC_STRING(f, n) #n, RP_NULL_, 0, RP_TYPE_STRING, 0, f, RP_NULL_
#define RP_DESC_STRING_N(f, n) #n, RP_NULL_, 0, RP_TYPE_STRING, 0, f, RP_NULL_
#define RP_DESC_STRING16(f, n) #n, RP_NULL_, 0, RP_TYPE_STRING16, 0, f, RP_NULL_
#define RP_DESC_BLOB(f, n) #n, RP_NULL_, 0, RP_TYPE_ARRAY, RP_TYPE_U8, f, RP_NULL_
#define RP_DESC_ARRAY(f, T, n) #n, RP_NULL_, 0, RP_TYPE_ARRAY, RP_TYPE_##T, f, RP_NULL_
#define RP_DESC_STRUCT(f, tag, n) \
	#n, tag##_fields_, sizeof(tag##_fields_) / sizeof(tag##_fields_[0]), RP_TYPE_STRUCT, 0, \
	f, RP_NULL_
#define RP_DESC_STRUCTS(f, tag, n) \
	#n, tag##_fields_, sizeof(tag##_fields_) / sizeof(tag##_fields_[0]), RP_TYPE_ARRAY, \
	RP_TYPE_STRUCT, f, RP_NULL_
#define RP_DESC_ENUM_(f, tag, n) #n, RP_NULL_, 0, RP_TYPE_I32, 0, f, &tag##_enumeration_
#define RP_DESC_SECRET_(f, t) RP_DESC_SECRET_I_ t
#define RP_DESC_SECRET_I_(kind, ...) RP_DESC_##kind(RP_FIELD_SECRET, __VA_ARGS__)

/*
 * Fields as members of a struct. Only fixed-size types are allowed, and RP_SECRET is not, because a
 * secret is a whole field.
 */
#define RP_MEMBER_(t) RP_MEMBER_I_ t
#define RP_MEMBER_I_(kind, ...) RP_MEMBER_##kind(__VA_ARGS__)
#define RP_MEMBER_SCALAR(T, n) RP_CTYPE_##T n;
#define RP_MEMBER_GUID(n) struct rp_guid n;
#define RP_MEMBER_STRUCT(tag, n) struct tag n;
#define RP_MEMBER_ENUM_(tag, n) int32_t n;

#endif
