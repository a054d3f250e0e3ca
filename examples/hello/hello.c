/* SPDX-License-Identifier: MIT */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(hello, "Hello");
RP_EVENT(hello, greeting, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(n), RP_STRING(whom));

int main(void)
{
	for (uint32_t n = 0;; n++) {
		hello_greeting(n, "world");
		usleep(100 * 1000);
	}
}
