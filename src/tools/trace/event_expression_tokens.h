/* SPDX-License-Identifier: MIT */
/* The words of an expression. */
#ifndef RP_TOOL_EXPRESSION_TOKENS_H
#define RP_TOOL_EXPRESSION_TOKENS_H

#include "tools/trace/event_expression_parts.h"

enum rp_token_kind {
	RP_TOKEN_END, RP_TOKEN_NAME, RP_TOKEN_TEXT, RP_TOKEN_NUMBER, RP_TOKEN_OPEN,
	RP_TOKEN_CLOSE, RP_TOKEN_OPERATOR,
};

struct rp_token {
	enum rp_token_kind kind;
	size_t at, bytes;		/* in the text */
	enum rp_expression_operator operator;
	struct rp_operand value;	/* of a TEXT (without its bytes) or NUMBER */
	bool has_unit;			/* a time */
	bool is_quoted;			/* a NAME of the form field."name" */
	char word[RP_EXPRESSION_BYTES_MAX + 1];	/* of a NAME; the content of a TEXT */
};

/*
 * Read the word at `at` or after it; the next word begins at `at + bytes` of the token. Return: 0;
 * -EINVAL, with the error.
 */
int rp_token_read(const char *text, size_t at, struct rp_token *ret_token,
		  struct rp_expression_error *ret_error);

/* Set the error. Return: -EINVAL. */
int rp_expression_fail(struct rp_expression_error *error, size_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
