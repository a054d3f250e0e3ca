/* SPDX-License-Identifier: MIT */
/*
 * json_host FILE: writes JSON events and typed events of the same fields into a trace, and then
 * texts at the limits. Prints the session's stats as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "../nettrace_version.h"

RP_PROVIDER(shop, "Shop-Json");
RP_JSON_EVENTS(shop);
RP_EVENT(shop, checkout, 1, RP_LEVEL_INFORMATIONAL, 0, RP_I64(order), RP_STRING(customer),
	 RP_F64(total));

#define ORDERS 20

static char large[RP_PAYLOAD_MAX + 1];

static void write_orders(void)
{
	char text[128];

	for (int order = 0; order < ORDERS; order++) {
		snprintf(text, sizeof(text), "{\"order\":%d,\"customer\":\"c%d\",\"total\":%d.5}",
			 order, order % 3, order);
		RP_JSON(shop, RP_LEVEL_INFORMATIONAL, "checkout", text);
		shop_checkout(order, order % 3 ? "other" : "c0", order + 0.5);
	}
}

/* Write a text of `bytes` bytes, a string in an array. */
static void write_large(size_t bytes)
{
	memset(large, 'x', bytes);
	memcpy(large, "[\"", 2);
	memcpy(large + bytes - 2, "\"]", 2);
	RP_JSON_N(shop, RP_LEVEL_WARNING, "large", large, bytes);
}

static void write_limits(void)
{
	RP_JSON(shop, RP_LEVEL_ERROR, "bytes", "{\"a\":\"\xff\xc3(\"}");
	RP_JSON_N(shop, RP_LEVEL_ERROR, "nul", "{\"a\":\0" "1}", 8);
	RP_JSON(shop, RP_LEVEL_ERROR, "empty", NULL);
	write_large(30000);
	/* "large" and two NULs need 7 bytes. */
	write_large(RP_PAYLOAD_MAX - 7);
	write_large(RP_PAYLOAD_MAX - 6);
}

int main(int argc, char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Shop-Json", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.format = nettrace_version(),
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	int ret;

	if (argc != 2) {
		fprintf(stderr, "usage: json_host FILE\n");
		return 2;
	}
	options.output_path = argv[1];
	ret = rp_session_start(&options, &session);
	if (ret == 0) {
		write_orders();
		write_limits();
		ret = rp_session_stop(session, &stats);
	}
	if (ret < 0) {
		fprintf(stderr, "json_host: %s\n", strerror(-ret));
		return 1;
	}
	printf("{\"delivered\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"too_big\":%" PRIu64 "}\n",
	       stats.delivered, stats.lost, stats.lost_by[RP_LOSS_TOO_BIG]);
	return 0;
}
