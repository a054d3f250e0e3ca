/* SPDX-License-Identifier: MIT */
/*
 * Exporters pass events with their names and typed fields to other tracers, such as LTTng. They
 * need no session of this library.
 */
#ifndef RINGPIPE_EXPORTER_H
#define RINGPIPE_EXPORTER_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/*
 * Hand events to LTTng-UST from now on. `lttng list -u` then lists each event of the process, and
 * an event is enabled while a session of LTTng wants it. The function needs libringpipe-lttng.so
 * and liblttng-ust. RINGPIPE_LTTNG=1 has the same effect, and so has loading the library while a
 * session daemon of LTTng runs. The process cannot undo this call.
 *
 * Context: any thread, not a signal handler or a callback; loads libraries, starts threads. If a
 * session daemon runs, waits until the daemon has registered the process, as any program with LTTng
 * does (LTTNG_UST_REGISTER_TIMEOUT, 3 seconds).
 * Return: 0, even if events already go to LTTng-UST; -ENOENT if the module or LTTng-UST is not
 * installed; -ENOTSUP if the module belongs to another version of the library; -EAGAIN if a thread
 * cannot be created; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_lttng_start(void);

RP_END_DECLS

#endif
