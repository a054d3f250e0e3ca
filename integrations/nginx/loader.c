/* SPDX-License-Identifier: MIT */
/*
 * nginx loads this module, which has the directives and variables. The code that needs libringpipe
 * is in ngx_ringpipe_trace.so next to it. If that file cannot be loaded, because libringpipe is
 * missing or too old, the module logs the reason, and nginx serves without traces.
 */
#include "module.h"

#include <dlfcn.h>

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

/* NULL: not loaded. Never unloaded, because threads of libringpipe may run. */
static const struct ringpipe_hooks *hooks;

static const char *load(void)
{
	const struct ringpipe_hooks *found;
	void *library = dlopen("$ORIGIN/" RINGPIPE_TRACE, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	found = dlsym(library, "ringpipe_hooks");
	if (!found || found->size != sizeof(*found)) {
		dlclose(library);
		return RINGPIPE_TRACE " is of another version";
	}
	hooks = found;
	return NULL;
}

/* A variable of a server that is not traced. */
static ngx_int_t get_nothing(ngx_http_request_t *r, ngx_http_variable_value_t *value,
			     uintptr_t which)
{
	(void)r;
	(void)which;
	value->not_found = 1;
	return NGX_OK;
}

static ngx_int_t add_variables(ngx_conf_t *cf)
{
	static ngx_str_t names[] = {
		[RINGPIPE_TRACE_ID] = ngx_string("ringpipe_trace_id"),
		[RINGPIPE_SPAN_ID] = ngx_string("ringpipe_span_id"),
		[RINGPIPE_TRACEPARENT] = ngx_string("ringpipe_traceparent"),
	};
	const char *reason = hooks ? NULL : load();

	if (reason)
		ngx_conf_log_error(NGX_LOG_ERR, cf, 0, "ringpipe traces nothing: %s", reason);
	for (ngx_uint_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ngx_http_variable_t *variable = ngx_http_add_variable(cf, &names[i], 0);

		if (!variable)
			return NGX_ERROR;
		variable->get_handler = hooks ? hooks->get_variable : get_nothing;
		variable->data = i;
	}
	return NGX_OK;
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
	location->sampler = location;
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
	ngx_conf_init_uint_value(from->sample, 1);
	if (to->sample == NGX_CONF_UNSET_UINT)
		to->sampler = from->sampler;
	ngx_conf_merge_value(to->trace_context, from->trace_context, 1);
	core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
	return !hooks || hooks->log_add(cf, core->error_log) == NGX_OK ? NGX_CONF_OK :
		NGX_CONF_ERROR;
}

static ngx_int_t after_configuration(ngx_conf_t *cf)
{
	return hooks ? hooks->configured(cf) : NGX_OK;
}

static ngx_http_module_t context = {
	.preconfiguration = add_variables,
	.postconfiguration = after_configuration,
	.create_main_conf = create_main,
	.create_loc_conf = create_location,
	.merge_loc_conf = merge_location,
};

static ngx_int_t begin_cycle(ngx_cycle_t *cycle)
{
	return hooks ? hooks->begin_cycle(cycle) : NGX_OK;
}

static ngx_int_t begin_process(ngx_cycle_t *cycle)
{
	return hooks ? hooks->begin_process(cycle) : NGX_OK;
}

static void end_process(ngx_cycle_t *cycle)
{
	(void)cycle;
	if (hooks)
		hooks->end_process();
}

ngx_module_t ngx_http_ringpipe_module = {
	NGX_MODULE_V1,
	.ctx = &context,
	.commands = commands,
	.type = NGX_HTTP_MODULE,
	.init_module = begin_cycle,
	.init_process = begin_process,
	.exit_process = end_process,
	NGX_MODULE_V1_PADDING
};
