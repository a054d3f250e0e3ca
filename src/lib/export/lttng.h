/* SPDX-License-Identifier: MIT */
/* Getting the module that hands events to LTTng-UST. */
#ifndef RP_EXPORT_LTTNG_H
#define RP_EXPORT_LTTNG_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Loads the module and registers it as an exporter, once. Return: 0; -ENOENT: it cannot be loaded,
 * `ret_reason` says why; -ENOTSUP: it belongs to another version; as rp_exporter_register().
 */
int rp_lttng_load(char *ret_reason, size_t space);

/*
 * Whether a session daemon of LTTng listens for programs of this user: whether there is a socket
 * lttng-ust-sock-* in /var/run/lttng, $LTTNG_UST_APP_PATH, or $LTTNG_HOME/.lttng, where HOME stands
 * in for LTTNG_HOME. One system call for each directory that is not there. In a program that runs
 * with another user's rights only the first counts.
 */
bool rp_lttng_has_daemon(void);

#endif
