/* SPDX-License-Identifier: MIT */
/*
 * All that a program which writes events needs. reader.h stands apart.
 *
 * No function declared here is a cancellation point, and callbacks run with cancellation turned
 * off: a thread that pthread_cancel(3) is called for is cancelled after the call.
 */
#ifndef RINGPIPE_RINGPIPE_H
#define RINGPIPE_RINGPIPE_H

#include <ringpipe/activity.h>
#include <ringpipe/counter.h>
#include <ringpipe/diagnostics.h>
#include <ringpipe/event.h>
#include <ringpipe/exporter.h>
#include <ringpipe/field.h>
#include <ringpipe/host.h>
#include <ringpipe/listener.h>
#include <ringpipe/log.h>
#include <ringpipe/prepare.h>
#include <ringpipe/provider.h>
#include <ringpipe/session.h>
#include <ringpipe/span.h>
#include <ringpipe/trigger.h>
#include <ringpipe/types.h>

#endif
