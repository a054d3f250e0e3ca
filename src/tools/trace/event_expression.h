/* SPDX-License-Identifier: MIT */
/*
 * The language of --where and --until: a condition on an event, such as
 *
 *	provider == "Shop-Orders" and total > 100
 *
 * EXPRESSIONS in ringpipe(1) describes the language. The text is compiled to a program once.
 * Conditions that depend only on an event's type are evaluated once for each type. If a JSON event
 * needs more, the evaluation decodes it; see json_event.h. The evaluation of other events allocates
 * nothing.
 */
#ifndef RP_TOOL_EXPRESSION_H
#define RP_TOOL_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

struct rp_expression;

/* The longest text in bytes, the deepest nesting of parentheses, and the most comparisons. */
#define RP_EXPRESSION_BYTES_MAX 4096u
#define RP_EXPRESSION_DEPTH_MAX 64u
#define RP_EXPRESSION_COMPARISONS_MAX 256u

struct rp_expression_error {
	size_t at;			/* offset of the error in the text */
	char message[160];		/* without a full stop */
};

/*
 * Compile an expression.
 * @text: the expression; the result does not refer to it.
 * @ret_expression: for rp_expression_destroy().
 * @ret_error: set after -EINVAL.
 *
 * Return: 0; -EINVAL: the text is not an expression; -ENOMEM.
 */
int rp_expression_compile(const char *text, struct rp_expression **ret_expression,
			  struct rp_expression_error *ret_error);

/* NULL is allowed. */
void rp_expression_destroy(struct rp_expression *expression);

/*
 * Print on standard error what is wrong with an expression: a sentence, the expression, and a caret
 * below the place of the error.
 * @option: where the expression came from, as "report: --where".
 */
void rp_expression_explain(const char *option, const char *text,
			   const struct rp_expression_error *error);

/* Compile the value of an option. Return: 0; -EINVAL or -ENOMEM, after an error line. */
int rp_expression_take(const char *option, const char *text,
		       struct rp_expression **ret_expression);

/*
 * Return whether the event fulfils the expression. The expression remembers the types of events, so
 * all events must be of readers that stay open; see rp_expression_forget().
 * @process: the process of the event. Events of version 4 do not always state it.
 *
 * Context: one thread at a time for each expression; only JSON events allocate.
 * Return: true or false; false without memory.
 */
bool rp_expression_matches(struct rp_expression *expression, const struct rp_reader_event *event,
			   uint64_t process);

/* Forget all types of events. Call it before a reader is closed while others stay in use. */
void rp_expression_forget(struct rp_expression *expression);

#endif
