/* SPDX-License-Identifier: MIT */
/* The parts of the module, each with the hooks by which nginx calls it. */
#ifndef NGX_RINGPIPE_MODULE_H
#define NGX_RINGPIPE_MODULE_H

#include <stdbool.h>

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <ringpipe/ringpipe.h>

/* Directive ringpipe_spans. */
#define RINGPIPE_SPANS_OFF 0x2u
#define RINGPIPE_SPANS_REQUEST 0x4u
#define RINGPIPE_SPANS_PHASE 0x8u
#define RINGPIPE_SPANS_UPSTREAM 0x10u
#define RINGPIPE_SPANS_ALL 0x1cu

struct ringpipe_location {
	ngx_uint_t spans;
	ngx_uint_t sample;		/* one in this many requests has spans */
	ngx_uint_t requests;		/* of this worker, in all locations that inherit `sample` */
	struct ringpipe_location *sampler;	/* with the directive; itself if it inherits none */
	ngx_flag_t trace_context;
};

#define RINGPIPE_PHASES 6	/* from server-rewrite to content */

/* The phases whose checkers ringpipe replaced. */
enum ringpipe_checkers {
	RINGPIPE_CHECK_NONE,
	RINGPIPE_CHECK_REQUESTS,	/* the rewrite phase, where requests begin */
	RINGPIPE_CHECK_ALL,		/* which phases and upstreams need */
};

/* The state of one configuration. After a reload that failed, the former one remains in use. */
struct ringpipe_main {
	struct upstream *upstreams;	/* in the order of nginx's */
	/* The first handler of each phase, and its own checker, which ringpipe may replace. */
	ngx_http_phase_handler_t *first[RINGPIPE_PHASES];
	ngx_http_phase_handler_pt own_checker[RINGPIPE_PHASES];
	ngx_http_handler_pt *log_handlers, first_log_handler;
	enum ringpipe_checkers checkers;
};

/* A request, its internal redirects and its subrequests. */
struct ringpipe_request {
	ngx_http_request_t *r;
	struct rp_activity activity;
	uint64_t begun_ns;		/* of the request's span; 0: it has none */
	ngx_uint_t spans;
	struct ringpipe_location *sampler;	/* which decided on is_sampled */
	struct rp_span phase;
	int (*stop_phase)(uint64_t duration_ns);	/* NULL: no phase has a span */
	ngx_uint_t uri_changes;		/* when the phase began: a redirect begins it again */
	bool *is_freed;			/* set when nginx frees the request; NULL */
	uint8_t flags;			/* of the trace */
	unsigned has_trace:1;
	unsigned has_context:1;		/* the value of trace_context when the trace began */
	unsigned is_sampled:1;
	unsigned is_called:1;		/* the ids are those of the caller */
	unsigned has_location:1;	/* which decided whether it has spans */
};

/* The values of the variables. */
enum { RINGPIPE_TRACE_ID, RINGPIPE_SPAN_ID, RINGPIPE_TRACEPARENT };

/* The file with what needs libringpipe, and what loader.c takes from it. */
#define RINGPIPE_TRACE "ngx_ringpipe_trace.so"

struct ringpipe_hooks {
	size_t size;
	ngx_int_t (*configured)(ngx_conf_t *cf);
	ngx_int_t (*begin_cycle)(ngx_cycle_t *cycle);
	ngx_int_t (*begin_process)(ngx_cycle_t *cycle);
	void (*end_process)(void);
	ngx_int_t (*log_add)(ngx_conf_t *cf, ngx_log_t *log);
	ngx_http_get_variable_pt get_variable;
};

/* loader.c */
extern ngx_module_t ngx_http_ringpipe_module;

/* trace.c */
extern const struct ringpipe_hooks ringpipe_hooks;
uint64_t ringpipe_now_ns(void);

/* Totals of this worker, which other threads load. */
static inline uint64_t ringpipe_load(const uint64_t *total)
{
	return __atomic_load_n(total, __ATOMIC_RELAXED);
}

static inline void ringpipe_add(uint64_t *total, uint64_t by)
{
	__atomic_store_n(total, *total + by, __ATOMIC_RELAXED);
}

/* request.c */
ngx_int_t ringpipe_request_init(ngx_conf_t *cf);
ngx_int_t ringpipe_get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *value,
				uintptr_t which);
ngx_int_t ringpipe_counters_init(void);
extern uint64_t ringpipe_is_observed;	/* not 0: a tool has read the counters */
void ringpipe_phases_init(ngx_cycle_t *cycle);
struct ringpipe_request *ringpipe_request_of(ngx_http_request_t *r);

/* Watches a request while a function of nginx runs that may free it. */
struct ringpipe_watch {
	struct ringpipe_request *request;
	bool is_freed, *outer;
};

void ringpipe_watch_begin(struct ringpipe_watch *watch, ngx_http_request_t *r);
/* Follows the request to its upstream server if it still exists. */
void ringpipe_watch_end(struct ringpipe_watch *watch, ngx_http_request_t *r);

/* upstream.c */
ngx_int_t ringpipe_upstream_init(ngx_conf_t *cf);
void ringpipe_upstream_follow(ngx_http_request_t *r);
int ringpipe_observe_upstreams(struct rp_observation *observation, void *data);

/* connection.c */
void ringpipe_tls_init(ngx_conf_t *cf);
void ringpipe_connection_init(ngx_cycle_t *cycle);

/* diagnostics.c */
ngx_int_t ringpipe_diagnostics_begin(ngx_cycle_t *cycle);
void ringpipe_diagnostics_end(void);

/* log.c */
ngx_int_t ringpipe_log_add(ngx_conf_t *cf, ngx_log_t *log);
void ringpipe_log_init(ngx_cycle_t *cycle);

#endif
