/* SPDX-License-Identifier: MIT */
/*
 * Events: declared in one line, typed by the compiler, free while disabled.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_EVENT(shop, order_placed, 1, RP_LEVEL_INFORMATIONAL, 0x1,
 *		 RP_U64(order_id), RP_STRING(customer), RP_F64(total));
 *
 *	shop_order_placed(id, customer, total);
 *	if (shop_order_placed_enabled()) ...
 *
 * The lines may be in a header that many files and libraries include. A file that includes them and
 * uses no event gets no code or data. Each executable or shared object that uses an event, by
 * either of its functions, contains its data once, with its own enable word (hidden, so that no GOT
 * or COPY relocation is between the site and its word). The library treats all of them as one
 * event. An object that only declares an event does not register it. In C++ the lines may be in a
 * named namespace, but the symbols are not: `shop` is one provider in the whole program.
 */
#ifndef RINGPIPE_EVENT_H
#define RINGPIPE_EVENT_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

/*
 * If 1, the sites of events declared from here on have static keys: one instruction while the event
 * is disabled, and a jump, a load and a branch while it is enabled. A thread of the library changes
 * the sites, see libringpipe(7); by default only on AMD processors. On machines other than x86-64,
 * 1 means the same as 0. Define it before this header is included, or redefine it between
 * declarations for some events only.
 *
 * Sites are changed one after the other. Until the start of a session returns, `_enabled()` may
 * return true while the site that writes the event is still off. Afterwards all sites are on.
 */
#ifndef RP_STATIC_KEYS
#define RP_STATIC_KEYS 0
#endif

/*
 * Declares an event and its functions, in a file or in a header:
 *	int <provider>_<event>(fields…)		writes it; returns as rp_event_write()
 *	int <provider>_<event>_enabled(void)	whether it is worth preparing costly arguments
 * `id` is unique in the provider, up to RP_EVENT_ID_MAX, or RP_EVENT_ID_AUTO. If two events have
 * one id, the library reports both on standard error and leaves out the second: give it another id.
 * `id` and what follows up to the keywords are constants, and a message is a string literal. Up to
 * 32 fields, of the kinds in the table; without a field, end after the keywords. Keywords 0: in
 * every session of the provider.
 *
 * A nettrace file names the events job_start and job_stop jobStart and jobStop, as .NET does:
 * TraceEvent then shows job/Start and job/Stop and finds the activity between them.
 *
 *	RP_BOOL RP_CHAR RP_I8 RP_U8 … RP_I64 RP_U64 RP_F32 RP_F64 RP_POINTER
 *	RP_TIME(n)			int64_t, nanoseconds since 1970 UTC
 *	RP_GUID(n)			const struct rp_guid *; NULL is all zeros
 *	RP_STRING(n)			const char *, UTF-8; NULL is ""
 *	RP_STRING_N(n)			const char *n, size_t n_bytes; ends at a NUL inside
 *	RP_STRING16(n)			const rp_char16 *; NULL is u""
 *	RP_BLOB(n)			const void *n, size_t n_bytes
 *	RP_ARRAY(U32, n)		const uint32_t *n, size_t n_count
 *	RP_STRUCT_FIELD(tag, n)		const struct tag *n, of an RP_STRUCT(tag, …)
 *	RP_STRUCT_ARRAY(tag, n)		const struct tag *n, size_t n_count
 *	RP_ENUM_FIELD(tag, n)		int32_t, of an RP_ENUM(tag, …)
 *
 * RP_SECRET(RP_STRING(n)), or around any other field, declares a redacted field: its value never
 * leaves the process and reaches no file, client, tracer or listener, because the event's function
 * drops it first. A text becomes "***", a number, GUID or struct zero, a blob or array empty.
 */
#define RP_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, 0, RP_NULL_, 0, 0, \
		       __VA_ARGS__)

/*
 * The same with attributes by name, in any order, each of which may be left out:
 *
 *	RP_EVENT_EX(shop, order_paid, (RP_LEVEL(RP_LEVEL_WARNING), RP_MESSAGE("{0} paid {1}")),
 *		    RP_STRING(customer), RP_F64(total));
 *
 *	RP_ID(id)		RP_EVENT_ID_AUTO
 *	RP_VERSION(version)	0
 *	RP_LEVEL(level)		RP_LEVEL_INFORMATIONAL
 *	RP_KEYWORDS(keywords)	0
 *	RP_OPCODE(opcode)	RP_OPCODE_INFO
 *	RP_MESSAGE(text)	none; {0} is the first field
 *	RP_FLAGS(flags)		0; enum rp_event_flags
 *	RP_ONE_IN(n)		all; else the first of each n
 *	RP_PER_SECOND(n)	all; else at most n in each second of CLOCK_MONOTONIC
 *
 * The last two limit an event in the whole process, for all sessions and tracers. An event that
 * they leave out is skipped: its function returns 0, and each session reports the number of them
 * with the event EventsSkipped of the provider ringpipe.
 */
#define RP_EVENT_EX(provider, event, ...) \
	RP_CAT_(RP_EVENT_EX_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, event, __VA_ARGS__)

/*
 * Like RP_EVENT, for state that a reader needs in order to understand other events: how the program
 * was started, which configuration it uses. An overwriting session (RP_SESSION_OVERWRITE) never
 * discards state events, and each snapshot begins with all of them. In other sessions, they are
 * ordinary events. A dynamic state event has RP_EVENT_STATE in its flags.
 */
#define RP_STATE_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, RP_EVENT_STATE, RP_NULL_, \
		       0, 0, __VA_ARGS__)

/*
 * Declares `struct tag` for use in events: packed, of fixed-size members (numbers, RP_GUID,
 * RP_TIME, RP_POINTER, RP_STRUCT_FIELD of another, RP_ENUM_FIELD).
 */
#define RP_STRUCT(tag, ...) RP_STRUCT_EMIT_(tag, __VA_ARGS__)

/*
 * Names up to 32 constants of an enum, for RP_ENUM_FIELD. LTTng's traces show the name with the
 * value, which may also be another number. Elsewhere the field is an RP_I32.
 */
#define RP_ENUM(tag, ...) RP_ENUM_EMIT_(tag, __VA_ARGS__)

RP_BEGIN_DECLS

/*
 * Write one event. The payload is the concatenation of the parts, laid out as the event's fields
 * require (types.h). Generated functions call this; call it yourself for dynamic events. If those
 * have fields with RP_FIELD_SECRET, their values are replaced, and bytes after the last field are
 * left out.
 * @parts, @part_count: the pieces of the payload, which the call copies.
 *
 * Context: any thread, any signal handler, also one that interrupted malloc or this function. Does
 * not allocate, wait or enter the kernel, with two exceptions: one futex wake-up if the drain
 * thread sleeps and a ring is half full, and a wait for space if a session requests it (block_ms in
 * session.h), after all other sessions have the event. The wait is no cancellation point. Not in a
 * vfork child.
 * Return: 0 if every session that wanted the event has it, or none wanted it; -ENOBUFS if at least
 * one session lost it for lack of space; -EMSGSIZE if the payload exceeds RP_PAYLOAD_MAX, or has
 * more than 256 parts where secrets are replaced. Lost events are counted in the session and its
 * stream.
 */
RP_PUBLIC int rp_event_write(struct rp_event *event, const struct rp_part *parts,
			     unsigned int part_count);

/*
 * Decide whether to write a limited event now, and count it as skipped if not. A limited event has
 * `one_in` or `per_second` in its declaration. The functions of declared events call this. Call it
 * before rp_event_write() for a dynamic one.
 *
 * Context: any thread, any signal handler. Does not allocate or wait. Threads that call it for one
 * event share a cache line.
 * Return: whether to write it; true for an event without a limit.
 */
RP_PUBLIC bool rp_event_admit(struct rp_event *event);

/*
 * Return whether a session, or a tracer in the kernel, wants the event.
 *
 * Context: any thread, any signal handler; one load.
 * Return: 1 or 0.
 */
static inline int rp_event_enabled(const struct rp_event *event)
{
	return __atomic_load_n(&event->enable, __ATOMIC_RELAXED) != 0;
}

/*
 * Create a dynamic event. Everything in `decl`, fields and strings included, is copied;
 * decl->provider is ignored. The event exists until rp_event_destroy() or the end of its provider.
 *
 * Context: any thread, not a signal handler; may allocate.
 * Return: 0; -EINVAL for an empty or over-long name, an id above RP_EVENT_ID_MAX other than
 * RP_EVENT_ID_AUTO, a level above 5, a field of an invalid type, a secret inside a struct, or more
 * than RP_FIELDS_MAX fields; -EEXIST when the provider has another event of this id; -ENOMEM.
 */
RP_PUBLIC int rp_event_create(struct rp_provider *provider, const struct rp_event_decl *decl,
			      struct rp_event **ret_event);

/*
 * Destroy a dynamic event. Events written before are still delivered. No thread may write the
 * event any more. NULL is allowed.
 *
 * Context: any thread, not a signal handler.
 */
RP_PUBLIC void rp_event_destroy(struct rp_event *event);

RP_END_DECLS

#endif
