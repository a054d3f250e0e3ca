/* SPDX-License-Identifier: MIT */
#include "keys.h"

int fire_there(uint64_t number)
{
	return fire_both(number) + fire_template_3(number);
}
