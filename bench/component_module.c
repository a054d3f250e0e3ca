/* SPDX-License-Identifier: MIT */
/* The component of bench/component.c. */
#include "component_bench.h"

extern RP_PUBLIC const struct bench_functions bench_functions;
RP_PUBLIC int rp_component_start(const struct rp_component_host *host,
				 struct rp_component *component);

static struct rp_component_state state;
static struct bench_events events;

static void known(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		RP_COMPONENT_FIRE(&state, &events, bytes32, RP_COMPONENT_DEFAULT,
				  RP_LEVEL_INFORMATIONAL, 1, i, i, i, i);
}

static void off(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		RP_COMPONENT_FIRE(&state, &events, bytes32, RP_COMPONENT_PRIVATE,
				  RP_LEVEL_INFORMATIONAL, 1, i, i, i, i);
}

static void dynamic(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		RP_COMPONENT_FIRE_DYNAMIC(&state, RP_COMPONENT_DEFAULT, RP_LEVEL_INFORMATIONAL, 1,
					  "Bytes32", RP_COMPONENT_FIELD("a", i),
					  RP_COMPONENT_FIELD("b", i), RP_COMPONENT_FIELD("c", i),
					  RP_COMPONENT_FIELD("d", i));
}

const struct bench_functions bench_functions = { known, off, dynamic };

int rp_component_start(const struct rp_component_host *host, struct rp_component *component)
{
	return rp_component_init(&state, host, &events, sizeof(events), component);
}
