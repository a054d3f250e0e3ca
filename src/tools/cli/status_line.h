/* SPDX-License-Identifier: MIT */
/* The status line on standard error, which must be a terminal. */
#ifndef RP_TOOL_STATUS_LINE_H
#define RP_TOOL_STATUS_LINE_H

/*
 * Replace the line. Print nothing while the terminal accepts no output (Ctrl-S, or a pseudoterminal
 * that is not read): the caller would wait there and neglect what it records.
 */
void rp_status_line_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Remove the line, under the same condition. */
void rp_status_line_clear(void);

#endif
