/* SPDX-License-Identifier: MIT */
/*
 * Spans: a piece of work as a start event, a stop event and the activity between them.
 *
 *	RP_SPAN(shop, checkout, RP_U64(order_id));
 *
 *	RP_SPAN_SCOPE(shop, checkout, order_id);	until the end of the block
 *
 *	shop_checkout_begin(&request->span, order_id);	until another callback, on any thread:
 *	...
 *	shop_checkout_end(&request->span);
 *
 * The events are checkout_start, with the fields, and checkout_stop, with the duration. Both have
 * the span's activity id, and as related id that of the activity in which the span began: spans
 * nest. In nettrace files they are checkoutStart and checkoutStop, which TraceEvent pairs.
 */
#ifndef RINGPIPE_SPAN_H
#define RINGPIPE_SPAN_H

#include <ringpipe/activity.h>
#include <ringpipe/event.h>
#include <ringpipe/types.h>

/* A span under way. With begun_ns 0 no session wanted it, and its end writes nothing. */
struct rp_span {
	struct rp_activity activity;
	uint64_t begun_ns;		/* CLOCK_MONOTONIC */
};

/* A span that is the current activity of the thread until the end of a block. */
struct rp_span_scope {
	struct rp_span span;
	struct rp_activity outer;
};

/*
 * Declares a span with up to 32 fields, in a file or in a header, and its functions:
 *	void <provider>_<span>_begin(struct rp_span *span, fields…)
 *	void <provider>_<span>_end(struct rp_span *span)
 * `begin` writes the start event if any session wants one of the two events. `end` writes the stop
 * event if `begin` wrote; a second call does nothing. Neither changes the thread's activity ids: to
 * give other events the span's, call rp_activity_set(&span.activity). Context and cost are those of
 * an event. Where no session wants the span, `begin` is two loads and a branch, and `end` a branch.
 *
 * RP_SPAN_EX takes the attributes of RP_EVENT_EX, but neither RP_ONE_IN nor RP_PER_SECOND. RP_ID is
 * the id of the start event, and the stop event has the next one. RP_MESSAGE is the message of the
 * start event.
 */
#define RP_SPAN(provider, ...) \
	RP_CAT_(RP_SPAN_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, __VA_ARGS__)
#define RP_SPAN_EX(provider, span, ...) \
	RP_CAT_(RP_SPAN_EX_EMIT_, RP_ARITY_(__VA_ARGS__))(provider, span, __VA_ARGS__)

/*
 * Begins a span that ends with the block, however the block is left but by longjmp(3) or the end of
 * the thread. Until then its activity is the thread's. The arguments after the span are those of
 * its fields. It is a declaration.
 */
#define RP_SPAN_SCOPE(provider, ...) \
	RP_CAT_(RP_SPAN_SCOPE_, RP_ARITY_(__VA_ARGS__))(provider, __VA_ARGS__)

RP_BEGIN_DECLS

/*
 * Begin a span. It is a child of the current activity, whose ids go to `ret_outer`, and its own ids
 * are current afterwards. Generated functions call this.
 *
 * Context: any thread, any signal handler.
 */
RP_PUBLIC void rp_span_begin(struct rp_span *ret_span, struct rp_activity *ret_outer);

/*
 * End a span. Its ids are current afterwards, and those that were current go to `ret_outer`.
 * Generated functions call this.
 *
 * Context: any thread, any signal handler.
 * Return: the nanoseconds since its begin.
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

/* ringpipe.hpp has what C++ adds. */
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
