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
	RP_TRIGGER_ABOVE,	/* a counter above its bound */
	RP_TRIGGER_BELOW,
};

struct rp_trigger {
	enum rp_trigger_kind kind;
	uint8_t level;		/* EVENT: this level or a more severe one; 0: any */
	const char *text;	/* text of the trigger */
	const char *provider;
	const char *name;	/* event or counter; EVENT: "*" is any */
	const char *stop;	/* LATENCY: the stop event */
	uint64_t bound_ns;	/* LATENCY: maximum time */
	double bound;		/* counters: the bound */
};

/*
 * Parse a list of triggers. `ret_triggers` is one allocation, strings included: free() it.
 * Return: 0; -EINVAL, with the error's offset in *ret_at (unless NULL); -ENOMEM.
 */
int rp_triggers_parse(const char *text, struct rp_trigger **ret_triggers, size_t *ret_count,
		      size_t *ret_at);

#endif
