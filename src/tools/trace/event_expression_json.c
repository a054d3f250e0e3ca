/* SPDX-License-Identifier: MIT */
/* Evaluates an expression on JSON events. */
#include "tools/trace/event_expression_parts.h"

#include <stdlib.h>

#include "tools/trace/json_event.h"

void rp_expression_forget_json(struct rp_expression *expression)
{
	if (expression->json)
		rp_json_decoder_fini(expression->json);
	free(expression->json);
	expression->json = NULL;
}

/* Return: the decoded event, or NULL without memory. */
static const struct rp_reader_event *decode(struct rp_expression *expression,
					    const struct rp_reader_event *event)
{
	if (!expression->json)
		expression->json = calloc(1, sizeof(*expression->json));
	return expression->json ? rp_json_decode(expression->json, event) : NULL;
}

bool rp_expression_matches_json(struct rp_expression *expression,
				const struct rp_reader_event *event, uint64_t process)
{
	const struct rp_reader_event *decoded = decode(expression, event);

	/* An expression can forget the types at any time, so it has no limit for all events. */
	if (decoded && expression->json->is_full) {
		rp_expression_forget(expression);
		decoded = decode(expression, event);
	}
	/* An event whose payload is cut remains a JSON event, and has no fields. */
	return decoded && decoded != event && rp_expression_matches(expression, decoded, process);
}
