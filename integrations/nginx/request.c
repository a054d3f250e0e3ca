/* SPDX-License-Identifier: MIT */
/*
 * Requests and their phases. The first phase has a handler of ours, whose checker checks whether a
 * session wants spans. If one does, it replaces the checkers of the first handlers of the phases,
 * which cost nothing until then. The span of a request begins in its rewrite phase, where its
 * location is known, because the location decides whether the request has spans.
 */
#include "module.h"

#include "events.h"

static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };

#define CLASSES (sizeof(classes) / sizeof(classes[0]))
#define STATUSES (100 * CLASSES)

/* The counts of this worker. The thread that reads counters only loads them. */
static struct {
	uint64_t requests[STATUSES];	/* by status, because a class takes a division */
	uint64_t bytes_sent, bytes_received;
} totals;

uint64_t ringpipe_is_observed;
static ngx_uint_t traced_requests;	/* open requests that have spans */

static ngx_str_t header_name = ngx_string("traceparent");
static ngx_uint_t header_hash;

static void end_request(ngx_http_request_t *r, struct ringpipe_request *request);

/* For requests that end without the log phase. */
static void on_free(void *data)
{
	struct ringpipe_request *request = data;

	end_request(request->r, request);
	if (request->is_freed)
		*request->is_freed = true;
}

/* The cleanup survives internal redirects, unlike the module's context. */
struct ringpipe_request *ringpipe_request_of(ngx_http_request_t *r)
{
	for (ngx_pool_cleanup_t *cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next)
		if (cleanup->handler == on_free)
			return cleanup->data;
	return NULL;
}

void ringpipe_watch_begin(struct ringpipe_watch *watch, ngx_http_request_t *r)
{
	*watch = (struct ringpipe_watch){ .request = ringpipe_request_of(r->main) };
	if (!watch->request)
		return;
	watch->outer = watch->request->is_freed;
	watch->request->is_freed = &watch->is_freed;
}

void ringpipe_watch_end(struct ringpipe_watch *watch, ngx_http_request_t *r)
{
	if (watch->is_freed && watch->outer)
		*watch->outer = true;
	if (watch->is_freed || !watch->request)
		return;
	watch->request->is_freed = watch->outer;
	ringpipe_upstream_follow(r);
}

static struct ringpipe_request *find_or_create(ngx_http_request_t *r)
{
	struct ringpipe_request *request = ringpipe_request_of(r);
	ngx_pool_cleanup_t *cleanup;

	if (request)
		return request;
	cleanup = ngx_pool_cleanup_add(r->pool, sizeof(*request));
	if (!cleanup)
		return NULL;
	request = cleanup->data;
	ngx_memzero(request, sizeof(*request));
	request->r = r->main;
	cleanup->handler = on_free;
	return request;
}

/* A place in the headers of a request. */
struct header_cursor {
	const ngx_list_part_t *part;
	ngx_uint_t next;
};

/* Returns the next header of this name after the cursor; NULL if there is none. */
static ngx_table_elt_t *next_header(struct header_cursor *at, const ngx_str_t *name)
{
	for (; at->part; at->part = at->part->next, at->next = 0) {
		while (at->next < at->part->nelts) {
			ngx_table_elt_t *header = (ngx_table_elt_t *)at->part->elts + at->next++;

			if (header->key.len == name->len &&
			    ngx_strncasecmp(header->key.data, name->data, name->len) == 0)
				return header;
		}
	}
	return NULL;
}

/* Removes the headers after the cursor. nginx sends none of the new name to an upstream server. */
static void remove_headers(struct header_cursor *at, const ngx_str_t *name)
{
	ngx_table_elt_t *removed;

	while ((removed = next_header(at, name))) {
		ngx_str_set(&removed->key, "keep-alive");
		removed->lowcase_key = removed->key.data;
		removed->hash = ngx_hash_key(removed->key.data, removed->key.len);
	}
}

/* Takes the ids of the caller's header, or else begins a trace. Two headers are no valid one. */
static void begin_trace(ngx_http_request_t *r, struct ringpipe_request *request)
{
	const struct ringpipe_location *location =
		ngx_http_get_module_loc_conf(r, ngx_http_ringpipe_module);
	struct header_cursor at = { .part = &r->headers_in.headers.part };
	const ngx_table_elt_t *header =
		location->trace_context ? next_header(&at, &header_name) : NULL;

	request->has_trace = 1;
	request->has_context = location->trace_context;
	request->is_called = header && !next_header(&at, &header_name) &&
		rp_traceparent_parse((const char *)header->value.data, header->value.len,
				     &request->activity, &request->flags) == 0;
	if (!request->is_called)
		rp_traceparent_generate(&request->activity, &request->flags);
}

/* Makes the request's span the parent of upstream spans. Removes the state of another trace. */
static void set_header(ngx_http_request_t *r, const struct ringpipe_request *request)
{
	static const ngx_str_t state = ngx_string("tracestate");
	struct header_cursor at = { .part = &r->headers_in.headers.part }, states = at;
	ngx_table_elt_t *header = next_header(&at, &header_name);
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
		header->hash = header_hash;
	}
	header->value.data = text;
	header->value.len = RP_TRACEPARENT_SIZE - 1;
	remove_headers(&at, &header_name);
	if (!request->is_called)
		remove_headers(&states, &state);
}

/*
 * Decides which spans the request has. The server decides on the first phases, because the location
 * is not known yet. Requests of a location without a sample of its own count in its server's.
 */
static void choose_spans(ngx_http_request_t *r, struct ringpipe_request *request)
{
	const struct ringpipe_location *location =
		ngx_http_get_module_loc_conf(r, ngx_http_ringpipe_module);
	bool had_spans = request->spans != 0;

	request->spans = 0;
	if (location->spans != NGX_CONF_BITMASK_SET) {
		if (request->sampler != location->sampler) {
			request->sampler = location->sampler;
			request->is_sampled =
				request->sampler->requests++ % request->sampler->sample == 0;
		}
		request->spans = request->is_sampled ? location->spans & RINGPIPE_SPANS_ALL : 0;
	}
	traced_requests += (request->spans != 0) - had_spans;
	if (request->spans &&
	    (!request->has_trace || request->has_context != location->trace_context))
		begin_trace(r, request);
}

/* Leaves the ids of the phase in the thread. */
static void end_phase(struct ringpipe_request *request, uint64_t now_ns)
{
	if (!request->stop_phase)
		return;
	rp_activity_set(&request->phase.activity);
	request->stop_phase(now_ns - request->phase.begun_ns);
	request->stop_phase = NULL;
}

/* Without branches, because all of them are disabled most of the time. */
static inline __attribute__((always_inline)) bool is_traced(void)
{
	return nginx_request_start_enabled() | nginx_request_stop_enabled() |
	       nginx_content_phase_start_enabled() | nginx_upstream_start_enabled();
}

static void change_phase(ngx_http_request_t *r, int (*start)(void), int (*stop)(uint64_t))
{
	struct ringpipe_request *request = r == r->main ? ringpipe_request_of(r) : NULL;
	struct rp_activity before;
	uint64_t now_ns;

	/* A handler that waits is called again, and is still in its phase. */
	if (!request || (request->stop_phase == stop && request->uri_changes == r->uri_changes) ||
	    (!request->stop_phase && !(request->spans & RINGPIPE_SPANS_PHASE)))
		return;
	now_ns = ringpipe_now_ns();
	rp_activity_get(&before);
	end_phase(request, now_ns);
	if ((request->spans & RINGPIPE_SPANS_PHASE) && nginx_content_phase_start_enabled()) {
		/* Without rp_span_begin(), which takes the parent's ids from the thread. */
		rp_activity_generate(&request->phase.activity.id);
		request->phase.activity.related = request->activity.id;
		request->phase.begun_ns = now_ns;
		rp_activity_set(&request->phase.activity);
		start();
		request->stop_phase = stop;
		request->uri_changes = r->uri_changes;
	}
	rp_activity_set(&before);
}

/*
 * Begins the span of a request whose location is known or which ends before that. Returns NULL if
 * the request has no spans, or has had a location already: a redirect leads to another one.
 */
static struct ringpipe_request *begin_request(ngx_http_request_t *r)
{
	struct ringpipe_request *request = find_or_create(r);
	struct rp_activity before;

	if (!request || request->has_location)
		return NULL;
	request->has_location = 1;
	choose_spans(r, request);
	if (request->spans & RINGPIPE_SPANS_REQUEST) {
		request->begun_ns = ringpipe_now_ns();
		rp_activity_get(&before);
		rp_activity_set(&request->activity);
		nginx_request_start(r->connection->number, (const char *)r->method_name.data,
				    r->method_name.len, (const char *)r->uri.data, r->uri.len,
				    (const char *)r->headers_in.server.data,
				    r->headers_in.server.len);
		rp_activity_set(&before);
	}
	return request->spans ? request : NULL;
}

/* Marks our place in nginx's table of handlers. nginx does not call it. */
static ngx_int_t mark(ngx_http_request_t *r)
{
	(void)r;
	return NGX_DECLINED;
}

static inline struct ringpipe_main *main_of(ngx_http_request_t *r)
{
	return ngx_http_get_module_main_conf(r, ngx_http_ringpipe_module);
}

static ngx_uint_t status_of(ngx_http_request_t *r)
{
	return r->err_status ? r->err_status : r->headers_out.status;
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
	ngx_str_t cache = ngx_string("");
	struct rp_activity before;
	uint64_t now_ns;

	traced_requests -= request->spans != 0;
	request->spans = 0;
	if (!request->begun_ns && !request->stop_phase)
		return;
	now_ns = ringpipe_now_ns();
	rp_activity_get(&before);
	end_phase(request, now_ns);
	if (request->begun_ns) {
		if (r->upstream && r->upstream->cache_status)
			cache = ngx_http_cache_status[r->upstream->cache_status - 1];
		rp_activity_set(&request->activity);
		nginx_request_stop((uint16_t)status_of(r), (uint64_t)r->connection->sent,
				   (uint64_t)r->request_length, (const char *)cache.data, cache.len,
				   request_time_ms(r), now_ns - request->begun_ns);
	}
	rp_activity_set(&before);
	request->begun_ns = 0;
}

static __attribute__((noinline)) ngx_int_t log_observed_request(ngx_http_request_t *r)
{
	const ngx_http_core_main_conf_t *core =
		ngx_http_get_module_main_conf(r, ngx_http_core_module);
	struct ringpipe_request *request;

	/* The request ended before its location was known. Directives in effect decide. */
	if (is_traced() &&
	    (ngx_uint_t)r->phase_handler < core->phase_engine.location_rewrite_index)
		begin_request(r);
	request = ringpipe_request_of(r);
	if (request)
		end_request(r, request);
	if (ringpipe_load(&ringpipe_is_observed))
		nginx_request_time_record((double)request_time_ms(r));
	return NGX_OK;
}

/* Counts all requests. The only call is the last one, so the function needs no stack. */
static ngx_int_t on_log(ngx_http_request_t *r)
{
	ngx_uint_t status = status_of(r);

	if (r != r->main)
		return NGX_OK;
	ringpipe_add(&totals.requests[status < STATUSES ? status : 0], 1);
	ringpipe_add(&totals.bytes_sent, (uint64_t)r->connection->sent);
	ringpipe_add(&totals.bytes_received, (uint64_t)r->request_length);
	if (nginx_request_start_enabled() | nginx_request_stop_enabled() |
	    (traced_requests != 0) | (ringpipe_load(&ringpipe_is_observed) != 0))
		return log_observed_request(r);
	return NGX_OK;
}

static int observe_requests(struct rp_observation *observation, void *data)
{
	uint64_t by_class[CLASSES] = { 0 };
	int ret = 0;

	(void)data;
	__atomic_store_n(&ringpipe_is_observed, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < STATUSES; i++)
		by_class[i / 100] += ringpipe_load(&totals.requests[i]);
	for (size_t i = 0; i < CLASSES && ret == 0; i++) {
		struct rp_counter_tag tag = { "status", classes[i] };

		ret = rp_observe(observation, (double)by_class[i], &tag, 1);
	}
	return ret;
}

static int observe_total(struct rp_observation *observation, void *data)
{
	return rp_observe(observation, (double)ringpipe_load(data), NULL, 0);
}

/* A reload finds the counters of the former configuration. */
static bool count(const char *name, const char *unit, const char *display_name,
		  int (*observe)(struct rp_observation *observation, void *data), uint64_t *total)
{
	const struct rp_counter_decl decl = {
		.size = sizeof(decl), .kind = RP_COUNTER_OBSERVED_SUM, .name = name, .unit = unit,
		.display_name = display_name, .observe = observe, .data = total,
	};
	struct rp_counter *counter;
	int ret = rp_counter_create(nginx_provider(), &decl, &counter);

	return ret == 0 || ret == -EEXIST;
}

ngx_int_t ringpipe_counters_init(void)
{
	return count("requests", "requests", "Requests by the class of their status",
		     observe_requests, NULL) &&
	       count("upstream_requests", "requests", "Requests to upstream servers",
		     ringpipe_observe_upstreams, NULL) &&
	       count("bytes_sent", "By", "Bytes sent to clients", observe_total,
		     &totals.bytes_sent) &&
	       count("bytes_received", "By", "Bytes of requests received", observe_total,
		     &totals.bytes_received) ? NGX_OK : NGX_ERROR;
}

#define REWRITE 1	/* the place of the phase where requests begin */

/* In the order of nginx's table. */
static const struct {
	ngx_http_phases phase;
	int (*start)(void);
	int (*stop)(uint64_t duration_ns);
} phases[RINGPIPE_PHASES] = {
	{ NGX_HTTP_SERVER_REWRITE_PHASE, nginx_server_rewrite_phase_start,
	  nginx_server_rewrite_phase_stop },
	{ NGX_HTTP_REWRITE_PHASE, nginx_rewrite_phase_start, nginx_rewrite_phase_stop },
	{ NGX_HTTP_PREACCESS_PHASE, nginx_preaccess_phase_start, nginx_preaccess_phase_stop },
	{ NGX_HTTP_ACCESS_PHASE, nginx_access_phase_start, nginx_access_phase_stop },
	{ NGX_HTTP_PRECONTENT_PHASE, nginx_precontent_phase_start, nginx_precontent_phase_stop },
	{ NGX_HTTP_CONTENT_PHASE, nginx_content_phase_start, nginx_content_phase_stop },
};

/* A phase without handlers shares the first handler of the next phase. */
static ngx_int_t check_phase(ngx_http_request_t *r, ngx_http_phase_handler_t *ph)
{
	struct ringpipe_main *ours = main_of(r);
	enum ringpipe_checkers checkers = ours->checkers;
	ngx_http_phase_handler_pt checker = NULL;
	const struct ringpipe_request *request;
	struct ringpipe_watch watch;
	ngx_int_t ret;

	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES && ours->first[i] <= ph; i++) {
		checker = ours->own_checker[i];
		if (ours->first[i] != ph)
			continue;
		request = i == REWRITE && r == r->main ? begin_request(r) : NULL;
		if (request && request->has_context)
			set_header(r, request);
		if (checkers == RINGPIPE_CHECK_ALL)
			change_phase(r, phases[i].start, phases[i].stop);
	}
	/* The handler of the content may choose an upstream server. */
	if (ph == ours->first[RINGPIPE_PHASES - 1])
		ringpipe_watch_begin(&watch, r);
	ret = checker(r, ph);
	if (ph == ours->first[RINGPIPE_PHASES - 1])
		ringpipe_watch_end(&watch, r);
	/* The handler, such as Lua's, may have moved to the end of its phase with our checker. */
	if (ph->checker != check_phase && ours->checkers == checkers) {
		ph->checker = check_phase;
		while ((++ph)->checker != check_phase)
			;
		ph->checker = checker;
	}
	return ret;
}

/* Precedes the handlers of the log phase. on_log() ends its span with the request. */
static ngx_int_t on_log_phase(ngx_http_request_t *r)
{
	change_phase(r, nginx_log_phase_start, nginx_log_phase_stop);
	return main_of(r)->first_log_handler(r);
}

/* The number of configurations whose phases have ringpipe's checkers. */
static ngx_uint_t replaced;

static void set_checkers(struct ringpipe_main *ours, enum ringpipe_checkers checkers)
{
	replaced += (checkers != RINGPIPE_CHECK_NONE) - (ours->checkers != RINGPIPE_CHECK_NONE);
	ours->checkers = checkers;
	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++) {
		bool is_ours = checkers == RINGPIPE_CHECK_ALL ||
			(checkers && ours->first[i] == ours->first[REWRITE]);

		ours->first[i]->checker = is_ours ? check_phase : ours->own_checker[i];
	}
	*ours->log_handlers = checkers == RINGPIPE_CHECK_ALL ? on_log_phase :
		ours->first_log_handler;
}

static __attribute__((noinline)) ngx_int_t trace_request(ngx_http_request_t *r)
{
	struct ringpipe_main *ours = main_of(r);
	struct ringpipe_request *request;
	enum ringpipe_checkers checkers = RINGPIPE_CHECK_NONE;

	if (nginx_content_phase_start_enabled() | nginx_upstream_start_enabled())
		checkers = RINGPIPE_CHECK_ALL;
	else if (is_traced())
		checkers = RINGPIPE_CHECK_REQUESTS;
	if (checkers != ours->checkers)
		set_checkers(ours, checkers);
	request = checkers == RINGPIPE_CHECK_ALL ? find_or_create(r) : NULL;
	if (request) {
		choose_spans(r, request);
		change_phase(r, nginx_post_read_phase_start, nginx_post_read_phase_stop);
	}
	return NGX_AGAIN;
}

/* The checker of our mark in the first phase. It calls the next one itself, faster than nginx. */
static ngx_int_t enter(ngx_http_request_t *r, ngx_http_phase_handler_t *ph)
{
	r->phase_handler++;
	if (is_traced() || replaced)
		return trace_request(r);
	ph++;
	return ph->checker(r, ph);
}

ngx_int_t ringpipe_request_init(ngx_conf_t *cf)
{
	ngx_http_core_main_conf_t *core =
		ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
	ngx_http_handler_pt *in = ngx_array_push(&core->phases[NGX_HTTP_POST_READ_PHASE].handlers);
	ngx_http_handler_pt *out = ngx_array_push(&core->phases[NGX_HTTP_LOG_PHASE].handlers);

	if (!in || !out)
		return NGX_ERROR;
	*in = mark;
	*out = on_log;
	header_hash = ngx_hash_key(header_name.data, header_name.len);
	return NGX_OK;
}

/* Returns how many places the phase has in nginx's table, which is in the order of the phases. */
static ngx_uint_t places_of(const ngx_http_core_main_conf_t *core, ngx_uint_t phase)
{
	if (phase == NGX_HTTP_FIND_CONFIG_PHASE)
		return 1;
	if (phase == NGX_HTTP_POST_REWRITE_PHASE || phase == NGX_HTTP_POST_ACCESS_PHASE)
		return core->phases[phase - 1].handlers.nelts != 0;
	return core->phases[phase].handlers.nelts;
}

void ringpipe_phases_init(ngx_cycle_t *cycle)
{
	ngx_http_core_main_conf_t *core;
	ngx_http_phase_handler_t *ph;
	struct ringpipe_main *ours;
	ngx_uint_t phase = 0;

	if (!cycle->conf_ctx[ngx_http_module.index])
		return;	/* without `http` */
	ours = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_ringpipe_module);
	core = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_core_module);
	ours->log_handlers = core->phases[NGX_HTTP_LOG_PHASE].handlers.elts;
	ours->first_log_handler = *ours->log_handlers;
	for (ph = core->phase_engine.handlers; ph->handler != mark; ph++)
		;
	ph->checker = enter;
	ph = core->phase_engine.handlers;
	for (ngx_uint_t i = 0; i < RINGPIPE_PHASES; i++) {
		while (phase < phases[i].phase)
			ph += places_of(core, phase++);
		ours->first[i] = ph;
		ours->own_checker[i] = ph->checker;
	}
}

/* A request without spans gets its ids when a variable is first read. */
ngx_int_t ringpipe_get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *value,
				uintptr_t which)
{
	/* In VERSION-TRACE-SPAN-FLAGS, by RINGPIPE_TRACE_ID, _SPAN_ID and _TRACEPARENT. */
	static const uint8_t from[] = { 3, 36, 0 }, size[] = { 32, 16, 55 };
	struct ringpipe_request *request = find_or_create(r);
	char *text = ngx_pnalloc(r->pool, RP_TRACEPARENT_SIZE);

	if (!request || !text)
		return NGX_ERROR;
	if (!request->has_trace)
		begin_trace(r, request);
	rp_traceparent_print(&request->activity, request->flags, text);
	value->data = (u_char *)text + from[which];
	value->len = size[which];
	value->valid = 1;
	value->no_cacheable = 0;
	value->not_found = 0;
	return NGX_OK;
}
