/* SPDX-License-Identifier: MIT */
/*
 * Events: declared in one line, typed by the compiler, free while nobody listens.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_EVENT(shop, order_placed, 1, RP_LEVEL_INFORMATIONAL, 0x1,
 *		 RP_U64(order_id), RP_STRING(customer), RP_F64(total));
 *
 *	shop_order_placed(id, customer, total);
 *	if (shop_order_placed_enabled()) ...
 *
 * The lines may stand in a header that many files and libraries include. Each executable or shared
 * object that includes them gets an enable word of its own (hidden, so neither a GOT nor a COPY
 * relocation stands between the site and its word); the library knows them all as one event. In C++
 * they may stand in a namespace that has a name; the symbols do not: `shop` is one provider in all
 * of the program.
 */
#ifndef RINGPIPE_EVENT_H
#define RINGPIPE_EVENT_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

/*
 * 1: the sites of events declared from here on have static keys: one instruction while nobody
 * listens, and a jump, a load and a branch in its place while somebody does. A thread of the
 * library's changes them, see libringpipe(7): unasked on AMD's processors alone. On other machines
 * than x86-64 it is as 0. Define it before this header is included; or again, between declarations,
 * for some events.
 *
 * They are changed one after the other: until the start of a session returns, one that asks
 * `_enabled()` may say yes while the one that writes the event still passes by. Then all are on.
 */
#ifndef RP_STATIC_KEYS
#define RP_STATIC_KEYS 0
#endif

/*
 * Declares an event and its functions, in a file or in a header:
 *	int <provider>_<event>(fields…)		writes it; returns as rp_event_write()
 *	int <provider>_<event>_enabled(void)	whether it is worth preparing costly arguments
 * `id` is unique in the provider, up to 65,535. Up to 32 fields, of the kinds in the table; without
 * a field, end after the keywords. Keywords 0: in every session of the provider.
 *
 *	RP_BOOL RP_CHAR RP_I8 RP_U8 … RP_I64 RP_U64 RP_F32 RP_F64 RP_POINTER
 *	RP_TIME(n)			int64_t, nanoseconds since 1970 UTC
 *	RP_GUID(n)			const struct rp_guid *; NULL is all zeros
 *	RP_STRING(n)			const char *, UTF-8; NULL is ""
 *	RP_STRING16(n)			const rp_char16 *; NULL is u""
 *	RP_BLOB(n)			const void *n, size_t n_bytes
 *	RP_ARRAY(U32, n)		const uint32_t *n, size_t n_count
 *	RP_STRUCT_FIELD(tag, n)		const struct tag *n, of an RP_STRUCT(tag, …)
 *	RP_STRUCT_ARRAY(tag, n)		const struct tag *n, size_t n_count
 *	RP_ENUM_FIELD(tag, n)		int32_t, of an RP_ENUM(tag, …)
 *
 * RP_SECRET(RP_STRING(n)), and so for any of them: a field whose value nobody gets to see, neither
 * a file nor a client, another tracer or a listener, since the event's function forgets it before
 * it does anything else. A text is "***" then, a number, GUID or struct zero; a blob or array is
 * empty.
 */
#define RP_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, 0, RP_NULL_, __VA_ARGS__)

/* The same with a version, an opcode and a message ("{0} paid {1}", or NULL). */
#define RP_EVENT_EX(provider, event, id, version, level, opcode, message, ...) \
	RP_EVENT_EMIT_(provider, event, id, version, level, opcode, 0, message, __VA_ARGS__)

/*
 * As RP_EVENT, for what has to be known to understand the rest: how the program was started, which
 * configuration it took. A session that overwrites (RP_SESSION_OVERWRITE) keeps it, so that each
 * snapshot begins with all of it, and in all other sessions it is an event as any. One made at run
 * time has RP_EVENT_STATE in its flags.
 */
#define RP_STATE_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, RP_EVENT_STATE, RP_NULL_, \
		       __VA_ARGS__)

/*
 * Declares `struct tag` for use in events: packed, of fixed-size members (numbers, RP_GUID,
 * RP_TIME, RP_POINTER, RP_STRUCT_FIELD of another, RP_ENUM_FIELD).
 */
#define RP_STRUCT(tag, ...) RP_STRUCT_EMIT_(tag, __VA_ARGS__)

/*
 * Gives up to 32 constants of an enum of the program's their names, for RP_ENUM_FIELD. LTTng's
 * traces have them beside the value, which may be any; everywhere else the field is an RP_I32.
 */
#define RP_ENUM(tag, ...) RP_ENUM_EMIT_(tag, __VA_ARGS__)

RP_BEGIN_DECLS

/*
 * Writes one event whose payload is the parts, one after another, laid out as the event's fields
 * say (types.h). Generated functions call it; call it yourself for events made at run time. Where
 * those have fields marked RP_FIELD_SECRET, their values are replaced on the way, and what comes
 * after the last field is left out.
 *
 * Context: any thread, any signal handler, also one that interrupted malloc or this function. Does
 * not allocate, wait or enter the kernel, but for one futex wake-up when a sleeping drain thread
 * has a ring half full; and for room, where a session asks for that (block_ms in session.h) and
 * all others have the event. That is no cancellation point. Not in a vfork child.
 * Return: 0 when every session that wanted the event has it, or none did; -ENOBUFS when at least
 * one lost it for want of room, -EMSGSIZE when the payload exceeds RP_PAYLOAD_MAX, or 256 parts
 * where secrets are replaced. What is lost is counted, in the session and in its stream.
 */
RP_PUBLIC int rp_event_write(struct rp_event *event, const struct rp_part *parts,
			     unsigned int part_count);

/* Whether anyone, in this process or in the kernel, wants the event. Context: any. */
static inline int rp_event_enabled(const struct rp_event *event)
{
	return __atomic_load_n(&event->enable, __ATOMIC_RELAXED) != 0;
}

/*
 * Makes an event at run time. Everything in `decl`, fields and strings included, is copied.
 * decl->provider is not looked at. The event lives until rp_event_destroy() or the end of its
 * provider.
 *
 * Context: any thread, not a signal handler; may allocate.
 * Return: 0; -EINVAL for an empty or over-long name, an id above 65,535, a level above 5, a field
 * whose type cannot be, a secret inside a struct, or more than RP_FIELDS_MAX fields; -EEXIST when
 * the provider has another event of this id; -ENOMEM.
 */
RP_PUBLIC int rp_event_create(struct rp_provider *provider, const struct rp_event_decl *decl,
			      struct rp_event **ret_event);

/*
 * Takes an event made at run time back. What was written is still delivered. No thread may write
 * the event any more. NULL is fine.
 *
 * Context: any thread, not a signal handler.
 */
RP_PUBLIC void rp_event_destroy(struct rp_event *event);

RP_END_DECLS

#endif
