/* SPDX-License-Identifier: MIT */
/*
 * A span is a piece of work with a start event, a stop event and an activity between them.
 *
 *	RP_SPAN(shop, checkout, RP_U64(order_id));
 *
 *	RP_SPAN_SCOPE(shop, checkout, order_id);	until the end of the block
 *
 *	shop_checkout_begin(&request->span, order_id);	until a later call, on any thread:
 *	...
 *	shop_checkout_end(&request->span);
 *
 * The start event is checkout_start and contains the fields. The stop event is checkout_stop and
 * contains the duration. The activity id of both is that of the span, and their related id is that
 * of the activity in which the span began, so spans nest. In nettrace files the names are
 * checkoutStart and checkoutStop, which TraceEvent pairs.
 */
#ifndef RINGPIPE_SPAN_H
#define RINGPIPE_SPAN_H

#include <ringpipe/activity.h>
#include <ringpipe/event.h>
#include <ringpipe/types.h>

/*
 * A span that has begun. If begun_ns is 0, no session wanted the span, and its end writes nothing.
 */
struct rp_span {
	struct rp_activity activity;
	uint64_t begun_ns;		/* CLOCK_MONOTONIC */
};

/* A span whose activity is the thread's current activity until the end of a block. */
struct rp_span_scope {
	struct rp_span span;
	struct rp_activity outer;
};

/*
 * Declares a span with up to 32 fields, in a source file or in a header, and its functions:
 *	void <provider>_<span>_begin(struct rp_span *span, fields…)
 *	void <provider>_<span>_end(struct rp_span *span)
 * `begin` writes the start event if any session or other tracer wants one of the two events. `end`
 * writes the stop event if `begin` wrote the start event; a second call of `end` does nothing.
 * Neither function changes the activity ids of the thread: to give the span's ids to other events,
 * call rp_activity_set(&span.activity). Context and cost are those of an event. While no session
 * and no other tracer wants the span, `begin` costs two loads and a branch, and `end` a branch.
 *
 * RP_SPAN_EX accepts the attributes of RP_EVENT_EX except RP_OPCODE, RP_ONE_IN and RP_PER_SECOND.
 * RP_ID is the id of the start event; the id of the stop event is one higher. RP_MESSAGE is the
 * message of the start event.
 */
#define RP_SPAN(provider, ...) \
	RP_CAT_(RP_SPAN_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, __VA_ARGS__)
#define RP_SPAN_EX(provider, span, ...) \
	RP_CAT_(RP_SPAN_EX_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, span, __VA_ARGS__)

/*
 * Begins a span that ends when control leaves the block, except by longjmp(3) or by the end of the
 * thread. Until then, the span's activity is the current activity of the thread. The arguments
 * after the span's name are the values of its fields. The macro expands to a declaration, so use it
 * where a declaration is allowed.
 */
#define RP_SPAN_SCOPE(provider, ...) \
	RP_CAT_(RP_SPAN_SCOPE_, RP_ARITY_(__VA_ARGS__))(provider, __VA_ARGS__)

RP_BEGIN_DECLS

/*
 * Begin a span as a child of the current activity. The function stores the thread's ids in
 * `ret_outer` and makes the ids of the span current. The functions of declared spans call this
 * function.
 *
 * Context: any thread, any signal handler.
 */
RP_PUBLIC void rp_span_begin(struct rp_span *ret_span, struct rp_activity *ret_outer);

/*
 * End a span. The function stores the thread's ids in `ret_outer` and makes the ids of the span
 * current. The functions of declared spans call this function.
 *
 * Context: any thread, any signal handler.
 * Return: the time since the span began, in nanoseconds.
 */
RP_PUBLIC uint64_t rp_span_end(struct rp_span *span, struct rp_activity *ret_outer);

RP_END_DECLS

#define RP_SPAN_EMIT_0_(provider, span) RP_SPAN_EX_EMIT_0_(provider, span, (RP_VERSION(0)))
#define RP_SPAN_EMIT_N_(provider, span, ...) \
	RP_SPAN_EX_EMIT_N_(provider, span, (RP_VERSION(0)), __VA_ARGS__)
#define RP_SPAN_EMIT_MANY_(provider, span, ...) RP_EVENT_EMIT_MANY_(provider, span, __VA_ARGS__)
#define RP_SPAN_EX_EMIT_MANY_(provider, span, ...) RP_EVENT_EMIT_MANY_(provider, span, __VA_ARGS__)

#define RP_SPAN_EX_EMIT_0_(provider, span, attributes) \
	RP_SPAN_CHECK_ attributes \
	RP_EVENT_EX_EMIT_0_(provider, span##_start, (RP_OPCODE(RP_OPCODE_START), \
						     RP_BARE_ attributes)); \
	RP_SPAN_STOP_(provider, span##_stop, attributes) \
	RP_SPAN_BEGIN_(provider, span, (struct rp_span *span_), (span_), \
		       (struct rp_span_scope *scope_), (scope_), ()); \
	RP_SPAN_CPP_EMIT_0_(provider##_##span) \
	RP_SEMICOLON_

#define RP_SPAN_EX_EMIT_N_(provider, span, attributes, ...) \
	RP_SPAN_CHECK_ attributes \
	RP_EVENT_EX_EMIT_N_(provider, span##_start, (RP_OPCODE(RP_OPCODE_START), \
						     RP_BARE_ attributes), __VA_ARGS__); \
	RP_SPAN_STOP_(provider, span##_stop, attributes) \
	RP_SPAN_BEGIN_(provider, span, \
		       (struct rp_span *span_, RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)), \
		       (span_, RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__)), \
		       (struct rp_span_scope *scope_, \
			RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)), \
		       (scope_, RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__)), \
		       (RP_MAP_(RP_ARG_, RP_COMMA_, __VA_ARGS__))); \
	RP_SPAN_CPP_EMIT_N_(provider##_##span, __VA_ARGS__) \
	RP_SEMICOLON_

#define RP_SPAN_CHECK_(...) \
	RP_ASSERT_(RP_PICK_(OPCODE_, -1, __VA_ARGS__) == -1, "the events of a span have opcodes"); \
	RP_ASSERT_(RP_PICK_(ONE_IN_, 0, __VA_ARGS__) == 0 && \
		   RP_PICK_(PER_SECOND_, 0, __VA_ARGS__) == 0, "a span has no limit");

#define RP_SPAN_NEXT_ID_(id) ((id) + 0ull == RP_EVENT_ID_AUTO ? (id) : (id) + 1)
#define RP_SPAN_STOP_(provider, stop, attributes) \
	RP_EVENT_EX_EMIT_N_(provider, stop, \
			    (RP_ID(RP_SPAN_NEXT_ID_(RP_SPAN_ID_ attributes)), \
			     RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE(RP_NULL_), \
			     RP_BARE_ attributes), RP_U64(duration_ns));
#define RP_SPAN_ID_(...) RP_PICK_(ID_, RP_EVENT_ID_AUTO, __VA_ARGS__)

#define RP_SPAN_BEGIN_(provider, name, params, args, scope_params, scope_args, start_args) \
	RP_OUT_OF_LINE_ __attribute__((cold)) void provider##_##name##_begin_ params \
	{ \
		struct rp_activity outer_; \
		rp_span_begin(span_, &outer_); \
		(void)provider##_##name##_start start_args; \
		rp_activity_end(&outer_); \
	} \
	RP_OUT_OF_LINE_ __attribute__((cold)) void provider##_##name##_end_(struct rp_span *span_) \
	{ \
		struct rp_activity outer_; \
		(void)provider##_##name##_stop(rp_span_end(span_, &outer_)); \
		rp_activity_end(&outer_); \
	} \
	RP_OUT_OF_LINE_ __attribute__((cold)) void provider##_##name##_enter_ scope_params \
	{ \
		struct rp_span *span_ = &scope_->span; \
		provider##_##name##_begin_ args; \
		rp_activity_get(&scope_->outer); \
		rp_activity_set(&span_->activity); \
	} \
	RP_OUT_OF_LINE_ __attribute__((cold)) void \
	provider##_##name##_leave_(struct rp_span_scope *scope_) \
	{ \
		provider##_##name##_end_(&scope_->span); \
		rp_activity_set(&scope_->outer); \
	} \
	RP_INLINE_ int provider##_##name##_wanted_(void) \
	{ \
		return provider##_##name##_start_enabled() | provider##_##name##_stop_enabled(); \
	} \
	RP_INLINE_ void provider##_##name##_begin params \
	{ \
		span_->begun_ns = 0; \
		if (__builtin_expect(provider##_##name##_wanted_(), 0)) \
			provider##_##name##_begin_ args; \
	} \
	RP_INLINE_ void provider##_##name##_end(struct rp_span *span_) \
	{ \
		if (__builtin_expect(span_->begun_ns != 0, 0)) \
			provider##_##name##_end_(span_); \
	} \
	RP_INLINE_ int provider##_##name##_enter scope_params \
	{ \
		scope_->span.begun_ns = 0; \
		if (__builtin_expect(provider##_##name##_wanted_(), 0)) \
			provider##_##name##_enter_ scope_args; \
		return 0; \
	} \
	RP_INLINE_ void provider##_##name##_leave(struct rp_span_scope *scope_) \
	{ \
		if (__builtin_expect(scope_->span.begun_ns != 0, 0)) \
			provider##_##name##_leave_(scope_); \
	} \
	RP_SEMICOLON_

/* ringpipe.hpp redefines these to add the functions of C++. */
#define RP_SPAN_CPP_EMIT_0_(name)
#define RP_SPAN_CPP_EMIT_N_(name, ...)

#define RP_SPAN_SCOPE_0_(provider, span) \
	RP_SPAN_SCOPE_I_(provider##_##span, RP_CAT_(rp_span_scope_, __COUNTER__), )
#define RP_SPAN_SCOPE_N_(provider, span, ...) \
	RP_SPAN_SCOPE_I_(provider##_##span, RP_CAT_(rp_span_scope_, __COUNTER__), , \
			 __VA_ARGS__)
#define RP_SPAN_SCOPE_I_(name, scope, ...) RP_SPAN_SCOPE_II_(name, scope, __VA_ARGS__)
#define RP_SPAN_SCOPE_II_(name, scope, ...) \
	struct rp_span_scope scope __attribute__((cleanup(name##_leave))); \
	int scope##_entered __attribute__((unused)) = name##_enter(&scope __VA_ARGS__)

#endif
