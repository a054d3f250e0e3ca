/* SPDX-License-Identifier: MIT */
#include <ringpipe/component.h>

struct box_events {
	uint32_t size;
	uint32_t reserved;
	void (*opened)(void *data, uint32_t n);
};

static struct rp_component_state state;
static struct box_events events;

void fire(void);

void fire(void)
{
	RP_COMPONENT_FIRE(&state, &events, opened, 0, 1, 1, 7);
#ifndef REPAIRED
	RP_COMPONENT_FIRE(&state, &events, opened, 0, 1, 1, 7, 8);	/* refused */
#endif
}
