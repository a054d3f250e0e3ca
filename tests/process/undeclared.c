/* SPDX-License-Identifier: MIT */
/*
 * A program that declares no event and is linked to the static library. RINGPIPE_CONFIG names a
 * provider that the program creates in main(). The session runs, so the library's constructor was
 * linked in.
 */
#include "check.h"

int main(void)
{
	const struct rp_event_decl decl = { .size = sizeof(decl), .id = 1, .name = "mark",
					    .level = RP_LEVEL_INFORMATIONAL };
	struct rp_provider *provider;
	struct rp_event *event;

	check(rp_provider_create("Test-Undeclared", NULL, NULL, &provider) == 0);
	check(rp_event_create(provider, &decl, &event) == 0);
	check(rp_event_enabled(event));
	check(rp_event_write(event, NULL, 0) == 0);
	check(rp_provider_destroy(provider) == 0);
	return 0;
}
