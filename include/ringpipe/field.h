/* SPDX-License-Identifier: MIT */
/*
 * Payloads taken apart by their fields, whether a listener or a reader gave them:
 *
 *	rp_listener_get_fields(event, &fields);
 *	while (rp_fields_next(&fields, &value) == 1) ...
 *
 * Nothing in a payload is believed: a length or count beyond its end gives an error, not a crash.
 */
#ifndef RINGPIPE_FIELD_H
#define RINGPIPE_FIELD_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_listener_event;
struct rp_reader_event;

/* A walk over values. On the caller's stack; a copy goes on from the same place. */
struct rp_fields {
	const uint8_t *at, *end;	/* all members are the library's own business */
	const void *fields;
	uint32_t left;
	uint8_t layout;
	uint8_t repeats;
	uint8_t cut;
	uint8_t reserved;
};

/* One value. Pointers are valid as long as the event is. */
struct rp_value {
	const char *name;		/* the field's; elements have their array's */
	/*
	 * What the value takes up, as the payload has it: of a STRING the text without its NUL, of
	 * an ARRAY the elements, of a STRUCT the members. Unaligned.
	 */
	const void *bytes;
	size_t size_bytes;
	uint16_t count;			/* elements that an ARRAY says it has */
	uint8_t type;			/* enum rp_type; NONE: nothing but bytes */
	uint8_t element;		/* of an ARRAY */
	uint32_t reserved;
	union {
		uint64_t u64;		/* BOOL (0 or 1), CHAR, U8 to U64, POINTER */
		int64_t i64;		/* I8 to I64; TIME: as written, from 1677 to 2262 */
		double f64;		/* F32 and F64 */
		struct rp_guid guid;	/* GUID */
	};
	struct rp_fields inner;		/* the elements or members; empty for other types */
};

/* Begins a walk over an event's fields. Context: any. */
RP_PUBLIC void rp_listener_get_fields(const struct rp_listener_event *event,
				      struct rp_fields *ret_fields);
RP_PUBLIC void rp_reader_get_fields(const struct rp_reader_event *event,
				    struct rp_fields *ret_fields);

/*
 * The next value. An ARRAY or STRUCT that the payload's end cuts short is given with what is there,
 * the error comes after it. A walk over `value.inner` goes on inside.
 *
 * Context: any; nothing is allocated.
 * Return: 1 with a value; 0 after the last; -EBADMSG, then and for ever: the payload ends before
 * its description does.
 */
RP_PUBLIC int rp_fields_next(struct rp_fields *fields, struct rp_value *ret_value);

/*
 * The first of the values still to come that has this name; the walk itself stays where it is.
 *
 * Context: any.
 * Return: 0; -ENOENT; -EBADMSG when the payload ends before it.
 */
RP_PUBLIC int rp_fields_find(const struct rp_fields *fields, const char *name,
			     struct rp_value *ret_value);

/*
 * Copies the text of a STRING, STRING16 or CHAR as UTF-8, cut at the end of a character where it
 * has to be, and a NUL if `room` is above 0. What is no valid UTF-16 becomes U+FFFD; a STRING is
 * copied as written. Other types have the text "".
 *
 * Context: any.
 * Return: the bytes of the whole text, without the NUL; cut when that is not below `room`.
 */
RP_PUBLIC size_t rp_value_get_text(const struct rp_value *value, char *text, size_t room);

RP_END_DECLS

#endif
