/* SPDX-License-Identifier: MIT */
/*
 * A process of nginx that serves requests polls for diagnostics clients in its event loop. The
 * thread of libringpipe starts when the first client connects, because libc's locks and file
 * functions cost less while a process has a single thread. The master has no event loop, and
 * serves no diagnostics clients.
 */
#include "module.h"

#include <ngx_event.h>

RP_DIAGNOSTICS(RP_DIAGNOSTICS_ON_DEMAND);

static ngx_connection_t *polled;

/* libringpipe closes the descriptor. */
void ringpipe_diagnostics_end(void)
{
	if (!polled)
		return;
	if (polled->read->active)
		ngx_del_event(polled->read, NGX_READ_EVENT, 0);
	ngx_free_connection(polled);
	polled->fd = (ngx_socket_t)-1;
	polled = NULL;
}

static void start_thread(ngx_log_t *log)
{
	int error = rp_diagnostics_dispatch();

	if (error < 0)
		ngx_log_error(NGX_LOG_ERR, log, -error, "ringpipe cannot serve tools");
	ringpipe_diagnostics_end();
}

static void on_client(ngx_event_t *event)
{
	start_thread(event->log);
}

/* The worker has the user of its requests here. */
ngx_int_t ringpipe_diagnostics_begin(ngx_cycle_t *cycle)
{
	int fd = rp_diagnostics_fd();

	/* The variables turned diagnostics off, or libringpipe has a thread already. */
	if (fd < 0)
		return NGX_OK;
	polled = ngx_get_connection(fd, cycle->log);
	if (polled) {
		polled->read->handler = on_client;
		polled->read->log = cycle->log;
	}
	if (!polled || ngx_add_event(polled->read, NGX_READ_EVENT, 0) != NGX_OK)
		start_thread(cycle->log);
	return NGX_OK;
}
