/* SPDX-License-Identifier: MIT */
#include "data.h"

void data_look_there(struct data_seen *ret_seen)
{
	data_sum_add(1);
	ret_seen->written = call_both() + data_there(1) + data_asked_enabled();
	ret_seen->both = &data_both_event_;
	ret_seen->bare = &data_bare_event_;
	ret_seen->sum = data_sum_counter();
	ret_seen->asked = data_asked_provider();
}
