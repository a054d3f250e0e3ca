/* SPDX-License-Identifier: MIT */
/*
 * Limits the descriptors of the DiagnosticServer to a share of the host's, and selects the client
 * to drop if there are too many.
 */
#include <sys/resource.h>

#include "diag/server.h"

/* The server uses at most 1/DESCRIPTORS_SHARE of the host's descriptors. */
#define DESCRIPTORS_SHARE 4u
/* But it always accepts at least this many clients. */
#define CLIENTS_MIN 4u
/* Minimum time of a client; short, so that silent clients do not delay the backlog for long. */
#define GRACE_NS (25ull * 1000000u)

/* Descriptors left for clients, after those that the server needs for itself. */
static size_t descriptors_left(void)
{
	size_t most = SIZE_MAX, own = rp_server.timer_fd < 0 ? 3 : 4;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		most = (size_t)limit.rlim_cur / DESCRIPTORS_SHARE;
	for (size_t i = 0; i < rp_server.ports.count; i++)
		own += rp_server.ports.slots[i].fd >= 0;
	return most > own + CLIENTS_MIN ? most - own : CLIENTS_MIN;
}

/* A session uses two: the connection and the sink's copy. At least one session is allowed. */
size_t rp_server_sessions_max(void)
{
	size_t most = (descriptors_left() - CLIENTS_MIN) / 2;

	if (most > RP_SESSIONS_MAX)
		return RP_SESSIONS_MAX;
	return most ? most : 1;
}

static size_t clients_max(void)
{
	size_t most = descriptors_left(), taken = 0;

	for (size_t i = 0; i < RP_SESSIONS_MAX; i++)
		taken += rp_server.traces.slots[i].id && !rp_server.traces.slots[i].recorder ?
			 2 : 0;
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++)
		taken += rp_server.sendings[i].taken;
	most = most > taken + CLIENTS_MIN ? most - taken : CLIENTS_MIN;
	return most < RP_CLIENTS_MAX ? most : RP_CLIENTS_MAX;
}

struct rp_client *rp_server_find_slot(uint64_t now, uint64_t *ret_later)
{
	struct rp_client *oldest = NULL, *unused = NULL;
	size_t most = clients_max(), count = 0;

	for (size_t i = 0; i < RP_CLIENTS_MAX; i++) {
		struct rp_client *client = &rp_server.clients[i];
		bool waits = client->state == RP_CLIENT_WAITS, oldest_waits;

		if (client->fd < 0) {
			unused = client;
			continue;
		}
		count++;
		if (rp_client_is_ports_own(client))
			continue;
		oldest_waits = oldest && oldest->state == RP_CLIENT_WAITS;
		if (!oldest || (oldest_waits && !waits) ||
		    (oldest_waits == waits && client->since_ns < oldest->since_ns))
			oldest = client;
	}
	if (unused && count < most)
		return unused;
	if (oldest && oldest->since_ns + GRACE_NS <= now)
		return oldest;
	*ret_later = oldest ? oldest->since_ns + GRACE_NS : now + RP_STARVED_NS;
	return NULL;
}
