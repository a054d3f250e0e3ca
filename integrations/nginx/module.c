/* SPDX-License-Identifier: MIT */
/* A module for nginx: its requests, phases, upstreams and connections as spans of ringpipe. */
#include "module.h"

#include <time.h>

static ngx_conf_bitmask_t span_names[] = {
	{ ngx_string("off"), RINGPIPE_SPANS_OFF },
	{ ngx_string("request"), RINGPIPE_SPANS_REQUEST },
	{ ngx_string("phase"), RINGPIPE_SPANS_PHASE },
	{ ngx_string("upstream"), RINGPIPE_SPANS_UPSTREAM },
	{ ngx_string("all"), RINGPIPE_SPANS_ALL },
	{ ngx_null_string, 0 },
};

static ngx_conf_num_bounds_t sample_bounds = { ngx_conf_check_num_bounds, 1, 1000000000 };

#define ANYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)

static ngx_command_t commands[] = {
	{ ngx_string("ringpipe_spans"), ANYWHERE | NGX_CONF_1MORE, ngx_conf_set_bitmask_slot,
	  NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct ringpipe_location, spans), span_names },
	{ ngx_string("ringpipe_sample"), ANYWHERE | NGX_CONF_TAKE1, ngx_conf_set_num_slot,
	  NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct ringpipe_location, sample), &sample_bounds },
	{ ngx_string("ringpipe_trace_context"), ANYWHERE | NGX_CONF_FLAG, ngx_conf_set_flag_slot,
	  NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct ringpipe_location, trace_context), NULL },
	ngx_null_command
};

uint64_t ringpipe_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *create_main(ngx_conf_t *cf)
{
	return ngx_pcalloc(cf->pool, sizeof(struct ringpipe_main));
}

static void *create_location(ngx_conf_t *cf)
{
	struct ringpipe_location *location = ngx_pcalloc(cf->pool, sizeof(*location));

	if (!location)
		return NULL;
	location->sample = NGX_CONF_UNSET_UINT;
	location->trace_context = NGX_CONF_UNSET;
	return location;
}

/* Each location may have a log of its own. */
static char *merge_location(ngx_conf_t *cf, void *outer, void *inner)
{
	struct ringpipe_location *from = outer, *to = inner;
	ngx_http_core_loc_conf_t *core;

	ngx_conf_merge_bitmask_value(to->spans, from->spans,
				     (NGX_CONF_BITMASK_SET | RINGPIPE_SPANS_ALL));
	if (to->spans & RINGPIPE_SPANS_OFF)
		to->spans = NGX_CONF_BITMASK_SET;
	ngx_conf_merge_uint_value(to->sample, from->sample, 1);
	ngx_conf_merge_value(to->trace_context, from->trace_context, 1);
	core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
	return ringpipe_log_add(cf, core->error_log) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

static ngx_int_t after_configuration(ngx_conf_t *cf)
{
	if (ringpipe_request_init(cf) != NGX_OK || ringpipe_upstream_init(cf) != NGX_OK ||
	    ringpipe_tls_init(cf) != NGX_OK)
		return NGX_ERROR;
	return NGX_OK;
}

static ngx_http_module_t context = {
	.preconfiguration = ringpipe_request_add_variables,
	.postconfiguration = after_configuration,
	.create_main_conf = create_main,
	.create_loc_conf = create_location,
	.merge_loc_conf = merge_location,
};

static ngx_int_t begin_cycle(ngx_cycle_t *cycle)
{
	ringpipe_log_init(cycle);
	ringpipe_connection_init(cycle);
	ringpipe_phases_init(cycle);
	return ringpipe_counters_init();
}

ngx_module_t ngx_http_ringpipe_module = {
	NGX_MODULE_V1,
	.ctx = &context,
	.commands = commands,
	.type = NGX_HTTP_MODULE,
	.init_module = begin_cycle,
	NGX_MODULE_V1_PADDING
};
