/* SPDX-License-Identifier: MIT */
/* A condition on events of a trace: PROVIDER:EVENT, or PROVIDER:EVENT:FIELD>=VALUE. */
#ifndef RP_TOOL_EVENT_CONDITION_H
#define RP_TOOL_EVENT_CONDITION_H

#include <stdbool.h>

#include <ringpipe/reader.h>

enum rp_comparison {
	RP_COMPARISON_NONE,		/* any event of that name */
	RP_COMPARISON_EQUAL,
	RP_COMPARISON_NOT_EQUAL,
	RP_COMPARISON_LESS,
	RP_COMPARISON_AT_MOST,
	RP_COMPARISON_MORE,
	RP_COMPARISON_AT_LEAST,
};

struct rp_event_condition {
	char *provider, *event, *field;	/* one allocation; field: "" if none */
	const char *value;
	enum rp_comparison comparison;
	bool is_number;			/* the value is `number`, and `exact` if is_exact */
	bool is_exact;
	double number;
	int64_t exact;
};

/* Return: 0; -EINVAL; -ENOMEM. */
int rp_event_condition_parse(const char *text, struct rp_event_condition *ret_condition);
void rp_event_condition_fini(struct rp_event_condition *condition);

/*
 * Return: whether the event fulfils the condition. Text can only be equal or not. A field that the
 * event lacks, or of another kind than the value, fulfils none.
 */
bool rp_event_condition_matches(const struct rp_event_condition *condition,
				const struct rp_reader_event *event);

#endif
