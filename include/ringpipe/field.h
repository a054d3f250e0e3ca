/* SPDX-License-Identifier: MIT */
/*
 * Returns the values of the fields in a payload, from a listener or a reader:
 *
 *	struct rp_value value = RP_VALUE_INIT;
 *
 *	rp_listener_get_fields(event, &fields);
 *	while (rp_fields_next(&fields, &value) == 1) ...
 *
 * The payload is not trusted: a length or count beyond its end causes an error, not a crash.
 */
#ifndef RINGPIPE_FIELD_H
#define RINGPIPE_FIELD_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_listener_event;
struct rp_reader_event;

/* A walk over values. It needs no cleanup, and a copy continues from the same place. */
struct rp_fields {
	const uint8_t *at, *end;	/* all members are for the library only */
	const void *fields;
	uint32_t left;
	uint8_t layout;
	uint8_t repeats;
	uint8_t cut;
	uint8_t reserved;
	const uint8_t *payload, *payload_end;	/* it contains the located values */
};

/* One value. Pointers are valid as long as the event is. */
struct rp_value {
	uint32_t size;
	uint16_t count;			/* elements that an ARRAY declares */
	uint8_t type;			/* enum rp_type; NONE: opaque bytes */
	uint8_t element;		/* of an ARRAY */
	const char *name;		/* the field's; elements have their array's */
	/*
	 * The value's bytes in the payload: the text of a STRING without its NUL, the elements of
	 * an ARRAY, the members of a STRUCT. Unaligned.
	 */
	const void *bytes;
	size_t size_bytes;
	union {
		uint64_t u64;		/* BOOL (0 or 1), CHAR, U8 to U64, POINTER */
		int64_t i64;		/* I8 to I64; TIME: as written, from 1677 to 2262 */
		double f64;		/* F32 and F64 */
		struct rp_guid guid;	/* GUID */
	};
	struct rp_fields inner;		/* the elements or members; empty for other types */
};

#define RP_VALUE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_value, inner)
#define RP_VALUE_INIT RP_INIT_(struct rp_value)

/* Begin a walk over the fields of a listener's event. Context: any. */
RP_PUBLIC void rp_listener_get_fields(const struct rp_listener_event *event,
				      struct rp_fields *ret_fields);

/* Begin a walk over the fields of a reader's event. Context: any. */
RP_PUBLIC void rp_reader_get_fields(const struct rp_reader_event *event,
				    struct rp_fields *ret_fields);

/*
 * Return the next value. If the payload ends inside an ARRAY or STRUCT, the call returns the part
 * that exists, and the next call returns the error. Iterate over `value.inner` for elements or
 * members.
 *
 * Context: any; nothing is allocated.
 * Return: 1 with a value; 0 after the last; -EBADMSG, also from all later calls, if the payload is
 * shorter than its fields; -EINVAL if the size of `ret_value` is too small.
 */
RP_PUBLIC int rp_fields_next(struct rp_fields *fields, struct rp_value *ret_value);

/*
 * Find the next value with this name, without moving the iteration.
 * @name: the field's name.
 *
 * Context: any.
 * Return: 0; -ENOENT if there is none; -EBADMSG if the payload ends before it; -EINVAL if the size
 * of `ret_value` is too small.
 */
RP_PUBLIC int rp_fields_find(const struct rp_fields *fields, const char *name,
			     struct rp_value *ret_value);

/*
 * Copy the text of a STRING, STRING16 or CHAR as UTF-8. It is cut after a whole character if
 * necessary, and ends with a NUL if `space` is above 0. Invalid UTF-16 becomes U+FFFD; a STRING is
 * copied unchanged. The text of other types is "".
 * @text: `space` bytes for the copy.
 *
 * Context: any.
 * Return: the bytes of the whole text, without the NUL. The copy is cut if this is not below
 * `space`.
 */
RP_PUBLIC size_t rp_value_get_text(const struct rp_value *value, char *text, size_t space);

RP_END_DECLS

#endif
