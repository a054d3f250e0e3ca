/* SPDX-License-Identifier: MIT */
/* The parts of the module. */
#ifndef HAPROXY_RINGPIPE_MODULE_H
#define HAPROXY_RINGPIPE_MODULE_H

#include <stdbool.h>
#include <stdint.h>

/* The options, which environment variables of HAProxy set. */
struct haproxy_options {
	uint64_t sample;		/* one in this many streams has a span */
	bool trace_context;		/* traceparent is read, and sent to servers */
};

extern struct haproxy_options haproxy_options;

/* filter.c: add the filter to each frontend of the configuration. Return: 0, or an error. */
int haproxy_filter_add(void);

/* counters.c */
int haproxy_counters_create(void);
void haproxy_counters_destroy(void);

#endif
