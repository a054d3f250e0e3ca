/* SPDX-License-Identifier: MIT */
/* loader.c calls these functions in the part of the module that needs libringpipe. */
#include "module.h"

#include <time.h>

uint64_t ringpipe_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static ngx_int_t configured(ngx_conf_t *cf)
{
	ringpipe_tls_init(cf);
	return ringpipe_request_init(cf) == NGX_OK ? ringpipe_upstream_init(cf) : NGX_ERROR;
}

static ngx_int_t begin_cycle(ngx_cycle_t *cycle)
{
	ringpipe_log_init(cycle);
	ringpipe_connection_init(cycle);
	ringpipe_phases_init(cycle);
	return ringpipe_counters_init();
}

__attribute__((visibility("default"))) const struct ringpipe_hooks ringpipe_hooks = {
	.size = sizeof(ringpipe_hooks),
	.configured = configured,
	.begin_cycle = begin_cycle,
	.begin_process = ringpipe_diagnostics_begin,
	.end_process = ringpipe_diagnostics_end,
	.log_add = ringpipe_log_add,
	.get_variable = ringpipe_get_variable,
};
