/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/stop_requests.h"

bool rp_stop_requests_take(struct rp_stop_requests *requests)
{
	requests->count += rp_signals_count(requests->signal_fd, &requests->last);
	return requests->count >= 2;
}
