/* SPDX-License-Identifier: MIT */
/*
 * Events. One macro declares an event, the compiler checks the types of its fields, and a disabled
 * event costs two instructions.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_EVENT(shop, order_placed, 1, RP_LEVEL_INFORMATIONAL, 0x1,
 *		 RP_U64(order_id), RP_STRING(customer), RP_F64(total));
 *
 *	shop_order_placed(id, customer, total);
 *	if (shop_order_placed_enabled()) ...
 *
 * These declarations may be in a header that many source files and libraries include. A file that
 * includes them and uses no event contains no code and no data of them. Each executable or shared
 * object that calls one of the event's functions contains one copy of the event's data and enable
 * word. The word is a hidden symbol, so a call site reads it without a GOT or COPY relocation. The
 * library treats the copies in all objects as one event. An object that only declares an event does
 * not register it. In C++ the declarations may be in a named namespace, but their symbols ignore
 * the namespace: `shop` is one provider in the whole program.
 */
#ifndef RINGPIPE_EVENT_H
#define RINGPIPE_EVENT_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

/*
 * If RP_STATIC_KEYS is 1, the call sites of events declared from here on have static keys. Such a
 * site is one instruction while the event is disabled, and a jump, a load and a branch while it is
 * enabled. The call that starts a session patches the sites. A thread of the library patches them
 * back within 100 ms after the session's end. By default, only code on AMD and Hygon processors is
 * patched; elsewhere a site is always a jump, a load and a branch. See libringpipe(7). On machines
 * other than x86-64, 1 means the same as 0. Define the macro before this header is included, or
 * redefine it between declarations to apply it to some events only.
 *
 * The library patches the sites one after the other. Until the call that starts a session returns,
 * `_enabled()` may return true while the site that writes the event is still off. After that call,
 * all sites are on, except in the cases that libringpipe(7) lists.
 */
#ifndef RP_STATIC_KEYS
#define RP_STATIC_KEYS 0
#endif

/*
 * Declares an event and its functions, in a source file or in a header:
 *	int <provider>_<event>(fields…)		writes the event; returns as rp_event_write()
 *	int <provider>_<event>_enabled(void)	whether a session or tracer wants the event
 * `id` is at most RP_EVENT_ID_MAX, or it is RP_EVENT_ID_AUTO. Events of one provider may share an
 * id if their versions differ. If two events have the same id and version, the library reports both
 * on standard error and ignores the second: give it another id. `id`, `level` and the keywords are
 * constants, and a message is a string literal. An event has up to 32 fields, of the kinds in the
 * table below; for an event without fields, end the macro's arguments after the keywords. An event
 * with keywords 0 passes the keyword mask of every session; the session's level and other filters
 * still apply to it.
 *
 * In a nettrace file, the events job_start and job_stop have the names jobStart and jobStop, as in
 * .NET. TraceEvent then shows job/Start and job/Stop, and finds the activity between them.
 *
 *	RP_BOOL RP_CHAR RP_I8 RP_U8 … RP_I64 RP_U64 RP_F32 RP_F64 RP_POINTER
 *	RP_TIME(n)			int64_t, nanoseconds since 1970 UTC
 *	RP_GUID(n)			const struct rp_guid *; NULL is all zeros
 *	RP_STRING(n)			const char *, UTF-8; NULL is ""
 *	RP_STRING_N(n)			const char *n, size_t n_bytes; ends at an embedded NUL
 *	RP_STRING16(n)			const rp_char16 *; NULL is u""
 *	RP_BLOB(n)			const void *n, size_t n_bytes
 *	RP_ARRAY(U32, n)		const uint32_t *n, size_t n_count
 *	RP_STRUCT_FIELD(tag, n)		const struct tag *n, of an RP_STRUCT(tag, …)
 *	RP_STRUCT_ARRAY(tag, n)		const struct tag *n, size_t n_count
 *	RP_ENUM_FIELD(tag, n)		int32_t, of an RP_ENUM(tag, …)
 *
 * RP_SECRET(RP_STRING(n)), or RP_SECRET around any other field, declares a redacted field. The
 * event's function replaces the value before it does anything else, so the value never leaves the
 * process and reaches no file, client, tracer or listener. A text becomes "***"; a number, GUID or
 * struct becomes zero; a blob or array becomes empty.
 */
#define RP_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, 0, RP_NULL_, 0, 0, \
		       __VA_ARGS__)

/*
 * Like RP_EVENT, but with named attributes, which are optional and may be in any order:
 *
 *	RP_EVENT_EX(shop, order_paid, (RP_LEVEL(RP_LEVEL_WARNING), RP_MESSAGE("{0} paid {1}")),
 *		    RP_STRING(customer), RP_F64(total));
 *
 *	attribute		default
 *	RP_ID(id)		RP_EVENT_ID_AUTO
 *	RP_VERSION(version)	0
 *	RP_LEVEL(level)		RP_LEVEL_INFORMATIONAL
 *	RP_KEYWORDS(keywords)	0
 *	RP_OPCODE(opcode)	RP_OPCODE_INFO
 *	RP_MESSAGE(text)	no message; in a message, {0} is the first field
 *	RP_FLAGS(flags)		0; see enum rp_event_flags
 *	RP_ONE_IN(n)		write all; with n: the first of each n events
 *	RP_PER_SECOND(n)	write all; with n: at most n in each second of CLOCK_MONOTONIC
 *
 * RP_ONE_IN and RP_PER_SECOND limit an event in the whole process, for all sessions and tracers. An
 * event that exceeds the limit is skipped: its function returns 0, and each session reports the
 * number of skipped events with the event EventsSkipped of the provider ringpipe.
 */
#define RP_EVENT_EX(provider, event, ...) \
	RP_CAT_(RP_EVENT_EX_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, event, __VA_ARGS__)

/*
 * Like RP_EVENT, for state that a reader needs in order to understand other events, such as the
 * configuration of the program. An overwriting session (RP_SESSION_OVERWRITE) never overwrites
 * state events, and each of its snapshots contains all of them, in order of time. They have an
 * eighth of the session's buffer. If it is full, further state events are lost and counted. In
 * other sessions, state events are ordinary events. A dynamic state event has RP_EVENT_STATE in its
 * flags.
 */
#define RP_STATE_EVENT(provider, event, id, level, ...) \
	RP_EVENT_EMIT_(provider, event, id, 0, level, RP_OPCODE_INFO, RP_EVENT_STATE, RP_NULL_, \
		       0, 0, __VA_ARGS__)

/*
 * Declares an event whose payload the caller lays out, for readers that know its layout from the
 * provider, id and version, such as TraceEvent's parsers of .NET's events. The attributes are those
 * of RP_EVENT_EX. The functions are:
 *	int <provider>_<event>_write(const struct rp_part *parts, unsigned int part_count)
 *	int <provider>_<event>_enabled(void)
 * Every session receives the bytes of the parts unchanged. `ringpipe gen` generates such events for
 * templates that the fields of RP_EVENT cannot express.
 *
 * Fields after the attributes, as in RP_EVENT_EX, describe the start of the payload to the readers
 * of a trace, which see no further fields. The payload has the layout of nettrace there: RP_BOOL is
 * 4 bytes, RP_GUID begins with numbers in the byte order of the machine, RP_TIME is in units of 100
 * ns since 1601, and RP_STRING is UTF-16. RP_SECRET is not allowed. Listeners and other tracers get
 * the payload without fields.
 */
#define RP_RAW_EVENT(provider, event, ...) \
	RP_CAT_(RP_RAW_EVENT_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, event, __VA_ARGS__)

/*
 * Declares `struct tag` for use in events. The struct is packed, and its members have a fixed size:
 * numbers, RP_GUID, RP_TIME, RP_POINTER, RP_ENUM_FIELD, and RP_STRUCT_FIELD of another struct.
 */
#define RP_STRUCT(tag, ...) RP_STRUCT_EMIT_(tag, __VA_ARGS__)

/*
 * Declares names for up to 32 constants of an enum, for RP_ENUM_FIELD. LTTng's traces show the name
 * next to the value. A value without a name is also valid. Elsewhere the field is an RP_I32.
 */
#define RP_ENUM(tag, ...) RP_ENUM_EMIT_(tag, __VA_ARGS__)

RP_BEGIN_DECLS

/*
 * Write one event. The payload is the concatenation of the parts, in the layout that the event's
 * fields define (types.h). The functions of declared events call this function; call it yourself
 * for dynamic events. If a dynamic event has fields with RP_FIELD_SECRET, the function replaces
 * their values and drops bytes after the last field.
 * @parts, @part_count: the pieces of the payload, which the call copies.
 *
 * Context: any thread, any signal handler, including a handler that interrupted malloc or this
 * function; not a vfork child. Does not allocate, wait or enter the kernel, with two exceptions. If
 * the drain thread sleeps and a ring is half full, the function makes one futex wake-up. If a
 * session has block_ms (session.h) and no space, the function waits for space after all other
 * sessions have the event. The wait is not a cancellation point.
 * Return: 0 if every session that wanted the event stored it in its buffers, or no session wanted
 * it; -ENOBUFS if at least one session lost the event because its buffer was full or busy;
 * -EMSGSIZE if the payload exceeds RP_PAYLOAD_MAX, or secrets have to be replaced in more than 256
 * parts. The session and its stream count lost events. After a result of 0, a session can still
 * lose the event: if its output fails (RP_LOSS_SINK), or if it stops during the call and the thread
 * does not run for more than a second (RP_LOSS_DAMAGED).
 */
RP_PUBLIC int rp_event_write(struct rp_event *event, const struct rp_part *parts,
			     unsigned int part_count);

/*
 * Decide whether to write a limited event now, and count it as skipped if not. A limited event has
 * `one_in` or `per_second` in its declaration. The functions of declared events call this function.
 * For a dynamic event, call it before rp_event_write().
 *
 * Context: any thread, any signal handler. Does not allocate or wait. Threads that call it for the
 * same event share a cache line.
 * Return: true if the event is to be written, or has no limit; false if it was skipped.
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
 * Create a dynamic event. The function copies everything in `decl`, including fields and strings,
 * and ignores decl->provider. The event exists until rp_event_destroy() or until its provider is
 * destroyed.
 *
 * Context: any thread, not a signal handler; may allocate.
 * Return: 0; -EINVAL if the name is empty or too long, the id is above RP_EVENT_ID_MAX and not
 * RP_EVENT_ID_AUTO, the level is above 5, a field has an invalid type, a member of a struct or a
 * field of an event with RP_EVENT_WIRE is secret, or there are more than RP_FIELDS_MAX fields;
 * -EEXIST if the provider already has an event of this id and version; -ENOMEM if an allocation
 * fails.
 */
RP_PUBLIC int rp_event_create(struct rp_provider *provider, const struct rp_event_decl *decl,
			      struct rp_event **ret_event);

/*
 * Destroy a dynamic event. No thread may write the event any more. Sessions still deliver the
 * events that were written before. NULL is allowed.
 *
 * Context: any thread, not a signal handler.
 */
RP_PUBLIC void rp_event_destroy(struct rp_event *event);

RP_END_DECLS

#endif
