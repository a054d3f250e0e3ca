/* SPDX-License-Identifier: MIT */
/*
 * Exporters: Linux's own tracers have the events, too, by name and typed, without a session.
 */
#ifndef RINGPIPE_EXPORTER_H
#define RINGPIPE_EXPORTER_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/*
 * Hand events to LTTng-UST from now on: each event of the process is one of `lttng list -u`, and
 * is on while a session of LTTng wants it. Needs libringpipe-lttng.so and liblttng-ust. This is
 * what RINGPIPE_LTTNG=1 does, and what the library does by itself when it is loaded while a session
 * daemon of LTTng runs. There is no way back.
 *
 * Context: any thread, not a signal handler or a callback; loads libraries, starts threads. With a
 * session daemon there, waits until it knows the process, as any program with LTTng in it does
 * (LTTNG_UST_REGISTER_TIMEOUT, 3 seconds).
 * Return: 0, also when it does already; -ENOENT: the module or LTTng-UST is not installed;
 * -ENOTSUP: the module belongs to another version of the library; -EAGAIN, -ENOMEM.
 */
RP_PUBLIC int rp_lttng_start(void);

RP_END_DECLS

#endif
