/* SPDX-License-Identifier: MIT */
/* Declared once, for all files of notes_test.py. No file fires `notes_idle`. */
#ifndef NOTES_H
#define NOTES_H

#include <ringpipe/ringpipe.h>

RP_STRUCT(notes_point, RP_I32(x), RP_I32(y));

RP_PROVIDER(notes, "Notes-Of-Events");
RP_EVENT(notes, bare, 1, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(notes, integers, 2, RP_LEVEL_INFORMATIONAL, 0, RP_I8(a), RP_U8(b), RP_I16(c), RP_U16(d),
	 RP_I32(e), RP_U32(f), RP_I64(g), RP_U64(h));
RP_EVENT(notes, others, 3, RP_LEVEL_INFORMATIONAL, 0, RP_BOOL(a), RP_CHAR(b), RP_F32(c), RP_F64(d),
	 RP_POINTER(e), RP_TIME(f), RP_GUID(g), RP_STRING(h), RP_STRING16(i));
RP_EVENT(notes, pairs, 4, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(a), RP_ARRAY(I16, b),
	 RP_STRUCT_FIELD(notes_point, c), RP_STRUCT_ARRAY(notes_point, d));
RP_EVENT(notes, twelve, 5, RP_LEVEL_INFORMATIONAL, 0, RP_I32(a), RP_I32(b), RP_I32(c), RP_I32(d),
	 RP_I32(e), RP_I32(f), RP_I32(g), RP_I32(h), RP_I32(i), RP_I32(j), RP_I32(k), RP_U8(l));
RP_EVENT(notes, thirteen, 6, RP_LEVEL_INFORMATIONAL, 0, RP_I32(a), RP_I32(b), RP_I32(c), RP_I32(d),
	 RP_I32(e), RP_I32(f), RP_I32(g), RP_I32(h), RP_I32(i), RP_I32(j), RP_I32(k), RP_U8(l),
	 RP_U8(m));
RP_EVENT(notes, secrets, 8, RP_LEVEL_INFORMATIONAL, 0, RP_SECRET(RP_I16(a)),
	 RP_SECRET(RP_STRING(b)), RP_SECRET(RP_BLOB(c)), RP_U8(d));
RP_EVENT(notes, lengths, 9, RP_LEVEL_INFORMATIONAL, 0, RP_STRING_N(a), RP_SECRET(RP_STRING_N(b)),
	 RP_U8(c));
RP_EVENT(notes, idle, 7, RP_LEVEL_INFORMATIONAL, 0, RP_U8(a));

static inline int fire_all(const void *address, size_t count)
{
	return notes_bare() + notes_integers(-1, 2, -3, 4, -5, 6, -7, count) +
	       notes_others(true, 'b', 1.5f, 2.5, address, 3, NULL, "text", NULL) +
	       notes_pairs(address, count, NULL, 0, NULL, NULL, 0) +
	       notes_secrets(-1, "text", address, count, 1) +
	       notes_lengths("text", count, NULL, 0, 1) +
	       notes_twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) +
	       notes_thirteen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13);
}

#endif
