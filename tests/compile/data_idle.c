/* SPDX-License-Identifier: MIT */
/* Includes every declaration and uses none. Without the header it has to be the same. */
#ifdef INCLUDED
#include <ringpipe/ringpipe.h>

RP_PROVIDER(data, "Test-Data");
RP_EVENT(data, idle, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(number), RP_STRING(text),
	 RP_SECRET(RP_STRING16(secret)));
RP_EVENT(data, bare, 2, RP_LEVEL_INFORMATIONAL, 1);
RP_COUNTER(data, idle_sum, "{sum}", "Sum");
#endif

#ifdef __cplusplus
extern "C"
#endif
int only(int number);
int only(int number)
{
	return number + 1;
}
