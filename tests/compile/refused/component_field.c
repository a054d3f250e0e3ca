/* SPDX-License-Identifier: MIT */
#include <ringpipe/component.h>

struct box {
	int side;
};

static struct rp_component_state state;

#define FIRE(value) \
	RP_COMPONENT_FIRE_DYNAMIC(&state, 0, 1, 1, "Boxed", RP_COMPONENT_FIELD("box", value))

void fire(const struct box *box);

void fire(const struct box *box)
{
#ifndef REPAIRED
	FIRE(*box);	/* refused */
#endif
	FIRE(box->side);
}
