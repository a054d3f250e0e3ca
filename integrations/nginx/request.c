/* SPDX-License-Identifier: MIT */
/*
 * Requests and their phases. nginx runs the handlers of a phase in the reverse order of their
 * registration, and a module that is loaded registers last, so our handlers mark the beginnings of
 * the phases. The span of a request begins after the search for its location, because the location
 * decides whether the request has spans. Only there has nginx's table of handlers a checker of
 * ours, which checks whether a session wants spans. If one wants the phases, it replaces the
 * checkers at the beginnings of the phases, which cost nothing until then.
 */
#include "module.h"

#include "events.h"

static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };

#define CLASSES (sizeof(classes) / sizeof(classes[0]))
#define STATUSES (100 * CLASSES)

/* The counts of this worker. The thread that reads counters only loads them. */
static struct {
	uint64_t requests[STATUSES];
	uint64_t bytes_sent, bytes_received;
	int is_observed;
} totals;

static ngx_uint_t traced_requests;	/* open requests that have spans */

static ngx_str_t header_name = ngx_string("traceparent");

static void end_request(ngx_http_request_t *r, struct ringpipe_request *request);

/* The data of the cleanup, which survives internal redirects, unlike the module's context. */
struct cleanup {
	struct ringpipe_request request;
	ngx_http_request_t *r;
};

/* For requests that end without the log phase. */
static void on_free(void *data)
{
	struct cleanup *cleanup = data;

	end_request(cleanup->r, &cleanup->request);
	if (cleanup->request.is_freed)
		*cleanup->request.is_freed = true;
}

struct ringpipe_request *ringpipe_request_of(ngx_http_request_t *r)
{
	struct cleanup *data;

	for (ngx_pool_cleanup_t *cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next) {
		if (cleanup->handler == on_free) {
			data = cleanup->data;
			return &data->request;
		}
	}
	return NULL;
}

void ringpipe_watch_begin(struct ringpipe_watch *watch, ngx_http_request_t *r)
{
	watch->request = ringpipe_request_of(r->main);
	watch->is_freed = false;
	if (!watch->request)
		return;
	watch->outer = watch->request->is_freed;
	watch->request->is_freed = &watch->is_freed;
}

bool ringpipe_watch_end(struct ringpipe_watch *watch)
{
	if (!watch->request)
		return false;
	if (!watch->is_freed)
		watch->request->is_freed = watch->outer;
	else if (watch->outer)
		*watch->outer = true;
	return !watch->is_freed;
}

static struct ringpipe_request *create(ngx_http_request_t *r)
{
	ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(struct cleanup));
	struct cleanup *data;

	if (!cleanup)
		return NULL;
	data = cleanup->data;
	ngx_memzero(data, sizeof(*data));
	data->r = r->main;
	cleanup->handler = on_free;
	return &data->request;
}

static ngx_table_elt_t *find_header(ngx_http_request_t *r)
{
	for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next) {
		ngx_table_elt_t *headers = part->elts;

		for (ngx_uint_t i = 0; i < part->nelts; i++)
			if (headers[i].key.len == header_name.len &&
			    ngx_strncasecmp(headers[i].key.data, header_name.data,
					    header_name.len) == 0)
				return &headers[i];
	}
	return NULL;
}

/* Takes the ids of the caller's header, or else begins a trace. */
static void begin_trace(ngx_http_request_t *r, struct ringpipe_request *request)
{
	const struct ringpipe_location *location =
		ngx_http_get_module_loc_conf(r, ngx_http_ringpipe_module);
	const ngx_table_elt_t *header = location->trace_context ? find_header(r) : NULL;

	if (!header || rp_traceparent_parse((const char *)header->value.data, header->value.len,
					    &request->activity, &request->flags) < 0)
		rp_traceparent_generate(&request->activity, &request->flags);
	request->has_trace = 1;
}

/* Makes the span of the request the parent of what upstream servers do. */
static void set_header(ngx_http_request_t *r, const struct ringpipe_request *request)
{
	ngx_table_elt_t *header = find_header(r);
	u_char *text = ngx_pnalloc(r->pool, RP_TRACEPARENT_SIZE);

	if (!text)
		return;
	rp_traceparent_print(&request->activity, request->flags | RP_TRACE_SAMPLED, (char *)text);
	if (!header) {
		header = ngx_list_push(&r->headers_in.headers);
		if (!header)
			return;
		ngx_memzero(header, sizeof(*header));
		header->key = header_name;
		header->lowcase_key = header_name.data;
		header->hash = ngx_hash_key(header_name.data, header_name.len);
	}
	header->value.data = text;
	header->value.len = RP_TRACEPARENT_SIZE - 1;
}

static void begin_request(ngx_http_request_t *r)
{
	struct ringpipe_location *location =
		ngx_http_get_module_loc_conf(r, ngx_http_ringpipe_module);
	struct ringpipe_request *request = ringpipe_request_of(r);
	struct rp_activity before;

	if (location->spans == NGX_CONF_BITMASK_SET ||
	    location->requests++ % location->sample != 0)
		return;
	if (!request)
		request = create(r);
	if (!request)
		return;
	if (!request->has_trace)
		begin_trace(r, request);
	request->spans = location->spans;
	request->begun_ns = ringpipe_now_ns();
	traced_requests++;
	if (location->trace_context)
		set_header(r, request);
	if (!(request->spans & RINGPIPE_SPANS_REQUEST))
		return;
	rp_activity_get(&before);
	rp_activity_set(&request->activity);
	nginx_request_start(r->connection->number, (const char *)r->method_name.data,
			    r->method_name.len, (const char *)r->uri.data, r->uri.len,
			    (const char *)r->headers_in.server.data, r->headers_in.server.len);
	rp_activity_set(&before);
}

static void end_phase(struct ringpipe_request *request)
{
	if (request->end_phase)
		request->end_phase(&request->phase);
	request->end_phase = NULL;
}

static void begin_phase(struct ringpipe_request *request, void (*begin)(struct rp_span *span),
			void (*end)(struct rp_span *span))
{
	struct rp_activity before;

	end_phase(request);
	if (!(request->spans & RINGPIPE_SPANS_PHASE))
		return;
	rp_activity_get(&before);
	rp_activity_set(&request->activity);
	begin(&request->phase);
	rp_activity_set(&before);
	request->end_phase = end;
}

/* Without branches, because all of them are disabled most of the time. */
static inline __attribute__((always_inline)) bool is_traced(void)
{
	return nginx_request_start_enabled() | nginx_request_stop_enabled() |
	       nginx_content_phase_start_enabled() | nginx_upstream_start_enabled();
}

static void change_phase(ngx_http_request_t *r, void (*begin)(struct rp_span *span),
			 void (*end)(struct rp_span *span))
{
	struct ringpipe_request *request;

	if (r != r->main)
		return;
	request = ringpipe_request_of(r);
	/* A handler that waits is called again, and is still in its phase. */
	if (request && request->begun_ns && request->end_phase != end)
		begin_phase(request, begin, end);
}

/* Marks the beginning of a phase in nginx's table of handlers. nginx does not call it. */
static ngx_int_t mark(ngx_http_request_t *r)
{
	(void)r;
	return NGX_DECLINED;
}

static ngx_uint_t status_of(ngx_http_request_t *r)
{
	if (r->err_status)
		return r->err_status;
	return r->headers_out.status;
}

static ngx_str_t cache_status_of(ngx_http_request_t *r)
{
	ngx_str_t text = ngx_string("");

#if (NGX_HTTP_CACHE)
	if (r->upstream && r->upstream->cache_status)
		text = ngx_http_cache_status[r->upstream->cache_status - 1];
#endif
	return text;
}

/* Return the time since the first byte of the request, as nginx logs it as $request_time. */
static uint64_t request_time_ms(ngx_http_request_t *r)
{
	const ngx_time_t *now = ngx_timeofday();
	ngx_msec_int_t ms = (ngx_msec_int_t)((now->sec - r->start_sec) * 1000 +
					     (now->msec - r->start_msec));

	/* The clock may have been set back. */
	return ms > 0 ? (uint64_t)ms : 0;
}

static void end_request(ngx_http_request_t *r, struct ringpipe_request *request)
{
	struct rp_activity before;
	ngx_str_t cache;

	end_phase(request);
	if (request->begun_ns && (request->spans & RINGPIPE_SPANS_REQUEST)) {
		cache = cache_status_of(r);
		rp_activity_get(&before);
		rp_activity_set(&request->activity);
		nginx_request_stop((uint16_t)status_of(r), (uint64_t)r->connection->sent,
				   (uint64_t)r->request_length, (const char *)cache.data, cache.len,
				   request_time_ms(r), ringpipe_now_ns() - request->begun_ns);
		rp_activity_set(&before);
	}
	traced_requests -= request->begun_ns != 0;
	request->begun_ns = 0;
}

static void add(uint64_t *total, uint64_t by)
{
	__atomic_store_n(total, *total + by, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) ngx_int_t record_time(ngx_http_request_t *r)
{
	nginx_request_time_record((double)request_time_ms(r));
	return NGX_OK;
}

/* Counts all requests, also those without spans. */
static ngx_int_t count_request(ngx_http_request_t *r)
{
	ngx_uint_t status = status_of(r);

	add(&totals.requests[status < STATUSES ? status : 0], 1);
	add(&totals.bytes_sent, (uint64_t)r->connection->sent);
	add(&totals.bytes_received, (uint64_t)r->request_length);
	return __atomic_load_n(&totals.is_observed, __ATOMIC_RELAXED) ? record_time(r) : NGX_OK;
}

static __attribute__((noinline)) ngx_int_t log_traced_request(ngx_http_request_t *r)
{
	struct ringpipe_request *request = ringpipe_request_of(r);

	if (request)
		end_request(r, request);
	return count_request(r);
}

/* The calls are the last ones of their functions, so no function needs a stack. */
static ngx_int_t on_log(ngx_http_request_t *r)
{
	if (r != r->main)
		return NGX_OK;
	return traced_requests ? log_traced_request(r) : count_request(r);
}

static int observe_requests(struct rp_observation *observation, void *data)
{
	int ret = 0;

	(void)data;
	__atomic_store_n(&totals.is_observed, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < CLASSES && ret == 0; i++) {
		struct rp_counter_tag tag = { "status", classes[i] };
		uint64_t total = 0;

		for (size_t status = 100 * i; status < 100 * (i + 1); status++)
			total += __atomic_load_n(&totals.requests[status], __ATOMIC_RELAXED);
		ret = rp_observe(observation, (double)total, &tag, 1);
	}
	return ret;
}

static int observe_total(struct rp_observation *observation, void *data)
{
	return rp_observe(observation, (double)__atomic_load_n((uint64_t *)data, __ATOMIC_RELAXED),
			  NULL, 0);
}

ngx_int_t ringpipe_counters_init(void)
{
	static const struct {
		const char *name, *unit, *display_name;
		int (*observe)(struct rp_observation *observation, void *data);
		uint64_t *total;
	} counters[] = {
		{ "requests", "requests", "Requests by the class of their status",
		  observe_requests, NULL },
		{ "bytes_sent", "By", "Bytes sent to clients", observe_total, &totals.bytes_sent },
		{ "bytes_received", "By", "Bytes of requests received", observe_total,
		  &totals.bytes_received },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		struct rp_counter_decl decl = RP_COUNTER_DECL_INIT;
		struct rp_counter *counter;
		int ret;

		decl.kind = RP_COUNTER_OBSERVED_SUM;
		decl.name = counters[i].name;
		decl.unit = counters[i].unit;
		decl.display_name = counters[i].display_name;
		decl.observe = counters[i].observe;
		decl.data = counters[i].total;
		ret = rp_counter_create(nginx_provider(), &decl, &counter);
		/* A reload finds the counters of the former configuration. */
		if (ret < 0 && ret != -EEXIST)
			return NGX_ERROR;
	}
	return NGX_OK;
}

/* In the order of nginx's table. */
static const struct {
	ngx_http_phases phase;
	void (*begin)(struct rp_span *span);
	void (*end)(struct rp_span *span);
} phases[RINGPIPE_PHASES] = {
	{ NGX_HTTP_REWRITE_PHASE, nginx_rewrite_phase_begin, nginx_rewrite_phase_end },
	{ NGX_HTTP_PREACCESS_PHASE, nginx_preaccess_phase_begin, nginx_preaccess_phase_end },
	{ NGX_HTTP_ACCESS_PHASE, nginx_access_phase_begin, nginx_access_phase_end },
	{ NGX_HTTP_PRECONTENT_PHASE, nginx_precontent_phase_begin, nginx_precontent_phase_end },
	{ NGX_HTTP_CONTENT_PHASE, nginx_content_phase_begin, nginx_content_phase_end },
};

static struct ringpipe_main *main_of(ngx_http_request_t *r)
{
	return ngx_http_get_module_main_conf(r, ngx_http_ringpipe_module);
}

/* A phase without handlers shares the first handler of the next phase. */
static ngx_int_t check_phase(ngx_http_request_t *r, ngx_http_phase_handler_t *ph)
{
	const struct ringpipe_main *ours = main_of(r);
	ngx_http_phase_handler_pt checker = NULL;
	struct ringpipe_watch watch;
	ngx_int_t ret;

	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++) {
		if (ours->phases[i].first == ph) {
			change_phase(r, phases[i].begin, phases[i].end);
			checker = ours->phases[i].checker;
		}
	}
	if (ph != ours->phases[RINGPIPE_PHASES - 1].first)
		return checker(r, ph);
	/* The handler of the content may choose an upstream server. */
	ringpipe_watch_begin(&watch, r);
	ret = checker(r, ph);
	if (ringpipe_watch_end(&watch))
		ringpipe_upstream_follow(r);
	return ret;
}

/* Precedes the handlers of the log phase. on_log() ends its span with the request. */
static ngx_int_t on_log_phase(ngx_http_request_t *r)
{
	change_phase(r, nginx_log_phase_begin, nginx_log_phase_end);
	return main_of(r)->first_log_handler(r);
}

/* The number of configurations whose phases have ringpipe's checkers. */
static ngx_uint_t replaced;

static void set_checkers(struct ringpipe_main *ours, bool has_checkers)
{
	ours->has_checkers = has_checkers;
	replaced += has_checkers ? 1 : -1;
	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++)
		ours->phases[i].first->checker =
			has_checkers ? check_phase : ours->phases[i].checker;
	*ours->log_handlers = has_checkers ? on_log_phase : ours->first_log_handler;
}

/* Apart from find_location(), which then needs no stack. */
static __attribute__((noinline)) ngx_int_t trace_location(ngx_http_request_t *r,
							  ngx_http_phase_handler_t *ph)
{
	struct ringpipe_request *request = r == r->main ? ringpipe_request_of(r) : NULL;
	struct ringpipe_main *ours = main_of(r);
	bool has_checkers = nginx_content_phase_start_enabled() | nginx_upstream_start_enabled();
	ngx_int_t ret;

	if (has_checkers != ours->has_checkers)
		set_checkers(ours, has_checkers);
	/* The URI was rewritten, so the phases are repeated. */
	if (request)
		end_phase(request);
	ret = ngx_http_core_find_config_phase(r, ph);
	if (ret == NGX_AGAIN && is_traced() && r == r->main && !r->internal)
		begin_request(r);
	return ret;
}

static ngx_int_t find_location(ngx_http_request_t *r, ngx_http_phase_handler_t *ph)
{
	if (is_traced() || replaced)
		return trace_location(r, ph);
	return ngx_http_core_find_config_phase(r, ph);
}

static ngx_int_t add_handler(ngx_http_core_main_conf_t *core, ngx_http_phases phase,
			     ngx_http_handler_pt handler)
{
	ngx_http_handler_pt *added = ngx_array_push(&core->phases[phase].handlers);

	if (!added)
		return NGX_ERROR;
	*added = handler;
	return NGX_OK;
}

/* nginx runs the handlers of a phase in the reverse order. */
ngx_int_t ringpipe_request_init(ngx_conf_t *cf)
{
	ngx_http_core_main_conf_t *core =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++)
		if (add_handler(core, phases[i].phase, mark) != NGX_OK)
			return NGX_ERROR;
	return add_handler(core, NGX_HTTP_LOG_PHASE, on_log);
}

/* Removes a handler from nginx's table. The handlers after it move up by one place. */
static void remove_handler(ngx_http_phase_handler_t *all, ngx_http_phase_handler_t *removed)
{
	ngx_uint_t place = (ngx_uint_t)(removed - all);

	for (ngx_http_phase_handler_t *ph = removed; ph->checker; ph++)
		ph[0] = ph[1];
	for (ngx_http_phase_handler_t *ph = all; ph->checker; ph++)
		ph->next -= ph->next > place;
}

/*
 * nginx made its table of handlers after ringpipe_request_init(). The marks are in the order of the
 * phases, so nothing before a place that is already known moves.
 */
void ringpipe_phases_init(ngx_cycle_t *cycle)
{
	ngx_http_phase_handler_t *all, *ph;
	ngx_http_core_main_conf_t *core;
	struct ringpipe_main *ours;

	if (!cycle->conf_ctx[ngx_http_module.index])
		return;	/* without `http` */
	ours = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_ringpipe_module);
	core = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_core_module);
	all = core->phase_engine.handlers;
	ours->log_handlers = core->phases[NGX_HTTP_LOG_PHASE].handlers.elts;
	ours->first_log_handler = *ours->log_handlers;
	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++) {
		for (ph = all; ph->handler != mark; ph++)
			;
		remove_handler(all, ph);
		ours->phases[i].first = ph;
		ours->phases[i].checker = ph->checker;
	}
	for (ph = all; ph->checker; ph++)
		if (ph->checker == ngx_http_core_find_config_phase)
			ph->checker = find_location;
}

/* A request without spans gets its ids when a variable is first read. */
ngx_int_t ringpipe_get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *value,
				uintptr_t which)
{
	static const struct {
		uint8_t from, size;	/* in VERSION-TRACE-SPAN-FLAGS */
	} parts[] = {
		[RINGPIPE_TRACE_ID] = { 3, 32 },
		[RINGPIPE_SPAN_ID] = { 36, 16 },
		[RINGPIPE_TRACEPARENT] = { 0, 55 },
	};
	struct ringpipe_request *request = ringpipe_request_of(r);
	char *text = ngx_pnalloc(r->pool, RP_TRACEPARENT_SIZE);

	if (!request)
		request = create(r);
	if (!request || !text)
		return NGX_ERROR;
	if (!request->has_trace)
		begin_trace(r, request);
	rp_traceparent_print(&request->activity, request->flags, text);
	value->data = (u_char *)text + parts[which].from;
	value->len = parts[which].size;
	value->valid = 1;
	value->no_cacheable = 0;
	value->not_found = 0;
	return NGX_OK;
}
