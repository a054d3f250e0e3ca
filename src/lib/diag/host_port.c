/* SPDX-License-Identifier: MIT */
/* Registers the host, whose table the other folders use. */
#include <errno.h>
#include <string.h>

#include <ringpipe/host.h>

#include "base/host_table.h"
#include "base/sized.h"
#include "base/thread.h"

static bool ranges_are_valid(const struct rp_host *host)
{
	if (host->interpreter_count > RP_HOST_INTERPRETERS_MAX ||
	    (host->interpreter_count > 0 && !host->interpreters))
		return false;
	for (size_t i = 0; i < host->interpreter_count; i++) {
		if (host->interpreters[i].start >= host->interpreters[i].end)
			return false;
	}
	return true;
}

static bool mode_is_valid(const struct rp_host *host)
{
	switch (host->sample_mode) {
	case RP_HOST_SAMPLE_SIGNAL:
		return true;
	case RP_HOST_SAMPLE_SAFE_POINT:
		return host->request_sample;
	case RP_HOST_SAMPLE_STOPPED:
		return host->stop_world && host->start_world && host->walk;
	default:
		return false;
	}
}

static bool command_is_valid(const struct rp_host *host)
{
	if (host->command_set == 0)
		return !host->command;
	return host->command && host->command_set >= RP_HOST_COMMAND_SET_MIN &&
	       host->command_set <= RP_HOST_COMMAND_SET_MAX;
}

RP_PUBLIC int rp_host_register(const struct rp_host *host)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_host copy;

	if (rp_sized_read(&copy, sizeof(copy), RP_HOST_SIZE_V1, host) != 0 ||
	    !ranges_are_valid(&copy) || !mode_is_valid(&copy) || !command_is_valid(&copy) ||
	    !copy.allocate != !copy.release || copy.reserved)
		return -EINVAL;
	return rp_host_publish(&copy);
}

RP_PUBLIC void rp_host_unregister(void)
{
	rp_host_retract();
}
