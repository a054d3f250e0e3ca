/* SPDX-License-Identifier: MIT */
/* Loads the module that passes events to LTTng-UST. */
#ifndef RP_EXPORT_LTTNG_H
#define RP_EXPORT_LTTNG_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Load the module and register it as an exporter, once. Return: 0; -ENOENT: it cannot be loaded,
 * for the reason in `ret_reason`; -ENOTSUP: it belongs to another version; as
 * rp_exporter_register().
 */
int rp_lttng_load(char *ret_reason, size_t space);

/*
 * Return: whether a session daemon of LTTng listens for programs of this user. The function looks
 * for a socket lttng-ust-sock-* in /var/run/lttng, in $LTTNG_UST_APP_PATH, and in
 * $LTTNG_HOME/.lttng, with HOME as the default of LTTNG_HOME. A missing directory costs one system
 * call. A program with another user's rights uses only the first directory.
 */
bool rp_lttng_has_daemon(void);

#endif
