/* SPDX-License-Identifier: MIT */
/* Shared by the files of `ringpipe top`: the command, and the terminal. */
#ifndef RP_TOOL_TOP_H
#define RP_TOOL_TOP_H

#include "tools/cli/tool.h"
#include "tools/ringpipe/top_view.h"

/* The user's choices on the terminal. */
enum rp_top_wish {
	RP_TOP_GO_ON,
	RP_TOP_QUIT,
	RP_TOP_CHOOSE,			/* another process */
};

struct rp_top_screen;

/*
 * Show a screen on the terminal of standard input and output. rp_top_screen_close() restores the
 * settings of the terminal and what it showed before, and prints the messages that went to standard
 * error meanwhile.
 * Return: 0; -ENOTTY: there is no terminal that can be used; -ENOSYS: built without ncurses;
 * -ENOMEM; -errno.
 */
int rp_top_screen_open(struct rp_top_screen **ret_screen);
void rp_top_screen_close(struct rp_top_screen *screen);

/*
 * Restore the settings of the terminal and the messages, while another thread is blocked in writing
 * to the terminal. `screen` may be NULL. Nothing else may be called afterwards.
 */
void rp_top_screen_abandon(struct rp_top_screen *screen);

/* Show the view, unless the user paused; with `view` NULL, show the previous one again. */
void rp_top_screen_show(struct rp_top_screen *screen, struct rp_top_view *view);

/*
 * Wait for keys and signals of the terminal, until `timeout_ms` is over, `fd` is readable or the
 * user has a wish.
 */
enum rp_top_wish rp_top_screen_wait(struct rp_top_screen *screen, int fd, int timeout_ms);

/*
 * Let the user choose one of the processes that can be traced.
 * @signal_fd: of rp_signals_open()
 * Return: the process id; 0: the user quit, or a signal arrived.
 */
pid_t rp_top_screen_choose(struct rp_top_screen *screen, int signal_fd);

#endif
