/* SPDX-License-Identifier: MIT */
/* The sinks there are. Each is made here, then given to rp_session_open(). */
#ifndef RP_SINK_SINK_H
#define RP_SINK_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/sink.h"

/*
 * A sink that streams nettrace to a regular file (or a device). When the disk is full the file is
 * cut back to its last whole block and ended there. `replace`: what it holds goes, with the first
 * write. Owns fd on success. `rundown`: with stacks come what is mapped and, in the end, the names
 * of functions.
 */
int rp_sink_file_create(int fd, bool replace, bool rundown, struct rp_sink **ret_sink);

/*
 * A sink that streams nettrace to a connected socket or a pipe, never waiting. Owns fd on success;
 * `preamble` (copied) goes out before the stream.
 */
int rp_sink_stream_create(int fd, const void *preamble, size_t preamble_bytes, bool rundown,
			  struct rp_sink **ret_sink);

#endif
