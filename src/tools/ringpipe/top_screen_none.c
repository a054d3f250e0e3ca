/* SPDX-License-Identifier: MIT */
/* The terminal form of `ringpipe top`, in a build without ncurses: there is none. */
#include <errno.h>
#include <stddef.h>

#include "tools/ringpipe/top.h"

int rp_top_screen_open(struct rp_top_screen **ret_screen)
{
	(void)ret_screen;
	return -ENOSYS;
}

void rp_top_screen_close(struct rp_top_screen *screen)
{
	(void)screen;
}

void rp_top_screen_abandon(struct rp_top_screen *screen)
{
	(void)screen;
}

void rp_top_screen_show(struct rp_top_screen *screen, struct rp_top_view *view)
{
	(void)screen;
	(void)view;
}

enum rp_top_wish rp_top_screen_wait(struct rp_top_screen *screen, int fd, int timeout_ms)
{
	(void)screen;
	(void)fd;
	(void)timeout_ms;
	return RP_TOP_QUIT;
}

pid_t rp_top_screen_choose(struct rp_top_screen *screen, int signal_fd)
{
	(void)screen;
	(void)signal_fd;
	return 0;
}
