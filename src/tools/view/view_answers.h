/* SPDX-License-Identifier: MIT */
/* Shared by the files that write answers. */
#ifndef RP_TOOL_VIEW_ANSWERS_H
#define RP_TOOL_VIEW_ANSWERS_H

#include "tools/view/view_query.h"

/* A query about one trace, with its range resolved. */
struct rp_view_question {
	const struct rp_traces *view;
	const struct rp_view_trace *trace;	/* what was read of the range */
	const struct rp_view_trace *whole;	/* the trace, or its excerpt */
	const struct rp_view_query *query;
	int64_t from, to;		/* from < to */
	bool is_whole;			/* the range has all of the trace */
};

/* Return: RP_VIEW_OK, unless the function has called rp_view_refuse(). */
typedef enum rp_view_status (*rp_view_answer_function)(const struct rp_view_question *question,
						       struct rp_format_out *out);

/* Replace the output by an object with the error, a sentence. Return: `status`. */
enum rp_view_status rp_view_refuse(struct rp_format_out *out, enum rp_view_status status,
				   const char *error);

/* Write the name of a member, with a comma before it unless it is the first. */
void rp_view_key(struct rp_format_out *out, bool *is_first, const char *key);
/* Write a text, or null for NULL. */
void rp_view_text(struct rp_format_out *out, const char *text);
/* Write a comma before all items but the first. */
void rp_view_comma(struct rp_format_out *out, bool *is_first);

/* Return: whether the query asks for this thread. */
bool rp_view_wants_thread(const struct rp_view_query *query, const struct rp_view_thread *thread);

/* Write an object that describes a span. */
void rp_view_put_instance(struct rp_format_out *out, const struct rp_view_trace *trace,
			  const struct rp_view_span *span);
/* Write the name by which `explain` finds a span. */
void rp_view_put_key(struct rp_format_out *out, const struct rp_view_trace *trace,
		     const struct rp_view_span *span);
/* Return: the span with that key, or NULL. */
const struct rp_view_span *rp_view_find_span(const struct rp_view_trace *trace, const char *key);

/* Write the list of the names to which the spans of a timeline refer. */
void rp_view_put_span_names(struct rp_format_out *out, const struct rp_view_trace *trace);

/* Write how many of the events were read; null: all. */
void rp_view_put_excerpt(struct rp_format_out *out, const struct rp_view_trace *trace);

/* Get the times of the span with that key. Return: false: it is no key. */
bool rp_view_key_range(const char *key, int64_t *ret_from_ns, int64_t *ret_to_ns);

/* Write the list of the traces. */
void rp_view_answer_traces(const struct rp_traces *view, struct rp_format_out *out);

enum rp_view_status rp_view_answer_timeline(const struct rp_view_question *question,
					    struct rp_format_out *out);
enum rp_view_status rp_view_answer_spans(const struct rp_view_question *question,
					 struct rp_format_out *out);
enum rp_view_status rp_view_answer_instances(const struct rp_view_question *question,
					     struct rp_format_out *out);
enum rp_view_status rp_view_answer_flame(const struct rp_view_question *question,
					 struct rp_format_out *out);
enum rp_view_status rp_view_answer_functions(const struct rp_view_question *question,
					     struct rp_format_out *out);
enum rp_view_status rp_view_answer_counters(const struct rp_view_question *question,
					    struct rp_format_out *out);
enum rp_view_status rp_view_answer_events(const struct rp_view_question *question,
					  struct rp_format_out *out);
enum rp_view_status rp_view_answer_explain(const struct rp_view_question *question,
					   struct rp_format_out *out);
enum rp_view_status rp_view_answer_search(const struct rp_view_question *question,
					  struct rp_format_out *out);

#endif
