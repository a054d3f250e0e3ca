/* SPDX-License-Identifier: MIT */
/*
 * The contract between the test's host and its components: the known events, and the functions that
 * the host calls in a component. CONTRACT is its version: 1, or 2 with one more known event.
 */
#ifndef COMPONENT_CONTRACT_H
#define COMPONENT_CONTRACT_H

#include <ringpipe/component.h>

#ifndef CONTRACT
#define CONTRACT 2
#endif

#define KEYWORD_COLLECTIONS 0x1u
#define KEYWORD_MOVES 0x2u

struct test_events {
	uint32_t size;
	uint32_t reserved;
	void (*collected)(void *data, uint32_t number, const char *why);
	void (*moved)(void *data, uint64_t bytes);
	void (*slept)(void *data);
#if CONTRACT >= 2
	void (*pinned)(void *data, uint32_t objects);
#endif
};

/* The functions that a component exports as "test_functions", for the test. */
struct test_functions {
	const struct rp_component_state *state;
	const char *language;
	void (*fire_known)(uint32_t number, const char *why, uint64_t bytes, uint32_t objects);
	void (*fire_dynamic)(uint32_t number, const char *text);
	/* Call the host whether the events are on or not. */
	int (*fire_raw)(uint32_t provider, uint32_t level, const char *name, const void *payload,
			uint32_t payload_bytes);
	uint32_t *evaluated;	/* how often the arguments of an event were evaluated */
	void (**stopping)(void);	/* called by the component's stop() */
};

#endif
