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
	ngx_uint_t requests;		/* of this worker */
	ngx_flag_t trace_context;
};

/* The first handler of a phase. While phases are traced, ringpipe replaces its checker. */
struct ringpipe_phase {
	ngx_http_phase_handler_t *first;
	ngx_http_phase_handler_pt checker;	/* nginx's */
};

#define RINGPIPE_PHASES 5	/* with checkers */

/* The state of one configuration. After a reload that failed, the former one remains in use. */
struct ringpipe_main {
	struct upstream *upstreams;
	ngx_uint_t upstream_count;
	struct ringpipe_phase phases[RINGPIPE_PHASES];
	ngx_http_handler_pt *log_handlers, first_log_handler;
	bool has_checkers;		/* ringpipe's, which phases and upstreams need */
};

/* A request, its internal redirects and its subrequests. */
struct ringpipe_request {
	struct rp_activity activity;
	uint64_t begun_ns;		/* 0: it has no spans */
	ngx_uint_t spans;
	struct rp_span phase;
	void (*end_phase)(struct rp_span *span);
	bool *is_freed;			/* set when nginx frees the request; NULL */
	uint8_t flags;			/* of the trace */
	unsigned has_trace:1;
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

/* request.c */
ngx_int_t ringpipe_request_init(ngx_conf_t *cf);
ngx_int_t ringpipe_get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *value,
				uintptr_t which);
ngx_int_t ringpipe_counters_init(void);
void ringpipe_phases_init(ngx_cycle_t *cycle);
struct ringpipe_request *ringpipe_request_of(ngx_http_request_t *r);

/* Watches a request while a function of nginx runs that may free it. */
struct ringpipe_watch {
	struct ringpipe_request *request;
	bool is_freed, *outer;
};

void ringpipe_watch_begin(struct ringpipe_watch *watch, ngx_http_request_t *r);
bool ringpipe_watch_end(struct ringpipe_watch *watch);	/* true: the request still exists */

/* upstream.c */
ngx_int_t ringpipe_upstream_init(ngx_conf_t *cf);
void ringpipe_upstream_follow(ngx_http_request_t *r);

/* connection.c */
ngx_int_t ringpipe_tls_init(ngx_conf_t *cf);
void ringpipe_connection_init(ngx_cycle_t *cycle);

/* diagnostics.c */
ngx_int_t ringpipe_diagnostics_begin(ngx_cycle_t *cycle);
void ringpipe_diagnostics_end(void);

/* log.c */
ngx_int_t ringpipe_log_add(ngx_conf_t *cf, ngx_log_t *log);
void ringpipe_log_init(ngx_cycle_t *cycle);

#endif
