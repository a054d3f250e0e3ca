/* SPDX-License-Identifier: MIT */
/* Names of functions from DWARF and from the servers of debuginfod(8), after the recording. */
#ifndef RP_RECORD_SERVER_NAMES_H
#define RP_RECORD_SERVER_NAMES_H

#include <stdbool.h>

/*
 * If DEBUGINFOD_URLS is set, or inlined functions are wanted, run the program of `ringpipe
 * symbolize` on the trace, and replace the trace by the one with more names. A signal to stop ends
 * the program, and the trace stays as it is. Reports on standard error what it does, and why it
 * fails.
 */
void rp_server_names_add(const char *path, bool has_inlines, int signal_fd);

#endif
