/* SPDX-License-Identifier: MIT */
/* Files by their build id, from the servers of debuginfod(8). */
#ifndef RP_SYMBOLIZE_DEBUG_SERVER_H
#define RP_SYMBOLIZE_DEBUG_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Download the debug file with this build id, or else the file itself. The library of elfutils does
 * it if DEBUGINFOD_URLS is set, and keeps the files in its cache. `is_over` is called at intervals:
 * true stops the download. Return: the path, for free(); NULL: there is none.
 */
char *rp_debug_server_get(const uint8_t *build_id, uint32_t build_id_bytes,
			  bool (*is_over)(void *data), void *data);

#endif
