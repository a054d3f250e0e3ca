/* SPDX-License-Identifier: MIT */
/* A library that writes the event of shared_event.h. */
#include "shared_event.h"

int shared_one_fire(void)
{
	return shared_hit(1, "library");
}

const struct rp_event *shared_one_word(void)
{
	return &shared_hit_event_;
}

void shared_one_count(int64_t by, double mark)
{
	shared_hits_add(by);
	shared_mark_set(mark);
}

struct rp_counter *shared_one_counter(void)
{
	return shared_hits_counter();
}
