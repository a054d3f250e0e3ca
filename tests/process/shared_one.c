/* SPDX-License-Identifier: MIT */
/* A library that fires the event of a header. */
#include "shared_event.h"

int shared_one_fire(void)
{
	return shared_hit(1, "library");
}

const struct rp_event *shared_one_word(void)
{
	return &shared_hit_event_;
}
