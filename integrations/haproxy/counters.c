/* SPDX-License-Identifier: MIT */
/*
 * Counters. HAProxy counts already, so the module reports HAProxy's own numbers, which equal those
 * of `show stat`, and only while a tool reads them. Proxies live as long as the process. Servers do
 * not, because the command `del server` removes them, so they have no counters here.
 */
#include "module.h"

#include <string.h>

#include <haproxy/proxy.h>

#include "events.h"

/* A member of struct fe_counters or struct be_counters, or a number of the proxy itself. */
struct haproxy_counter {
	const char *name, *unit, *display_name;
	size_t offset;
	uint32_t capability;		/* PR_CAP_FE or PR_CAP_BE */
	uint8_t kind;			/* enum rp_counter_kind */
	struct rp_counter *counter;
};

#define FRONTEND_SUM(name_, unit_, member, text) \
	{ .name = name_, .unit = unit_, .display_name = text, .capability = PR_CAP_FE, \
	  .offset = offsetof(struct proxy, fe_counters.member), .kind = RP_COUNTER_OBSERVED_SUM }
#define BACKEND_SUM(name_, unit_, member, text) \
	{ .name = name_, .unit = unit_, .display_name = text, .capability = PR_CAP_BE, \
	  .offset = offsetof(struct proxy, be_counters.member), .kind = RP_COUNTER_OBSERVED_SUM }

static struct haproxy_counter counters[] = {
	FRONTEND_SUM("frontend_requests", "requests", p.http.cum_req, "HTTP requests"),
	FRONTEND_SUM("frontend_sessions", "sessions", cum_sess, "Sessions accepted"),
	FRONTEND_SUM("frontend_bytes_received", "By", bytes_in, "Bytes received from clients"),
	FRONTEND_SUM("frontend_bytes_sent", "By", bytes_out, "Bytes sent to clients"),
	FRONTEND_SUM("frontend_errors", "requests", failed_req, "Invalid or late requests"),
	FRONTEND_SUM("frontend_denied", "requests", denied_req, "Requests denied by rules"),
	{ .name = "frontend_connections", .unit = "sessions", .capability = PR_CAP_FE,
	  .display_name = "Open sessions", .offset = offsetof(struct proxy, feconn),
	  .kind = RP_COUNTER_OBSERVED_UPDOWN },
	BACKEND_SUM("backend_requests", "requests", p.http.cum_req, "HTTP requests to servers"),
	BACKEND_SUM("backend_sessions", "sessions", cum_sess, "Sessions with servers"),
	BACKEND_SUM("backend_bytes_received", "By", bytes_in, "Bytes sent to servers"),
	BACKEND_SUM("backend_bytes_sent", "By", bytes_out, "Bytes received from servers"),
	BACKEND_SUM("backend_failed_connections", "connections", failed_conns,
		    "Connections to servers that failed"),
	BACKEND_SUM("backend_retries", "connections", retries, "Connections tried again"),
	{ .name = "backend_queue", .unit = "requests", .capability = PR_CAP_BE,
	  .display_name = "Requests in the queue", .offset = offsetof(struct proxy, totpend),
	  .kind = RP_COUNTER_OBSERVED_UPDOWN },
};

static struct rp_counter *responses;

#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static bool is_counted(const struct proxy *proxy, uint32_t capability)
{
	return (proxy->cap & capability) && !(proxy->cap & PR_CAP_INT) &&
	       (proxy->mode == PR_MODE_HTTP || proxy->mode == PR_MODE_TCP);
}

/* Other threads change the numbers with atomic operations. */
static double value_of(const struct proxy *proxy, const struct haproxy_counter *counter)
{
	const char *at = (const char *)proxy + counter->offset;

	if (counter->kind == RP_COUNTER_OBSERVED_UPDOWN)
		return __atomic_load_n((const unsigned int *)at, __ATOMIC_RELAXED);
	return (double)__atomic_load_n((const long long *)at, __ATOMIC_RELAXED);
}

static int observe(struct rp_observation *observation, void *data)
{
	const struct haproxy_counter *counter = data;
	const char *key = counter->capability == PR_CAP_FE ? "frontend" : "backend";
	int ret = 0;

	for (const struct proxy *proxy = proxies_list; proxy && ret == 0; proxy = proxy->next) {
		struct rp_counter_tag tag = { key, proxy->id };

		if (is_counted(proxy, counter->capability))
			ret = rp_observe(observation, value_of(proxy, counter), &tag, 1);
	}
	return ret;
}

static int observe_responses(struct rp_observation *observation, void *data)
{
	static const char *const classes[] = { "other", "1xx", "2xx", "3xx", "4xx", "5xx" };
	int ret = 0;

	(void)data;
	for (const struct proxy *proxy = proxies_list; proxy; proxy = proxy->next) {
		if (!is_counted(proxy, PR_CAP_FE) || proxy->mode != PR_MODE_HTTP)
			continue;
		for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]) && ret == 0; i++) {
			struct rp_counter_tag tags[] = {
				{ "frontend", proxy->id }, { "status", classes[i] },
			};
			const long long *from = &proxy->fe_counters.p.http.rsp[i];

			ret = rp_observe(observation,
					 (double)__atomic_load_n(from, __ATOMIC_RELAXED), tags, 2);
		}
	}
	return ret;
}

int haproxy_counters_create(void)
{
	struct rp_counter_decl decl = RP_COUNTER_DECL_INIT;
	int ret = 0;

	for (size_t i = 0; i < COUNTERS && ret == 0; i++) {
		decl.kind = counters[i].kind;
		decl.name = counters[i].name;
		decl.unit = counters[i].unit;
		decl.display_name = counters[i].display_name;
		decl.observe = observe;
		decl.data = &counters[i];
		ret = rp_counter_create(haproxy_provider(), &decl, &counters[i].counter);
	}
	if (ret < 0)
		return ret;
	decl.kind = RP_COUNTER_OBSERVED_SUM;
	decl.name = "frontend_responses";
	decl.unit = "responses";
	decl.display_name = "Responses by the class of their status";
	decl.observe = observe_responses;
	return rp_counter_create(haproxy_provider(), &decl, &responses);
}

void haproxy_counters_destroy(void)
{
	for (size_t i = 0; i < COUNTERS; i++) {
		rp_counter_destroy(counters[i].counter);
		counters[i].counter = NULL;
	}
	rp_counter_destroy(responses);
	responses = NULL;
}
