/* SPDX-License-Identifier: MIT */
#include "listener.h"

#include "accounts.h"
#include "events.h"

static struct rp_listener *listener;

static void on_event(const struct rp_listener_event *event, void *data)
{
	(void)data;
	shop_book_heard(event->provider, event->id);
}

int shop_listener_start(void)
{
	static const char *const names[] = { "Shop-Http", "Shop-Orders", "Shop-Storage" };
	struct rp_session_provider providers[3] = { 0 };
	struct rp_session_options options = {
		.size = sizeof(options),
		.name = "shop-listener",
		.providers = providers,
		.provider_count = 3,
	};

	for (int i = 0; i < 3; i++) {
		providers[i].size = sizeof(providers[i]);
		providers[i].level = RP_LEVEL_VERBOSE;
		providers[i].name = names[i];
		providers[i].keywords = ~0ull;
	}
	return rp_listener_start(&options, on_event, NULL, &listener);
}

void shop_listener_stop(void)
{
	rp_listener_stop(listener, NULL);
	listener = NULL;
}

void shop_listener_print(FILE *stream)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	if (!listener || rp_listener_get_stats(listener, &stats) < 0) {
		fputs("\"listener\":null", stream);
		return;
	}
	fprintf(stream, "\"listener\":{\"delivered\":%llu,\"lost\":%llu}",
		(unsigned long long)stats.delivered, (unsigned long long)stats.lost);
}
