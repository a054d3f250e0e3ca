/* SPDX-License-Identifier: MIT */
/* Decodes the JSON events that an expression is evaluated on. */
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

const struct rp_reader_event *rp_expression_decode_json(struct rp_expression *expression,
							const struct rp_reader_event *event)
{
	if (!expression->json)
		expression->json = calloc(1, sizeof(*expression->json));
	return expression->json ? rp_json_decode(expression->json, event) : NULL;
}
