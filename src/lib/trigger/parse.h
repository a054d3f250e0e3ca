/* SPDX-License-Identifier: MIT */
/* The list of triggers as text; ringpipe/trigger.h has examples. */
#ifndef RP_TRIGGER_PARSE_H
#define RP_TRIGGER_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_TRIGGERS_MAX 32u

enum rp_trigger_kind {
	RP_TRIGGER_EVENT,
	RP_TRIGGER_LATENCY,
	RP_TRIGGER_ABOVE,	/* a counter */
	RP_TRIGGER_BELOW,
};

struct rp_trigger {
	enum rp_trigger_kind kind;
	uint8_t level;		/* EVENT: this or worse; 0: any */
	const char *text;	/* as it was given */
	const char *provider;
	const char *name;	/* of event or counter; EVENT: "*" is any */
	const char *stop;	/* LATENCY: the event that ends it */
	uint64_t bound_ns;	/* LATENCY */
	double bound;		/* counters */
};

/*
 * `ret_triggers` is one allocation, strings included: free() it.
 * Return: 0; -EINVAL, with *ret_at (unless NULL) where it goes wrong; -ENOMEM.
 */
int rp_triggers_parse(const char *text, struct rp_trigger **ret_triggers, size_t *ret_count,
		      size_t *ret_at);

#endif
