/* SPDX-License-Identifier: MIT */
#include "tools/view/view_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/signals.h"
#include "tools/view/view_browser.h"
#include "tools/view/view_file.h"
#include "tools/view/view_load.h"
#include "tools/view/view_server.h"

/* Wait for a signal that ends the command. */
static void wait_for_signal(int signal_fd)
{
	struct pollfd waiting = { .fd = signal_fd, .events = POLLIN };

	while (poll(&waiting, 1, -1) < 0 && errno == EINTR)
		;
}

static int serve(struct rp_traces *view, const struct rp_tool_options *options)
{
	struct rp_view_server *server;
	char *browser_file = NULL;

	if (rp_view_load_create(view, &view->load) < 0) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	if (rp_view_server_start(view, options->given & RP_OPTION_VIEW_PORT ? options->port : 0,
				 &server) < 0) {
		rp_view_load_destroy(view->load);
		return RP_EXIT_FAILURE;
	}
	puts(rp_view_server_url(server));
	if (fflush(stdout) == 0) {
		if (options->given & RP_OPTION_OPEN)
			browser_file = rp_view_browser_open(rp_view_server_url(server));
		wait_for_signal(view->signal_fd);
		rp_view_browser_close(browser_file);
		/*
		 * The server ends with the process, because libmicrohttpd 0.9.75 crashes if it is
		 * stopped while it answers a request with an error of its own.
		 */
		_exit(RP_EXIT_OK);
	}
	rp_view_server_stop(server);
	rp_view_load_destroy(view->load);
	return RP_EXIT_OK;
}

static int open_traces(struct rp_traces *view, const struct rp_tool_options *options)
{
	int ret = 0;

	for (int i = 0; ret == 0 && i < options->operand_count; i++)
		ret = rp_view_trace_open(&view->traces[view->count++], options->operands[i],
					 view->signal_fd, !options->html);
	if (ret == -ENOMEM)
		rp_tool_error("out of memory");
	return ret;
}

int rp_view_run(const struct rp_tool_options *options)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	struct rp_traces view = { .lock = &lock };
	int ret = -ENOMEM, status = RP_EXIT_FAILURE;

	for (int i = 0; i < options->operand_count; i++) {
		if (!strcmp(options->operands[i], "-")) {
			rp_tool_error("view: reads the trace several times, so it requires a file");
			return RP_EXIT_USAGE;
		}
	}
	if (options->html && options->given & RP_OPTION_OPEN) {
		rp_tool_error("view: --open is for the address of a page; open the file of --html "
			      "in a browser");
		return RP_EXIT_USAGE;
	}
	view.signal_fd = rp_signals_open();
	if (view.signal_fd < 0) {
		rp_tool_error("view: cannot wait for signals: %s", strerror(-view.signal_fd));
		return RP_EXIT_FAILURE;
	}
	view.traces = calloc((size_t)options->operand_count, sizeof(*view.traces));
	if (view.traces)
		ret = open_traces(&view, options);
	else
		rp_tool_error("out of memory");
	if (ret == 0)
		status = options->html ? rp_view_file_write(&view, options) :
			 serve(&view, options);
	else if (ret == -ECANCELED)
		status = RP_EXIT_GAVE_UP;
	for (size_t i = 0; i < view.count; i++)
		rp_view_trace_close(&view.traces[i]);
	free(view.traces);
	rp_signals_close(view.signal_fd);
	return status;
}
