/* SPDX-License-Identifier: MIT */
/* A library that fires the event of a header. */
#include "shared_event.h"

int shared_two_fire(void)
{
	return shared_hit(2, "library");
}

const struct rp_event *shared_two_word(void)
{
	return &shared_hit_event_;
}
